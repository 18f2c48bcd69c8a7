package import Broker

/// The configuration of one upstream: its location, the sessions that may call it, and the allowed calls.
package struct UpstreamSettings: Sendable {
    package let name: UpstreamName
    package let base: UpstreamBase
    /// The provider whose tokens the upstream accepts (SEC-72).
    package let provider: ProviderName
    /// The clients whose sessions may call the upstream; nil means all of the provider's.
    package let clients: Set<ClientName>?
    package let allow: AllowList
    /// The form in which the upstream expects the access token.
    package let credential: TokenSet.Credential
    /// The form in which a token that is bound to a key is sent.
    package var proof = ProofPresentation()
    /// The certificate and trust roots of the setting `tls`.
    package var tls = UpstreamTLS()
    /// The further request fields that are sent to the upstream, with names in lower case.
    package let requestHeaders: Set<String>
    /// The longest time until the head of the response.
    package let timeout: Duration
    /// Whether the upstream may have a private address.
    package let isInternal: Bool
    /// The largest number of calls that may be in progress at the same time.
    package let maximumConcurrent: Int
    /// Whether calls about employees are refused even if `allow` names them (Clover, unless `employees: true`).
    package var hidesEmployees = false
    /// The sign-ins that some calls need.
    package var require: [UpstreamRequirement] = []
    /// The API of the upstream's access tokens; nil for the session's own token.
    package var token: TokenTarget?
    /// Whether the broker passes on the upstream's own challenge for another sign-in (`challenges: pass`).
    package var passesChallenges = true

    /// Returns whether there are sessions that may call both this upstream and the other upstream.
    package func sharesSessions(with other: UpstreamSettings) -> Bool {
        guard provider == other.provider else { return false }
        guard let clients, let others = other.clients else { return true }
        return !clients.isDisjoint(with: others)
    }

    /// The default deadline for a response header.
    package static let defaultTimeout = Duration.seconds(30)

    /// Parses an upstream's settings and reports all faults.
    package init(
        name: UpstreamName, baseURL: String, provider: ProviderName, clients: [ClientName]? = nil, allow: [String],
        credential: TokenSet.Credential = .bearer, requestHeaders: [String] = [],
        timeout: Duration = UpstreamSettings.defaultTimeout, isInternal: Bool = false, maximumConcurrent: Int = 1024
    ) throws(UpstreamFaults) {
        var faults: [UpstreamFault] = []
        var base: UpstreamBase?
        do throws(UpstreamFault) {
            let parsed = try UpstreamBase(baseURL, isInternal: isInternal)
            if let address = parsed.address, !isInternal, !address.isLoopback, !address.isPublic {
                throw UpstreamFault(
                    "base_url", "is at an address that is not public; say `internal: true` if it is meant")
            }
            base = parsed
        } catch {
            faults.append(error)
        }
        var entries: [AllowEntry] = []
        if allow.isEmpty { faults.append(UpstreamFault("allow", "names nothing, so nothing could be called")) }
        for text in allow {
            do throws(UpstreamFault) { entries.append(try AllowEntry(text)) } catch { faults.append(error) }
        }
        var extra: Set<String> = []
        for header in requestHeaders {
            do throws(UpstreamFault) { extra.insert(try RequestHeaderRules.extraName(header)) } catch {
                faults.append(error)
            }
        }
        if clients?.isEmpty == true {
            faults.append(UpstreamFault("clients", "is empty; leave it out for all clients"))
        }
        if timeout <= .zero || timeout > .seconds(600) {
            faults.append(UpstreamFault("timeout", "must be more than 0 and at most 10m"))
        }
        if !(1...65536).contains(maximumConcurrent) {
            faults.append(UpstreamFault("max_concurrent", "must be 1 to 65536"))
        }
        guard let base, faults.isEmpty else { throw UpstreamFaults(faults: faults) }
        self.name = name
        self.base = base
        self.provider = provider
        self.clients = clients.map(Set.init)
        self.allow = AllowList(entries)
        self.credential = credential
        self.requestHeaders = extra
        self.timeout = timeout
        self.isInternal = isInternal
        self.maximumConcurrent = maximumConcurrent
    }
}

/// The form in which an upstream expects tokens that are bound to a key (RFC 9449 section 7).
package struct ProofPresentation: Sendable, Equatable {
    /// The setting `scheme`: the word before the token in the `Authorization` field.
    package enum Scheme: String, Sendable, CaseIterable {
        case dpop = "DPoP"
        /// The scheme for servers that are older than RFC 9449.
        ///
        /// The proof is sent as well.
        case bearer = "Bearer"
    }

    package var scheme = Scheme.dpop
    /// `public_url`: the upstream's own URL, which proofs name, if it differs from `base_url`.
    package var publicBase: UpstreamBase?

    package init() {}
}

