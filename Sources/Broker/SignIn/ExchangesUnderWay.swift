import Synchronization

/// The exchanges that this process has claimed and not yet settled.
///
/// Their number is bounded by the provider calls in progress and the results that wait for the store.
final class ExchangesUnderWay: Sendable {
    /// Guards the keys, each with the number of its calls in this process.
    private let keys = Mutex<[Digest: Int]>([:])

    func begin(_ key: Digest) { keys.withLock { $0[key, default: 0] += 1 } }

    func end(_ key: Digest) {
        keys.withLock { keys in
            let rest = (keys[key] ?? 1) - 1
            keys[key] = rest > 0 ? rest : nil
        }
    }

    func contains(_ key: Digest) -> Bool { keys.withLock { $0[key] != nil } }
}
