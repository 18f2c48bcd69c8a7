import Broker
import BrokerHTTP
import BrokerProviders
import BrokerStore
import BrokerVault
import BrokerWire

/// The parts of the broker that exist for the whole life of a process, across configurations.
struct ProcessParts: Sendable {
    let log: ProcessLog
    let metrics: MetricsRegistry
    /// The tracing; nil if it is off.
    let tracing: ProcessTracing?
    let disk: DiskState
    let load: ServerLoad
    let readiness: Readiness
    let detached: DetachedWork
    let vault: OpenSSLVault
    let sealUse: SealUse
    let keyWatch: KeyWatch
    let ringWatch: RingWatch
    /// The check of the database role's rights; nil for a store without roles.
    let rightsWatch: RightsWatch?
    let clockCheck: ClockCheck
    let resealing: Resealing
    let store: any AdministeredStore
    /// The operations for shared stores; nil if only this process uses the store.
    let shared: (any SharedStore)?
    /// The use cases' context without providers, which belong to a configuration.
    let context: BrokerContext
    let revocations: Revocations
    /// The ledgers of charges on the public listener, and on the backends' own listener.
    let charges: ChargeLedger
    let backendCharges: ChargeLedger
    /// The buckets for wrong admin tokens.
    let wrongTokens: TokenBuckets
    /// The nonces that servers gave for the broker's proofs.
    let proofNonces = ProofNonces()
    /// Logs servers' refusals of the broker's certificates.
    let certificateRefusals: CertificateRefusals
    /// Logs when PostgreSQL or a provider becomes unreachable, and when it is back.
    let outages: Outages
    /// The limit on the process's descriptors.
    let descriptors: Int
    /// The cap on the open connections of the listeners for apps and backends.
    let connections: ConnectionCap
    /// Counts refused connections.
    let connectionMetrics: ConnectionMetrics

    /// Applies the limits and levels of a new configuration, and keeps all counts.
    func adopt(_ configuration: Configuration, _ http: HTTPConfiguration) {
        log.threshold.adopt(configuration.log.level)
        tracing?.adopt(configuration.tracing)
        (store as? SQLiteStore)?.adopt(longestLifetime: configuration.longestLifetime)
        charges.adopt(http.limits.charges)
        backendCharges.adopt(http.limits.charges)
        wrongTokens.adopt(perMinute: http.limits.charges.wrongTokensPerMinute)
    }
}

extension ProcessParts {
    /// The management listener's operations on store and keys.
    var managementStore: ManagementStore {
        let (store, vault, keys, now) = (store, vault, keyWatch, context.clock.now)
        return ManagementStore(
            admin: AdminStore(context, store, resealing),
            keys: {
                keys.ring.list(at: now()).map { key in
                    ManagementStore.Key(
                        id: key.id, use: key.seals ? .seals : key.waitsUntil == nil ? .opens : .waits,
                        sealsFrom: key.waitsUntil)
                }
            },
            backUp: (store as? SQLiteStore).map { sqlite in
                { @Sendable file async throws(ManagementStore.Refusal) in
                    try await Self.backUp(sqlite, to: file, vault)
                }
            },
            exportKey: { pem throws(ManagementStore.Refusal) in
                do throws(ExportKeyFailure) { return try ExportKey(pem: pem) } catch {
                    throw ManagementStore.Refusal(error.description)
                }
            })
    }

    private static func backUp(
        _ store: SQLiteStore, to file: String, _ vault: OpenSSLVault
    ) async throws(ManagementStore.Refusal) -> ManagementStore.Backup {
        do throws(StoreOpenFailure) {
            try await store.backUp(to: file)
            let copy = try await DatabaseCopy.inspect(file)
            let check = RingCheck(copy.sample, vault)
            return ManagementStore.Backup(
                bytes: Int64(copy.bytes), sessions: copy.sessions, schema: copy.schema, opens: check.isGood,
                ring: "\(check)")
        } catch {
            throw ManagementStore.Refusal("\(error)")
        }
    }
}

extension ProcessParts {
    /// The conditions of readiness that are known without a query of the store.
    var conditions: ManagementHealth.Conditions {
        var conditions = ManagementHealth.Conditions()
        conditions.keysFit = ringWatch.isGood
        conditions.keys = ringWatch.description
        conditions.foreignKeys = ringWatch.foreign
        conditions.hasRights = rightsWatch?.isGood ?? true
        conditions.lackingRights = rightsWatch?.lacking
        conditions.clockAhead = context.watch.ahead
        conditions.drain = readiness.isDraining ? (requests: load.requests, streams: load.streams) : nil
        conditions.diskIsFull = disk.isFull
        guard let sqlite = store as? SQLiteStore else { return conditions }
        conditions.diskIsFull = conditions.diskIsFull || sqlite.isDiskFull
        conditions.pendingEndings = sqlite.pendingEndings
        if sqlite.keepsEndings {
            let unkept = sqlite.unkeptEndings
            conditions.endingsFile = unkept.reason ?? "ok"
            conditions.unkeptEndings = unkept.count
        }
        return conditions
    }
}
