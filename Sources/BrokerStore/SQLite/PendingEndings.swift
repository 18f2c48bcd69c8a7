import Broker
import Synchronization

/// The endings that could not be written, because the disk is full or fails: the sessions are refused all the same
/// until their tombstones are on disk (library note 10, SEC-123).
///
/// Bounded by the sessions that live.
final class PendingEndings: Sendable {
    struct Ending: Sendable {
        let reason: EndReason
        let at: WallTime
    }

    /// The number of endings that go into one transaction.
    private static let batch = 200

    /// Guards the endings by token digest.
    private let endings = Mutex<[Digest: Ending]>([:])
    /// Spares the lock while there is nothing, which is always but when the disk is in trouble.
    private let any = Atomic<Bool>(false)

    var count: Int { any.load(ordering: .acquiring) ? endings.withLock { $0.count } : 0 }

    /// Keeps the endings; one that is kept already keeps its reason.
    func add(_ tokenDigests: [Digest], _ ending: Ending) {
        guard !tokenDigests.isEmpty else { return }
        endings.withLock { endings in
            for tokenDigest in tokenDigests where endings[tokenDigest] == nil { endings[tokenDigest] = ending }
            any.store(true, ordering: .releasing)
        }
    }

    /// Forgets endings that were written.
    func remove(_ tokenDigests: [Digest]) {
        endings.withLock { endings in
            for tokenDigest in tokenDigests { endings[tokenDigest] = nil }
            any.store(!endings.isEmpty, ordering: .releasing)
        }
    }

    /// Returns the ending of a session, when one waits to be written.
    func ending(_ tokenDigest: Digest) -> Ending? {
        guard any.load(ordering: .acquiring) else { return nil }
        return endings.withLock { $0[tokenDigest] }
    }

    /// The endings that wait at one moment.
    ///
    /// Taken before a row is read: an ending that is written meanwhile is in one or the other.
    struct Snapshot: Sendable {
        fileprivate let endings: [Digest: Ending]

        /// Returns the row as it would be had its ending been written.
        func applied(to row: SessionRow) -> SessionRow {
            guard row.endedAt == nil, let ending = endings[row.tokenDigest] else { return row }
            return row.ended(ending.reason, at: ending.at)
        }
    }

    func snapshot() -> Snapshot {
        Snapshot(endings: any.load(ordering: .acquiring) ? endings.withLock { $0 } : [:])
    }

    /// Returns some that wait.
    func next() -> [(tokenDigest: Digest, ending: Ending)] {
        guard any.load(ordering: .acquiring) else { return [] }
        return endings.withLock { endings in endings.prefix(Self.batch).map { ($0.key, $0.value) } }
    }
}
