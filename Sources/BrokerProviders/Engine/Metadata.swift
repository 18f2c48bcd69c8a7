import Broker

/// A provider's endpoints, and the features that it supports, from its metadata and the configuration.
struct Metadata: Sendable {
    var issuer: String?
    var authorization: EndpointURL?
    var token: EndpointURL?
    var refresh: EndpointURL?
    var userinfo: EndpointURL?
    var jwks: EndpointURL?
    var revocation: EndpointURL?
    var endSession: EndpointURL?
    var introspection: EndpointURL?
    var pushedAuthorization: EndpointURL?
    /// The members whose values are not usable URLs, each with its name in the document.
    ///
    /// `usable` throws for such a member, so a faulty URL matters only if its endpoint is needed (decision 80).
    var unusable: [Member: String] = [:]
    /// The aliases whose values are not usable URLs.
    private var unusableAliases: Set<Member> = []
    /// `mtls_endpoint_aliases` (RFC 8705 section 5): the endpoints for clients with a certificate.
    var aliases = EndpointSettings()
    /// Further addresses of the authorization server: the endpoints for device grants, CIBA and registration, all aliases, and
    /// URLs that may not be called.
    ///
    /// Backends get no DPoP proofs for these addresses.
    var uncalled: [EndpointURL] = []
    /// `authorization_response_iss_parameter_supported` (RFC 9207).
    var promisesIssuer = false
    /// `tls_client_certificate_bound_access_tokens` (RFC 8705 section 3.3).
    var bindsToCertificates = false
    /// `require_pushed_authorization_requests` (RFC 9126).
    var requiresPushedAuthorization = false
    /// `code_challenge_methods_supported`; nil if the document lacks it.
    var challengeMethods: [String]?
    /// `token_endpoint_auth_methods_supported`; nil if the document lacks it.
    var tokenMethods: [String]?
    /// `revocation_endpoint_auth_methods_supported`; nil if the document lacks it.
    var revocationMethods: [String]?
    /// `id_token_signing_alg_values_supported`; nil if the document lacks it.
    var idTokenAlgorithms: [String]?
    /// `token_endpoint_auth_signing_alg_values_supported`; nil if the document lacks it.
    var assertionAlgorithms: [String]?
    /// `dpop_signing_alg_values_supported`; nil if the document lacks it.
    var proofAlgorithms: [String]?

    /// Creates metadata from values in the configuration.
    init(issuer: String?, endpoints: EndpointSettings) {
        self.issuer = issuer
        apply(endpoints)
    }

    /// A member of the document that names an endpoint.
    enum Member: String, Sendable, CaseIterable {
        case authorization = "authorization_endpoint"
        case token = "token_endpoint"
        case userinfo = "userinfo_endpoint"
        case jwks = "jwks_uri"
        case revocation = "revocation_endpoint"
        case introspection = "introspection_endpoint"
        case endSession = "end_session_endpoint"
        case pushedAuthorization = "pushed_authorization_request_endpoint"

        var path: WritableKeyPath<Metadata, EndpointURL?> {
            switch self {
            case .authorization: \.authorization
            case .token: \.token
            case .userinfo: \.userinfo
            case .jwks: \.jwks
            case .revocation: \.revocation
            case .introspection: \.introspection
            case .endSession: \.endSession
            case .pushedAuthorization: \.pushedAuthorization
            }
        }

        /// The members with aliases for clients with a certificate.
        static let aliased: [Member] = [.token, .userinfo, .revocation, .pushedAuthorization]
    }

    /// Reads a metadata document.
    ///
    /// `allows` decides whether an endpoint may be called (SEC-24). A URL that may not be called is listed in `unusable`. An
    /// empty member counts as absent.
    init(document: JSONObject, issuer: String, allows: (EndpointURL) -> Bool) {
        self.issuer = issuer
        for member in Member.allCases {
            switch Self.endpoint(document[member.rawValue], allows) {
            case .absent: break
            case .usable(let url): self[keyPath: member.path] = url
            case .unusable(let url):
                unusable[member] = member.rawValue
                // The URL may still be the server's own endpoint, so backends must get no proofs for this URL.
                if let url { uncalled.append(url) }
            }
        }
        uncalled += [
            "device_authorization_endpoint", "backchannel_authentication_endpoint", "registration_endpoint",
        ].compactMap { document[$0]?.string.flatMap(EndpointURL.init) }
        switch document["mtls_endpoint_aliases"] {
        case nil, .null, .string(""): break
        case .object(let object): readAliases(object, allows)
        default: unusableAliases = Set(Member.aliased)
        }
        bindsToCertificates = document["tls_client_certificate_bound_access_tokens"]?.bool ?? false
        promisesIssuer = document["authorization_response_iss_parameter_supported"]?.bool ?? false
        // Some servers write the value as text. Treat an unclear value as true, because a pushed request is more secure than a
        // URL with all parameters.
        switch document["require_pushed_authorization_requests"] {
        case nil, .null, .bool(false), .string(""), .string("false"): requiresPushedAuthorization = false
        default: requiresPushedAuthorization = true
        }
        func texts(_ name: String) -> [String]? { document[name]?.array?.compactMap(\.string) }
        challengeMethods = texts("code_challenge_methods_supported")
        tokenMethods = texts("token_endpoint_auth_methods_supported")
        revocationMethods = texts("revocation_endpoint_auth_methods_supported")
        idTokenAlgorithms = texts("id_token_signing_alg_values_supported")
        assertionAlgorithms = texts("token_endpoint_auth_signing_alg_values_supported")
        proofAlgorithms = texts("dpop_signing_alg_values_supported")
    }

