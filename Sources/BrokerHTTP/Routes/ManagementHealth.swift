package import Broker

/// The state of the process that the management listener reports, as closures that the executable provides.
package struct ManagementHealth: Sendable {
    /// The state of one provider.
    package struct Provider: Sendable {
        package let name: ProviderName
        package let kind: ProviderKind
        /// The state of the provider in one word, for `/readyz`.
        package let state: String
        /// Discovery, breaker and keys, for `/admin/v1/providers`.
        ///
        /// `details` must not contain members named `name` or `kind`.
        package let details: [(name: String, value: JSONValue)]
        /// Sentences for `problems` in `/readyz`, which leave its status unchanged.
        package let warnings: [String]

        package init(
            name: ProviderName, kind: ProviderKind, state: String, details: [(name: String, value: JSONValue)] = [],
            warnings: [String] = []
        ) {
            self.warnings = warnings
            self.name = name
            self.kind = kind
            self.state = state
            self.details = details
        }
    }

    /// A client's certificate.
    package struct Certificate: Sendable {
        let provider: ProviderName
        let client: ClientName
        let notAfter: WallTime

        package init(provider: ProviderName, client: ClientName, notAfter: WallTime) {
            self.provider = provider
            self.client = client
            self.notAfter = notAfter
        }

        /// The number of whole days left; negative after the certificate has expired.
        func daysLeft(at now: WallTime) -> Int64 {
            let seconds = notAfter.since(now).wholeSeconds
            return seconds >= 0 ? seconds / 86_400 : -((-seconds + 86_399) / 86_400)
        }
    }

    /// The conditions that readiness shows, in addition to the store's answer and the providers.
    package struct Conditions: Sendable {
        /// Whether the store's role has all rights on the tables, or had all of them at an earlier check of this process.
        package var hasRights = true
        /// The missing rights of the role, in words; nil if it has all.
        package var lackingRights: String?
        /// Whether the key ring opens the stored values.
        package var keysFit = true
        /// The result of the last attempt to open stored values, in words.
        package var keys = ""
        /// The values that were sealed while the broker ran with another key ring, in words; nil if there are none.
        package var foreignKeys: String?
        /// The time by which this machine's clock is ahead of the store's clock; nil if the store has no clock, or has not
        /// been asked yet.
        package var clockAhead: Duration?
        /// The remaining work while the process shuts down; nil otherwise.
        ///
        /// A shutdown begins by ending readiness (SEC-123).
        package var drain: (requests: Int, streams: Int)?
        package var diskIsFull = false
        /// The number of endings that are not on disk yet.
        package var pendingEndings = 0
        /// `ok`, or the reason why the endings file rejects writes; nil if the file is not configured.
        package var endingsFile: String?
        package var unkeptEndings = 0

        package init() {}
    }

    /// Throws unless the store answers and is migrated (`BrokerStore.ping`).
    package let ping: @Sendable () async throws(StoreFailure) -> Void
    package let conditions: @Sendable () -> Conditions
    /// Returns the metrics as Prometheus text.
    package let metrics: @Sendable () async -> String
    /// Returns the providers' states, which do not affect readiness.
    package let providers: @Sendable () -> [Provider]
    /// Returns the clients' certificates, which do not affect readiness.
    package let certificates: @Sendable () -> [Certificate]

    package init(
        ping: @escaping @Sendable () async throws(StoreFailure) -> Void,
        conditions: @escaping @Sendable () -> Conditions = { Conditions() },
        metrics: @escaping @Sendable () async -> String = { "" },
        providers: @escaping @Sendable () -> [Provider] = { [] },
        certificates: @escaping @Sendable () -> [Certificate] = { [] }
    ) {
        self.certificates = certificates
        self.ping = ping
        self.conditions = conditions
        self.metrics = metrics
        self.providers = providers
    }
}
