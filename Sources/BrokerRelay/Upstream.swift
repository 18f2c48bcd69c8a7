import Broker

/// An upstream ready to be called.
struct Upstream: Sendable {
    let settings: UpstreamSettings
    let client: RelayClient
    let concurrency: UpstreamConcurrency

    /// Creates it, with the connections (where `keepsConnections`) and the places of the one before, if they serve it,
    /// too.
    init(
        _ settings: UpstreamSettings, outbound: RelayOutbound, after old: Upstream? = nil,
        keepsConnections: Bool = false
    ) {
        self.settings = settings
        if let old, keepsConnections, old.settings.base == settings.base, old.settings.policy == settings.policy {
            client = old.client
        } else {
            client = RelayClient(outbound, policy: settings.policy)
        }
        if let old, old.settings.maximumConcurrent == settings.maximumConcurrent {
            concurrency = old.concurrency
        } else {
            concurrency = UpstreamConcurrency(limit: settings.maximumConcurrent)
        }
    }

    /// Says whether the session's token is meant for this upstream (SEC-72).
    func accepts(_ session: RelaySession) -> Bool {
        settings.provider == session.provider && settings.clients?.contains(session.client) ?? true
    }
}

extension UpstreamSettings {
    fileprivate var policy: AddressPolicy { isInternal ? .any : base.isLoopback ? .loopbackOnly : .publicOnly }
}
