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
    /// How it takes the token.
    package let credential: TokenSet.Credential
    /// Further request fields to pass, in lower case.
    package let requestHeaders: Set<String>
    /// How long it may take to its response head.
    package let timeout: Duration
    /// Whether it may be at a private address.
    package let isInternal: Bool
    /// How many calls may be under way at once.
    package let maximumConcurrent: Int
    /// Whether calls about employees are refused whatever `allow` says (Clover, unless `employees: true`).
    package var hidesEmployees = false

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
            let parsed = try UpstreamBase(baseURL)
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
