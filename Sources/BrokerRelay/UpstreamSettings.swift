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
    /// The target whose token the upstream receives; nil for the session's own token.
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
