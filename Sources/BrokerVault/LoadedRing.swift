import Broker
import Synchronization

/// A key ring ready for use: every subkey derived once.
///
/// Immutable, so that a request works with one ring throughout.
final class LoadedRing: Sendable {
    /// One ring key's subkeys.
    struct Subkeys: Sendable {
        let id: String
        let seal: [SealedKind: SecretBytes]
        let sessionToken: KeyedHash
        /// The count of what it has sealed, over all kinds.
        let seals: SealCounter
    }

    /// Counts what a key has sealed in this process (SEC-110).
    final class SealCounter: Sendable {
        /// Seals of this process.
        let count = Atomic<Int>(0)
        /// Seals of others, and of this process's predecessors.
        let elsewhere = Atomic<Int>(0)

        var total: Int { count.load(ordering: .relaxed) &+ elsewhere.load(ordering: .relaxed) }
    }

    /// The one that seals.
    let first: Subkeys
    private let byID: [String: Subkeys]
    private let index: [IndexKind: KeyedHash]

    /// Derives the subkeys, or returns nil when the library fails.
    ///
    /// Counters of keys that stay are carried on.
    init?(_ ring: KeyRing, at now: WallTime, algorithms: Algorithms, previous: LoadedRing?) {
        var byID: [String: Subkeys] = [:]
        for key in ring.keys {
            var seal: [SealedKind: SecretBytes] = [:]
            for kind in SealedKind.allCases {
                guard let subkey = Self.derive(key.key, .seal(kind), algorithms) else { return nil }
                seal[kind] = subkey
            }
            guard let tokenKey = Self.derive(key.key, .sessionToken, algorithms),
                let sessionToken = KeyedHash(algorithms, key: tokenKey)
            else { return nil }
            let counter = previous?.byID[key.id]?.seals ?? SealCounter()
            byID[key.id] = Subkeys(id: key.id, seal: seal, sessionToken: sessionToken, seals: counter)
        }
        var index: [IndexKind: KeyedHash] = [:]
        for kind in IndexKind.allCases {
            guard let subkey = Self.derive(ring.index, .index(kind), algorithms),
                let hash = KeyedHash(algorithms, key: subkey)
            else { return nil }
            index[kind] = hash
        }
        guard let first = byID[ring.sealingID(at: now)] else { return nil }
        self.first = first
        self.byID = byID
        self.index = index
    }

    /// Returns the subkeys of a ring key, or nil when the ring does not have it.
    func subkeys(_ id: String) -> Subkeys? { id == first.id ? first : byID[id] }

    /// Returns the keyed hash of an index.
    func hash(_ kind: IndexKind) -> KeyedHash? { index[kind] }

    /// Notes how often each key has sealed in other processes.
    func noteSeals(elsewhere counts: [String: Int]) {
        for (key, count) in counts { byID[key]?.seals.elsewhere.store(max(0, count), ordering: .relaxed) }
    }

    /// The count of what each key has sealed in this process, by id.
    var sealCounts: [String: Int] { byID.mapValues { $0.seals.count.load(ordering: .relaxed) } }

    private static func derive(_ key: SecretBytes, _ purpose: Purpose, _ algorithms: Algorithms) -> SecretBytes? {
        algorithms.hkdf(key: key, salt: [], info: purpose.label, count: KeyRing.keyLength)
    }
}
