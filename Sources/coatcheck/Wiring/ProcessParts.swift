import Broker
import BrokerHTTP
import BrokerStore
import BrokerVault
import BrokerWire

/// What a process has for its whole life, whatever becomes of its configuration.
struct ProcessParts: Sendable {
    let log: ProcessLog
    let metrics: MetricsRegistry
    /// Nil where nothing is traced.
    let tracing: ProcessTracing?
    let disk: DiskState
    let load: ServerLoad
    let readiness: Readiness
    let detached: DetachedWork
    let vault: OpenSSLVault
    let sealUse: SealUse
    let keyWatch: KeyWatch
    let ringWatch: RingWatch
    /// Nil where the store has no clock of its own.
    let clockCheck: ClockCheck?
    let resealing: Resealing
    let store: any AdministeredStore
    /// The same store where several processes share it.
    let shared: (any SharedStore)?
    /// Without providers: those are a configuration's.
    let context: BrokerContext
    let revocations: Revocations
    /// What addresses were charged for on the public listener, and on the backends' own.
    let charges: ChargeLedger
    let backendCharges: ChargeLedger
    /// Wrong admin tokens.
    let wrongTokens: TokenBuckets
    /// How many descriptors the process may have.
    let descriptors: Int
    /// What the listeners for apps and backends may have open together.
    let connections: ConnectionCap
    /// Hears of connections that are turned away.
    let connectionMetrics: ConnectionMetrics

    /// Has what was counted under one configuration's limits go on under another's.
    func adopt(_ configuration: Configuration, _ http: HTTPConfiguration) {
        log.threshold.adopt(configuration.log.level)
        tracing?.adopt(configuration.tracing)
        (store as? SQLiteStore)?.adopt(longestLifetime: configuration.longestLifetime)
        charges.adopt(http.limits.charges)
        backendCharges.adopt(http.limits.charges)
        wrongTokens.adopt(perMinute: http.limits.charges.wrongTokensPerMinute)
    }
}
