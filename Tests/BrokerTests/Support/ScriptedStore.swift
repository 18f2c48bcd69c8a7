import Broker
import Synchronization

/// A store that counts its operations, and fails those that a test chooses.
final class ScriptedStore: AroundStore {
    let base: any BrokerStore
    private let counts = Mutex<[StoreOperation: Int]>([:])
    /// Returns whether an operation fails.
    ///
    /// The arguments are the operation's kind and number; the first operation of a kind has the number 1.
    let fails = Mutex<@Sendable (StoreOperation, Int) -> Bool>({ _, _ in false })

    init(_ base: any BrokerStore) { self.base = base }

    /// Returns the number of operations of a kind.
    func count(_ operation: StoreOperation) -> Int { counts.withLock { $0[operation, default: 0] } }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        let number = counts.withLock { counts in
            counts[operation, default: 0] += 1
            return counts[operation, default: 0]
        }
        if fails.withLock({ $0 })(operation, number) { throw .unavailable("as the test chose") }
        return try await work(base)
    }
}
