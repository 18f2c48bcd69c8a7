package import Broker

/// What the management listener tells of the process, as closures that the executable fills in.
package struct ManagementHealth: Sendable {
    /// One provider's state.
    package struct Provider: Sendable {
        package let name: ProviderName
        package let kind: ProviderKind
        /// In one word, for `/readyz`.
        package let state: String
        /// Discovery, breaker and keys, for `/admin/v1/providers`; names differ from `name` and `kind`.
        package let details: [(name: String, value: JSONValue)]

        package init(
            name: ProviderName, kind: ProviderKind, state: String, details: [(name: String, value: JSONValue)] = []
        ) {
            self.name = name
            self.kind = kind
            self.state = state
            self.details = details
        }
    }

    /// Throws when the store does not answer or is not migrated (`BrokerStore.ping`).
    package let ping: @Sendable () async throws(StoreFailure) -> Void
    /// Whether the key ring opens what is stored.
    package let keysFit: @Sendable () -> Bool
    /// How far the clock is ahead of the store's; nil where the store has none, or it was not asked yet.
    package let clockAhead: @Sendable () -> Duration?
    /// Whether the process is shutting down: readiness turns red first (SEC-123).
    package let isShuttingDown: @Sendable () -> Bool
    /// Returns the metrics as Prometheus text.
    package let metrics: @Sendable () async -> String
    /// Returns the providers' states; shown, and counting for nothing.
    package let providers: @Sendable () -> [Provider]

    package init(
        ping: @escaping @Sendable () async throws(StoreFailure) -> Void,
        keysFit: @escaping @Sendable () -> Bool = { true },
        clockAhead: @escaping @Sendable () -> Duration? = { nil },
        isShuttingDown: @escaping @Sendable () -> Bool = { false },
        metrics: @escaping @Sendable () async -> String = { "" },
        providers: @escaping @Sendable () -> [Provider] = { [] }
    ) {
        self.ping = ping
        self.keysFit = keysFit
        self.clockAhead = clockAhead
        self.isShuttingDown = isShuttingDown
        self.metrics = metrics
        self.providers = providers
    }
}