    private enum Endpoint {
        case absent
        case usable(EndpointURL)
        case unusable(EndpointURL?)
    }

    private static func endpoint(_ member: JSONValue?, _ allows: (EndpointURL) -> Bool) -> Endpoint {
        switch member {
        case nil, .null, .string(""): return .absent
        default:
            let url = member?.string.flatMap(EndpointURL.init)
            return url.map { allows($0) ? .usable($0) : .unusable($0) } ?? .unusable(nil)
        }
    }

    /// Reads the aliases of endpoints that the broker calls; `allows` applies to aliases too.
    ///
    /// Aliases for authorization, keys and log-out are ignored, because calls to these endpoints show no client certificate.
    private mutating func readAliases(_ object: JSONObject, _ allows: (EndpointURL) -> Bool) {
        uncalled += object.names.compactMap { object[$0]?.string.flatMap(EndpointURL.init) }
        for member in Member.aliased {
            switch Self.endpoint(object[member.rawValue], allows) {
            case .absent: break
            case .unusable: unusableAliases.insert(member)
            case .usable(let url):
                switch member {
                case .token: aliases.token = url
                case .userinfo: aliases.userinfo = url
                case .revocation: aliases.revocation = url.text
                default: aliases.par = url
                }
            }
        }
    }

    /// Returns the URL of an endpoint; nil if the document lacks it.
    ///
    /// Throws if the document names a URL for the endpoint, but this URL may not be called.
    func usable(_ member: Member) throws(ProviderFailure) -> EndpointURL? {
        if let name = unusable[member] { throw .unusable(detail: "metadata: \(name) is not a URL to call") }
        return self[keyPath: member.path]
    }

    /// Returns the metadata for a client with a certificate: its endpoints are the aliases, unless the configuration names an
    /// endpoint.
    ///
    /// If an alias is not a callable URL, its endpoint is unusable. The ordinary endpoint would be a downgrade, because it may
    /// accept calls without a certificate.
    func withAliases(under own: EndpointSettings) -> Metadata {
        var known = self
        let fixed: [Member: EndpointURL?] = [
            .token: own.token, .userinfo: own.userinfo, .revocation: nil, .pushedAuthorization: own.par,
        ]
        let named: [Member: EndpointURL?] = [
            .token: aliases.token, .userinfo: aliases.userinfo,
            .revocation: aliases.revocation.flatMap(EndpointURL.init), .pushedAuthorization: aliases.par,
        ]
        for member in Member.aliased {
            if let url = fixed[member] ?? nil {
                known.set(member, url)
            } else if unusableAliases.contains(member) {
                known[keyPath: member.path] = nil
                known.unusable[member] = "mtls_endpoint_aliases.\(member.rawValue)"
            } else if let url = named[member] ?? nil {
                known.set(member, url)
            }
        }
        return known
    }

    private mutating func set(_ member: Member, _ url: EndpointURL) {
        self[keyPath: member.path] = url
        unusable[member] = nil
    }

    /// Fills missing members from a second document of the same issuer.
    ///
    /// For example, some servers name the revocation endpoint only in the RFC 8414 document (docs/providers/real-servers.md).
    mutating func fill(from other: Metadata) {
        for member in Member.allCases where self[keyPath: member.path] == nil {
            if let url = other[keyPath: member.path] {
                set(member, url)
            } else if unusable[member] == nil {
                unusable[member] = other.unusable[member]
            }
        }
        uncalled += other.uncalled
        if aliases == EndpointSettings(), unusableAliases.isEmpty {
            aliases = other.aliases
            unusableAliases = other.unusableAliases
        }
        bindsToCertificates = bindsToCertificates || other.bindsToCertificates
        revocationMethods = revocationMethods ?? other.revocationMethods
        promisesIssuer = promisesIssuer || other.promisesIssuer
        requiresPushedAuthorization = requiresPushedAuthorization || other.requiresPushedAuthorization
    }

