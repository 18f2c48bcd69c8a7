import Broker
import BrokerVault
import Synchronization

/// Keeps in the store how often each key has sealed, so that the advice to rotate counts every process and every restart.
final class SealUse: Sendable {
    private let vault: OpenSSLVault
    private let store: any BrokerStore
    /// Guards what the store has been told of this process's seals.
    private let told = Mutex<[String: Int]>([:])

    init(_ vault: OpenSSLVault, _ store: any BrokerStore) {
        self.vault = vault
        self.store = store
    }

    /// Adds what was sealed since the last time, and learns what others have sealed.
    ///
    /// A write whose answer was lost is counted twice rather than never.
    func tell() async throws(StoreFailure) {
        let counts = vault.sealCounts
        let before = told.withLock { $0 }
        let new = Dictionary(uniqueKeysWithValues: counts.map { ($0, $1 - before[$0, default: 0]) })
        let totals = try await store.countSeals(new)
        told.withLock { $0 = counts }
        vault.noteSeals(elsewhere: totals.merging(counts) { $0 - $1 })
    }

    /// The work of telling the store every minute, and once more at the end.
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
