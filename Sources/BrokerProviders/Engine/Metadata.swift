import Broker

/// A provider's endpoints and abilities, from its metadata and the configuration.
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
    /// `mtls_endpoint_aliases` (RFC 8705 section 5): where clients with a certificate call instead.
    var aliases = EndpointSettings()
    /// The endpoints of grants and of registration that nothing here calls.
    var uncalled: [EndpointURL] = []
    /// `authorization_response_iss_parameter_supported` (RFC 9207).
    var promisesIssuer = false
    /// `tls_client_certificate_bound_access_tokens` (RFC 8705 section 3.3).
    var bindsToCertificates = false
    /// `require_pushed_authorization_requests` (RFC 9126).
    var requiresPushedAuthorization = false
    /// `code_challenge_methods_supported`; nil when the document has none.
    var challengeMethods: [String]?
    /// `token_endpoint_auth_methods_supported`; nil when the document has none.
    var tokenMethods: [String]?
    /// `revocation_endpoint_auth_methods_supported`; nil when the document has none.
    var revocationMethods: [String]?
    /// `id_token_signing_alg_values_supported`; nil when the document has none.
    var idTokenAlgorithms: [String]?
    /// `token_endpoint_auth_signing_alg_values_supported`; nil when the document has none.
    var assertionAlgorithms: [String]?
    /// `dpop_signing_alg_values_supported`; nil when the document has none.
    var proofAlgorithms: [String]?

    /// Takes what the configuration fixes.
    init(issuer: String?, endpoints: EndpointSettings) {
        self.issuer = issuer
        apply(endpoints)
    }

    /// Reads a metadata document.
    ///
    /// Each endpoint has to be https (or loopback, when the issuer is); a member that is no such URL is a fault of the
    /// whole document, since a call would go where nobody meant (SEC-24).
    init(document: JSONObject, issuer: String, allows: (EndpointURL) -> Bool) throws(ProviderFailure) {
        self.issuer = issuer
        func endpoint(_ name: String) throws(ProviderFailure) -> EndpointURL? {
            guard let member = document[name], !member.isNull else { return nil }
            guard let text = member.string, let url = EndpointURL(text), allows(url) else {
                throw .unusable(detail: "metadata: \(name) is not a URL to call")
            }
            return url
        }
        authorization = try endpoint("authorization_endpoint")
        token = try endpoint("token_endpoint")
        userinfo = try endpoint("userinfo_endpoint")
        jwks = try endpoint("jwks_uri")
        revocation = try endpoint("revocation_endpoint")
        // Never called, and held to the same rule.
        introspection = try endpoint("introspection_endpoint")
        endSession = try endpoint("end_session_endpoint")
        pushedAuthorization = try endpoint("pushed_authorization_request_endpoint")
        // No fault of the document, whatever they are.
        uncalled = [
            "device_authorization_endpoint", "backchannel_authentication_endpoint", "registration_endpoint",
        ].compactMap { document[$0]?.string.flatMap(EndpointURL.init) }
        if let own = document["mtls_endpoint_aliases"], !own.isNull {
            guard let object = own.object else {
                throw .unusable(detail: "metadata: mtls_endpoint_aliases is no object")
            }
            aliases = try Self.aliases(object, allows: allows)
            uncalled += object.names.compactMap { object[$0]?.string.flatMap(EndpointURL.init) }
        }
        bindsToCertificates = document["tls_client_certificate_bound_access_tokens"]?.bool ?? false
        promisesIssuer = document["authorization_response_iss_parameter_supported"]?.bool ?? false
        requiresPushedAuthorization = document["require_pushed_authorization_requests"]?.bool ?? false
        func texts(_ name: String) -> [String]? { document[name]?.array?.compactMap(\.string) }
        challengeMethods = texts("code_challenge_methods_supported")
        tokenMethods = texts("token_endpoint_auth_methods_supported")
        revocationMethods = texts("revocation_endpoint_auth_methods_supported")
        idTokenAlgorithms = texts("id_token_signing_alg_values_supported")
        assertionAlgorithms = texts("token_endpoint_auth_signing_alg_values_supported")
        proofAlgorithms = texts("dpop_signing_alg_values_supported")
    }

    /// Reads the aliases that are called, by the rule of all endpoints; those that are never anybody's but the user agent's or
    /// nobody's (authorization, keys, log-out) stay where they are.
    private static func aliases(
        _ object: JSONObject, allows: (EndpointURL) -> Bool
    ) throws(ProviderFailure) -> EndpointSettings {
        func endpoint(_ name: String) throws(ProviderFailure) -> EndpointURL? {
            guard let member = object[name], !member.isNull else { return nil }
            guard let text = member.string, let url = EndpointURL(text), allows(url) else {
                throw .unusable(detail: "metadata: mtls_endpoint_aliases.\(name) is not a URL to call")
            }
            return url
        }
        return EndpointSettings(
            token: try endpoint("token_endpoint"), userinfo: try endpoint("userinfo_endpoint"),
            revocation: try endpoint("revocation_endpoint")?.text,
            par: try endpoint("pushed_authorization_request_endpoint"))
    }

    /// Returns the endpoints for a client with a certificate: the aliases, unless the configuration names one.
    func withAliases(under own: EndpointSettings) -> Metadata {
        var known = self
        known.token = own.token ?? aliases.token ?? token
        known.userinfo = own.userinfo ?? aliases.userinfo ?? userinfo
        known.revocation = aliases.revocation.flatMap(EndpointURL.init) ?? revocation
        known.pushedAuthorization = own.par ?? aliases.par ?? pushedAuthorization
        return known
    }

    /// Fills what this document lacks from a second one of the same issuer (revocation may stand only in the RFC 8414
    /// document: docs/providers/real-servers.md).
    mutating func fill(from other: Metadata) {
        authorization = authorization ?? other.authorization
        token = token ?? other.token
        userinfo = userinfo ?? other.userinfo
        jwks = jwks ?? other.jwks
        revocation = revocation ?? other.revocation
        endSession = endSession ?? other.endSession
        introspection = introspection ?? other.introspection
        pushedAuthorization = pushedAuthorization ?? other.pushedAuthorization
        uncalled += other.uncalled
        if aliases == EndpointSettings() { aliases = other.aliases }
        bindsToCertificates = bindsToCertificates || other.bindsToCertificates
        revocationMethods = revocationMethods ?? other.revocationMethods
        promisesIssuer = promisesIssuer || other.promisesIssuer
        requiresPushedAuthorization = requiresPushedAuthorization || other.requiresPushedAuthorization
    }

    /// Puts the configuration's endpoints over the discovered ones.
    mutating func apply(_ endpoints: EndpointSettings) {
        authorization = endpoints.authorization ?? authorization
        token = endpoints.token ?? token
        refresh = endpoints.refresh ?? refresh
        userinfo = endpoints.userinfo ?? userinfo
        jwks = endpoints.jwks ?? jwks
        endSession = endpoints.endSession ?? endSession
        pushedAuthorization = endpoints.par ?? pushedAuthorization
    }
}

