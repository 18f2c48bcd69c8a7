import Broker
import Synchronization

/// The endings that could not be written, because the disk is full or failing.
///
/// Their sessions are refused until the tombstones are on disk (library note 10, SEC-123). Their number is bounded by the
/// number of live sessions.
final class PendingEndings: Sendable {
    struct Ending: Sendable {
        let reason: EndReason
        let at: WallTime
    }

    /// The number of endings in one transaction.
    private static let batch = 200

    /// Guards the endings by token digest.
    private let endings = Mutex<[Digest: Ending]>([:])
    /// Whether there are any endings.
    ///
    /// This flag avoids taking the lock in normal operation.
    private let any = Atomic<Bool>(false)

    var count: Int { any.load(ordering: .acquiring) ? endings.withLock { $0.count } : 0 }

    /// Adds endings.
    ///
    /// A session that is already in the list keeps its first reason.
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
    /// Take it before you read a row. An ending that is written meanwhile is then in the snapshot or in the row.
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