    /// Replaces discovered endpoints with the configured ones, except for revocation, whose URL may contain a client's id.
    mutating func apply(_ endpoints: EndpointSettings) {
        refresh = endpoints.refresh ?? refresh
        let fixed: [(Member, EndpointURL?)] = [
            (.authorization, endpoints.authorization), (.token, endpoints.token), (.userinfo, endpoints.userinfo),
            (.jwks, endpoints.jwks), (.endSession, endpoints.endSession), (.pushedAuthorization, endpoints.par),
        ]
        for case (let member, let url?) in fixed { set(member, url) }
    }
}

/// Fetches a provider's metadata from the locations that follow from its issuer (OpenID Connect Discovery 1.0, RFC 8414).
struct MetadataFetcher: Sendable {
    let settings: ProviderSettings
    let caller: ProviderCaller
    let clock: BrokerClock
    /// The `issuer` that the document must contain, byte for byte: the configured issuer, or Microsoft's template.
    let expectedIssuer: String
    /// Called with the fetched metadata.
    var fetched: @Sendable (Metadata) -> Void = { _ in }

    /// Fetches and checks the metadata; endpoints in the configuration override those in the document.
    func fetch() async -> Result<(value: Metadata, lifetime: Duration), ProviderFailure> {
        guard let issuer = settings.issuer, let url = EndpointURL(issuer), url.query == nil,
            let openID = Self.openIDLocation(url), let oauth = Self.oauthLocation(url)
        else {
            return .failure(.notSent(detail: "no issuer to discover"))
        }
        let isOpenID = settings.service.kind != .oauth2
        var primary: (Metadata, Duration)
        do throws(ProviderFailure) {
            primary = try await document(at: isOpenID ? openID : oauth, from: url)
        } catch {
            // Some servers publish only the document of the other standard, so try the location of that document, too (RFC
            // 8414 section 5).
            guard case .unusable = error, let other = try? await document(at: isOpenID ? oauth : openID, from: url)
            else { return .failure(error) }
            primary = other
        }
        let lacks = [Metadata.Member.authorization, .token, .jwks].contains { primary.0.unusable[$0] != nil }
        if isOpenID, primary.0.revocation == nil || lacks,
            let second = try? await document(at: oauth, from: url)
        {
            primary.0.fill(from: second.0)
        }
        primary.0.apply(settings.endpoints)
        fetched(primary.0)
        return .success((primary.0, primary.1))
    }

    /// Returns one document; throws `unusable` if it is not metadata, or names another issuer.
    ///
    /// For example, an HTML page with status 200 is unusable.
    private func document(
        at location: EndpointURL, from issuer: EndpointURL
    ) async throws(ProviderFailure) -> (Metadata, Duration) {
        let answer = try await caller.send(.get(location), by: caller.ownLimit)
        try answer.requireUsable(at: clock.now())
        guard answer.status == 200, let object = answer.object else {
            throw .unusable(detail: "metadata: \(answer.summaryOfObject), no JSON object")
        }
        guard object["issuer"]?.string?.hasBytes(of: expectedIssuer) == true else {
            throw .unusable(detail: "metadata: another issuer's")
        }
        let metadata = Metadata(document: object, issuer: settings.issuer ?? issuer.text) { endpoint in
            Self.allows(endpoint, from: issuer, allowPrivate: settings.allowPrivate || caller.http.allowsPrivate)
        }
        return (metadata, answer.lifetime)
    }

    /// Returns whether an endpoint may be called.
    ///
    /// The metadata of an issuer on the Internet must not direct calls to this machine or its network (SEC-24).
    static func allows(_ endpoint: EndpointURL, from issuer: EndpointURL, allowPrivate: Bool) -> Bool {
        if issuer.base.isLoopback || allowPrivate { return true }
        let address = endpoint.base.host.flatMap { IPAddress(urlHost: $0) }
        return !endpoint.base.isLoopback && address?.isPublic != false
    }

    static func openIDLocation(_ issuer: EndpointURL) -> EndpointURL? {
        EndpointURL(issuer.withoutSlash.text + "/.well-known/openid-configuration")
    }

    /// Returns the location of the RFC 8414 document, which has `/.well-known/…` between the issuer's host and path (section
    /// 3.1).
    static func oauthLocation(_ issuer: EndpointURL) -> EndpointURL? {
        let path = issuer.base.path == "/" ? "" : issuer.base.path
        return EndpointURL(
            issuer.base.text.dropLast(issuer.base.path.count) + "/.well-known/oauth-authorization-server"
                + (path.hasSuffix("/") ? String(path.dropLast()) : path))
    }
}