/// Fetches a provider's metadata from the places that its issuer names (OpenID Connect Discovery 1.0, RFC 8414).
struct MetadataFetcher: Sendable {
    let settings: ProviderSettings
    let caller: ProviderCaller
    let clock: BrokerClock
    /// The `issuer` that the document has to hold, byte for byte: the configured one, or Microsoft's template.
    let expectedIssuer: String

    /// Fetches and checks; the configuration's endpoints win over discovered ones.
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
            // RFC 8414 section 5: clients of either kind find servers that publish only the other document.
            guard case .unusable = error, let other = try? await document(at: isOpenID ? oauth : openID, from: url)
            else { return .failure(error) }
            primary = other
        }
        if isOpenID, primary.0.revocation == nil,
            let second = try? await document(at: oauth, from: url)
        {
            primary.0.fill(from: second.0)
        }
        primary.0.apply(settings.endpoints)
        return .success((primary.0, primary.1))
    }

    /// One document; `unusable` when it is no metadata or another issuer's.
    ///
    /// An HTML page with status 200 is no metadata.
    private func document(
        at location: EndpointURL, from issuer: EndpointURL
    ) async throws(ProviderFailure) -> (Metadata, Duration) {
        let answer = try await caller.send(.get(location), by: caller.ownLimit)
        try answer.requireUsable(at: clock.now())
        guard answer.status == 200, let object = answer.object else {
            throw .unusable(detail: "metadata: \(answer.summary), no JSON object")
        }
        guard object["issuer"]?.string?.hasBytes(of: expectedIssuer) == true else {
            throw .unusable(detail: "metadata: another issuer's")
        }
        let metadata = try Metadata(document: object, issuer: settings.issuer ?? issuer.text) { endpoint in
            Self.allows(endpoint, from: issuer, allowPrivate: settings.allowPrivate || caller.http.allowsPrivate)
        }
        return (metadata, answer.lifetime)
    }

    /// An issuer out on the internet may not point us at ourselves or into our network (SEC-24).
    static func allows(_ endpoint: EndpointURL, from issuer: EndpointURL, allowPrivate: Bool) -> Bool {
        if issuer.isLoopback || allowPrivate { return true }
        let address = endpoint.base.host.flatMap { IPAddress(urlHost: $0) }
        return !endpoint.isLoopback && address?.isPublic != false
    }

    static func openIDLocation(_ issuer: EndpointURL) -> EndpointURL? {
        EndpointURL(issuer.withoutSlash.text + "/.well-known/openid-configuration")
    }

    /// RFC 8414 section 3.1: the well-known part goes between host and path.
    static func oauthLocation(_ issuer: EndpointURL) -> EndpointURL? {
        let path = issuer.base.path == "/" ? "" : issuer.base.path
        return EndpointURL(
            issuer.base.text.dropLast(issuer.base.path.count) + "/.well-known/oauth-authorization-server"
                + (path.hasSuffix("/") ? String(path.dropLast()) : path))
    }
}

/// Knows Microsoft's multi-tenant issuers: the configured one names no tenant (`…/common/v2.0`), the metadata holds a
/// template (`…/{tenantid}/v2.0`), and each token names its own tenant.
enum IssuerTemplate {
    private static let placeholder = "{tenantid}"
    private static let everybody = ["common", "organizations"]

    /// Returns whether a `tid` can be a tenant's: the names that stand for all of them are nobody's.
    static func isTenant(_ tenant: String) -> Bool { !everybody.contains(tenant) }

    /// Returns whether an issuer is the template's with no tenant named; a tenant's own issuer is an ordinary one.
    static func covers(_ issuer: String, _ template: String) -> Bool {
        everybody.contains { template.replacing(placeholder, with: $0) == issuer }
    }

    /// Returns what the metadata's `issuer` has to be.
    static func issuer(of settings: ProviderSettings) -> String {
        let issuer = settings.issuer ?? ""
        let template = settings.clients.lazy.compactMap(\.wire.idToken.issuerTemplate).first
        return template.flatMap { covers(issuer, $0) ? $0 : nil } ?? issuer
    }
}
