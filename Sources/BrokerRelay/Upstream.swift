import Broker

/// An upstream ready to be called.
struct Upstream: Sendable {
    let settings: UpstreamSettings
    let client: RelayClient
    let concurrency: UpstreamConcurrency

    init(_ settings: UpstreamSettings, outbound: RelayOutbound) {
        self.settings = settings
        let policy: AddressPolicy =
            settings.isInternal ? .any : settings.base.isLoopback ? .loopbackOnly : .publicOnly
        client = RelayClient(outbound, policy: policy)
        concurrency = UpstreamConcurrency(limit: settings.maximumConcurrent)
    }

    /// Says whether the session's token is meant for this upstream (SEC-72).
    func accepts(_ session: RelaySession) -> Bool {
        settings.provider == session.provider && settings.clients?.contains(session.client) ?? true
    }
}