/// An upstream's base URL, parsed once and strictly (SEC-71), so that callers cannot alter it.
package struct UpstreamBase: Sendable, Equatable {
    /// Scheme, authority and base path (`https://api.example.com:8443/v1`), ending before any final slash.
    package let prefix: String
    /// The host, stripped of brackets.
    let host: String
    let port: Int
    /// Whether the URL's scheme is https.
    package let isSecure: Bool
    /// The base path, ending before any final slash; empty for the root.
    let path: String
    /// The value of `Host`.
    package let authority: String
    /// Whether the host is a loopback name or address.
    package let isLoopback: Bool
    /// The host's address, if the host is an address.
    package let address: IPAddress?

    /// Scheme and authority.
    package var origin: String { (isSecure ? "https://" : "http://") + authority }

    /// Parses a base URL, which has a host, an optional port and an optional path.
    ///
    /// The scheme is https, or http on loopback or inside the operator's own network (decision 85).
    package init(_ text: String, isInternal: Bool = false) throws(UpstreamFault) {
        func fault(_ message: String) -> UpstreamFault { UpstreamFault("base_url", message) }
        let secure: Bool
        let rest: Substring
        if text.lowercased().hasPrefix("https://") {
            (secure, rest) = (true, text.dropFirst(8))
        } else if text.lowercased().hasPrefix("http://") {
            (secure, rest) = (false, text.dropFirst(7))
        } else {
            throw fault("must begin with https:// (or http:// on loopback, or with `internal: true`)")
        }
        guard !rest.contains(where: { $0 == "?" || $0 == "#" }) else { throw fault("must have no query or fragment") }
        let authorityEnd = rest.firstIndex(of: "/") ?? rest.endIndex
        let authorityText = rest[..<authorityEnd].lowercased()
        guard !authorityText.contains("@") else { throw fault("must have no user information") }
        let (host, port) = try Self.split(authorityText)

        address = IPAddress(urlHost: host)
        isLoopback = IPAddress.isLoopback(urlHost: host)
        guard secure || isLoopback || isInternal else {
            throw fault("must be https:// unless the host is loopback, or inside your own network (`internal: true`)")
        }
        if !secure, let address, !address.isOfOwnNetwork {
            throw fault("must be https://: plain http is for addresses of your own network")
        }

        var path = rest[authorityEnd...]
        if path.last == "/" { path = path.dropLast() }
        let canonical: String
        if path.isEmpty {
            canonical = ""
        } else {
            guard let parsed = try? CanonicalPath(path), parsed.text.last != "/" else {
                throw fault("has a path that would be refused (dot segments, `//`, `;`, bad encodings)")
            }
            canonical = parsed.text
        }
        let isDefaultPort = port == nil || port == (secure ? 443 : 80)
        authority = host + (isDefaultPort ? "" : ":\(port ?? 0)")
        prefix = (secure ? "https://" : "http://") + authority + canonical
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        self.port = port ?? (secure ? 443 : 80)
        isSecure = secure
        self.path = canonical
    }

    /// Returns whether a connection to an address may be used.
    ///
    /// With plain http, the upstream proves no identity, and the token is readable on the network. The address must therefore
    /// be in the operator's own network.
    func allows(_ address: IPAddress?, _ policy: AddressPolicy) -> Bool {
        policy.allows(address) && (isSecure || address?.isOfOwnNetwork == true)
    }

    private static func split(_ authority: String) throws(UpstreamFault) -> (host: String, port: Int?) {
        let hostEnd: String.Index
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else {
                throw UpstreamFault("base_url", "has a host that begins with `[` and does not end")
            }
            hostEnd = authority.index(after: close)
        } else {
            hostEnd = authority.firstIndex(of: ":") ?? authority.endIndex
        }
        let host = String(authority[..<hostEnd])
        let isWellFormed = host.hasPrefix("[") ? IPAddress(urlHost: host) != nil : isName(host)
        guard isWellFormed else { throw UpstreamFault("base_url", "has no well-formed host") }
        guard hostEnd < authority.endIndex else { return (host, nil) }
        let digits = authority[hostEnd...].dropFirst()
        guard authority[hostEnd] == ":", digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = Int(digits), (1...65535).contains(port)
        else { throw UpstreamFault("base_url", "has a port that is not 1 to 65535") }
        return (host, port)
    }

    private static func isName(_ host: String) -> Bool {
        (1...253).contains(host.utf8.count) && host.utf8.first != 0x2D && host.utf8.first != 0x2E
            && !host.contains("..")
            && host.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D || $0 == 0x2E || $0 == 0x5F
            }
    }
}
