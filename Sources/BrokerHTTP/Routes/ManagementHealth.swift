package import Broker

/// Is what the management listener tells of the process, as closures that the executable fills in.
package struct ManagementHealth: Sendable {
    /// Throws when the store does not answer or is not migrated (`BrokerStore.ping`).
    package let ping: @Sendable () async throws(StoreFailure) -> Void
    /// Is whether the process is shutting down: readiness turns red first (SEC-123).
    package let isShuttingDown: @Sendable () -> Bool
    /// Returns the metrics as Prometheus text.
    package let metrics: @Sendable () -> String
    /// Returns each provider's name and state (`closed`, `open`, …); shown, and counts for nothing.
    package let providers: @Sendable () -> [(name: ProviderName, state: String)]

    package init(
        ping: @escaping @Sendable () async throws(StoreFailure) -> Void,
        isShuttingDown: @escaping @Sendable () -> Bool = { false },
        metrics: @escaping @Sendable () -> String = { "" },
        providers: @escaping @Sendable () -> [(name: ProviderName, state: String)] = { [] }
    ) {
        self.ping = ping
        self.isShuttingDown = isShuttingDown
        self.metrics = metrics
        self.providers = providers
    }
}
