package import Broker

/// One upstream as configured: where it is, whose sessions may call it, and what they may call.
package struct UpstreamSettings: Sendable {
    package let name: UpstreamName
    package let base: UpstreamBase
    /// The provider whose tokens it takes (SEC-72).
    package let provider: ProviderName
    /// The clients whose sessions may call it; nil is all of the provider's.
    package let clients: Set<ClientName>?
    package let allow: AllowList
    /// The way in which it takes the token.
    package let credential: TokenSet.Credential
    /// The way in which a token that is bound to a key goes out.
    package var proof = ProofPresentation()
    /// The setting `tls`.
    package var tls = UpstreamTLS()
    /// Further request fields to pass, in lower case.
    package let requestHeaders: Set<String>
    /// The longest time to its response head.
    package let timeout: Duration
    /// Whether it may be at a private address.
    package let isInternal: Bool
    /// The most calls under way at once.
    package let maximumConcurrent: Int
    /// Whether calls about employees are refused whatever `allow` says (Clover, unless `employees: true`).
    package var hidesEmployees = false
    /// The sign-ins that some of its calls need.
    package var require: [UpstreamRequirement] = []
    /// The API that its access tokens are for; nil for the session's own token.
    package var token: TokenTarget?
    /// Whether a challenge of its own for another sign-in becomes ours (`challenges: pass`).
    package var passesChallenges = true

    /// Whether some client's sessions may call both this one and another.
    package func sharesSessions(with other: UpstreamSettings) -> Bool {
        guard provider == other.provider else { return false }
        guard let clients, let others = other.clients else { return true }
        return !clients.isDisjoint(with: others)
    }

    /// The deadline for a response head unless configured otherwise.
    package static let defaultTimeout = Duration.seconds(30)

    /// Parses an upstream's settings; every fault is listed.
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

/// The way in which an upstream takes tokens that are bound to a key (RFC 9449 section 7).
package struct ProofPresentation: Sendable, Equatable {
    /// The setting `scheme`: the word before the token.
    package enum Scheme: String, Sendable, CaseIterable {
        case dpop = "DPoP"
        /// For servers of before the standard; the proof goes along all the same.
        case bearer = "Bearer"
    }

    package var scheme = Scheme.dpop
    /// `public_url`: where the upstream knows itself to be, where that is not `base_url`: proofs name it.
    package var publicBase: UpstreamBase?

    package init() {}
}

/// An upstream's base URL, parsed once and strictly (SEC-71): nothing a caller sends can alter it.
package struct UpstreamBase: Sendable, Equatable {
    /// `https://api.example.com:8443/v1`: scheme, authority and base path, without a slash at the end.
    package let prefix: String
    /// The host without brackets.
    let host: String
    let port: Int
    /// Whether it is https.
    package let isSecure: Bool
    /// The base path, without a slash at the end; empty where there is none.
    let path: String
    /// The value of `Host`.
    package let authority: String
    /// Whether the host is a loopback name or address.
    package let isLoopback: Bool
    /// The host's address, where it is one.
    package let address: IPAddress?

    /// Scheme and authority.
    package var origin: String { (isSecure ? "https://" : "http://") + authority }

    /// Parses a base URL: https, or http on loopback or inside the operator's own network (decision 85); host, optional port,
    /// optional path; nothing else.
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
    /// Without TLS nobody proves to be the upstream, and the token is readable on the way: that has to be the own network's.
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
