import Broker
import Synchronization

/// The endings that could not be written, because the disk is full or failing.
///
/// The sessions are refused from memory until their tombstones are on disk (library note 10, SEC-123). There are at most as
/// many of these endings as there were live sessions.
final class PendingEndings: Sendable {
    struct Ending: Sendable {
        let reason: EndReason
        let at: WallTime
    }

    /// The number of endings in one transaction.
    private static let batch = 200

    /// Guards the endings by token digest.
    private let endings = Mutex<[Digest: Ending]>([:])
    /// Whether there are any unwritten endings.
    ///
    /// This flag avoids taking the lock in normal operation.
    private let any = Atomic<Bool>(false)

    var count: Int { any.load(ordering: .acquiring) ? endings.withLock { $0.count } : 0 }

    /// Adds endings.
    ///
    /// If a session already has an unwritten ending, its first reason stays.
    func add(_ tokenDigests: [Digest], _ ending: Ending) {
        guard !tokenDigests.isEmpty else { return }
        endings.withLock { endings in
            for tokenDigest in tokenDigests where endings[tokenDigest] == nil { endings[tokenDigest] = ending }
            any.store(true, ordering: .releasing)
        }
    }

    /// Removes endings that were written.
    func remove(_ tokenDigests: [Digest]) {
        endings.withLock { endings in
            for tokenDigest in tokenDigests { endings[tokenDigest] = nil }
            any.store(!endings.isEmpty, ordering: .releasing)
        }
    }

    /// Returns the session's unwritten ending, if there is one.
    func ending(_ tokenDigest: Digest) -> Ending? {
        guard any.load(ordering: .acquiring) else { return nil }
        return endings.withLock { $0[tokenDigest] }
    }

    /// A copy of the unwritten endings at one moment.
    ///
    /// Take the snapshot before you read a row. If the ending is written between the two, it is in the snapshot as well as in
    /// the row. In the other order, both could lack it.
    struct Snapshot: Sendable {
        fileprivate let endings: [Digest: Ending]

        /// Returns the row with its unwritten ending applied.
        func applied(to row: SessionRow) -> SessionRow {
            guard row.endedAt == nil, let ending = endings[row.tokenDigest] else { return row }
            return row.ended(ending.reason, at: ending.at)
        }
    }

    func snapshot() -> Snapshot {
        Snapshot(endings: any.load(ordering: .acquiring) ? endings.withLock { $0 } : [:])
    }

    /// Returns some of the unwritten endings.
    func next() -> [(tokenDigest: Digest, ending: Ending)] {
        guard any.load(ordering: .acquiring) else { return [] }
        return endings.withLock { endings in endings.prefix(Self.batch).map { ($0.key, $0.value) } }
    }
}
