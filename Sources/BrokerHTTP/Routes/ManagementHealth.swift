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

    /// What readiness shows beside the store's answer and the providers.
    package struct Conditions: Sendable {
        /// Whether the key ring opens what is stored.
        package var keysFit = true
        /// What was found when it was tried, in words.
        package var keys = ""
        /// What another ring has sealed while it stood in this one's place, in words; nil where there is none.
        package var foreignKeys: String?
        /// How far the clock is ahead of the store's; nil where the store has none, or it was not asked yet.
        package var clockAhead: Duration?
        /// What is under way while the process shuts down, which turns readiness red first (SEC-123); nil when it does not.
        package var drain: (requests: Int, streams: Int)?
        package var diskIsFull = false
        /// Endings that the disk has not taken yet.
        package var pendingEndings = 0
        /// `ok`, or why it takes nothing; nil where there is none.
        package var endingsFile: String?
        package var unkeptEndings = 0

        package init() {}
    }

    /// Throws when the store does not answer or is not migrated (`BrokerStore.ping`).
    package let ping: @Sendable () async throws(StoreFailure) -> Void
    package let conditions: @Sendable () -> Conditions
    /// Returns the metrics as Prometheus text.
    package let metrics: @Sendable () async -> String
    /// Returns the providers' states; shown, and counting for nothing.
    package let providers: @Sendable () -> [Provider]

    package init(
        ping: @escaping @Sendable () async throws(StoreFailure) -> Void,
        conditions: @escaping @Sendable () -> Conditions = { Conditions() },
        metrics: @escaping @Sendable () async -> String = { "" },
        providers: @escaping @Sendable () -> [Provider] = { [] }
    ) {
        self.ping = ping
        self.conditions = conditions
        self.metrics = metrics
        self.providers = providers
    }
}
