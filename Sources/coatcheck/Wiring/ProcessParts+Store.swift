import Broker
import BrokerHTTP
import BrokerStore
import BrokerVault

extension ProcessParts {
    /// What the management listener does with store and keys.
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
