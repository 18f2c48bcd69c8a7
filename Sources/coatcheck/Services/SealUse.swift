import Broker
import BrokerVault
import Synchronization

/// Counts in the store how many values each key has sealed, so that the advice to rotate takes all processes and restarts into
/// account.
final class SealUse: Sendable {
    private let vault: OpenSSLVault
    private let store: any BrokerStore
    /// Guards the counts of this process that are already part of the store's totals.
    private let told = Mutex<[String: Int]>([:])

    init(_ vault: OpenSSLVault, _ store: any BrokerStore) {
        self.vault = vault
        self.store = store
    }

    /// Adds this process's seals since the last call to the store's totals, and reads the totals of all processes.
    ///
    /// If the store's answer is lost, these seals may be counted twice, which is better than leaving them out.
    func tell() async throws(StoreFailure) {
        let counts = vault.sealCounts
        let before = told.withLock { $0 }
        let new = Dictionary(uniqueKeysWithValues: counts.map { ($0, $1 - before[$0, default: 0]) })
        let totals = try await store.countSeals(new)
        told.withLock { $0 = counts }
        vault.noteSeals(elsewhere: totals.merging(counts) { $0 - $1 })
    }

    /// The work of updating the counts every minute; `Composition.close` updates them once more.
    func service(_ context: BrokerContext) -> RepeatedWork {
        RepeatedWork(clock: context.clock, delay: .seconds(2)) { [self] in
            do throws(StoreFailure) {
                try await tell()
            } catch {
                context.events.emit(.storeFailed(operation: "countSeals", detail: "\(error)"))
            }
            return .seconds(60)
        }
    }
}
