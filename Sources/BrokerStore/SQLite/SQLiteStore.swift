package import Broker
import Dispatch
import GRDB
import Synchronization

/// The embedded store: SQLite in WAL mode, durable at every commit, one process.
///
/// Reads run on threads of their own, writes on one, and callers only wait: no blocking call reaches the cooperative
/// pool, and a caller that hangs up rolls nothing back.
package final class SQLiteStore: BrokerStore {
    let writer: GroupCommitWriter
    /// The lanes in which single rows are read.
    let readers: ReaderLanes
    /// The lanes in which tables are walked: lists, counts, the backup.
    let scans: ReaderLanes
    let endings: PendingEndings
    /// The log of endings for the day on which a backup is restored; nil where they are not kept.
    let endingsLog: EndingsLog?
    /// Guards the logout tokens that were answered "not written" although the database has them: a repeat is no replay.
    let unkeptNotices = Mutex<Set<Digest>>([])
    let pendingLogins: PendingLoginCount
    /// Times the claims.
    let monotonic: @Sendable () -> Duration
    /// Tells this process's claims from those of processes before it.
    let epoch: Int64
    private let begun: Duration
    private let pool: DatabasePool
    /// Holds the lock until the store is closed.
    private let files: DatabaseFiles

    /// Whether the connections are closed: SQLite must not be asked again.
    private let isClosed = Atomic<Bool>(false)

    /// Room for endings on a full disk; nil where none is kept.
    private let reserve: ReserveFile?

    init(
        pool: DatabasePool, files: DatabaseFiles, reserve: ReserveFile?, endingsLog: EndingsLog?,
        monotonic: @escaping @Sendable () -> Duration
    ) {
        self.endingsLog = endingsLog
        self.monotonic = monotonic
        epoch = .random(in: .min ... .max)
        begun = monotonic()
        let endings = PendingEndings()
        let pendingLogins = PendingLoginCount()
        self.endings = endings
        self.pendingLogins = pendingLogins
        self.pool = pool
        self.files = files
        self.reserve = reserve
        readers = ReaderLanes(pool, count: ReaderLanes.points)
        scans = ReaderLanes(pool, count: ReaderLanes.scans)
        writer = GroupCommitWriter(
            pool, reserve: reserve, additions: { EndingsJob.next(of: endings, endingsLog) },
            rolledBack: { pendingLogins.invalidate() })
    }

    /// The clock of a transaction that begins now.
    var claimClock: @Sendable () -> ClaimClock {
        { [epoch, begun, monotonic] in ClaimClock(epoch: epoch, begun: begun, moment: monotonic()) }
    }

    /// Whether the reserve for endings on a full disk is there, or none is kept; for metrics.
    package var hasReserve: Bool { reserve?.isReady ?? true }

    /// The number of endings that wait to be written because the disk would not take them; for metrics.
    package var pendingEndings: Int { endings.count }

    /// The number of endings that wait for the endings file, and why it does not take them; for metrics and readiness.
    package var unkeptEndings: (count: Int, reason: String?) {
        (endingsLog?.unwrittenCount ?? 0, endingsLog?.failure)
    }

    /// Whether endings are also kept in a file of their own.
    package var keepsEndings: Bool { endingsLog != nil }

    /// Tells that sessions may live longer now than was said when the store was opened.
    package func adopt(longestLifetime: Duration) { endingsLog?.adopt(longestLifetime: longestLifetime) }

    /// Whether the disk was full and has no room for the reserve yet: only endings are written; for readiness.
    package var isDiskFull: Bool { writer.endingsOnly }

    /// Committed transactions and the writes in them since the store was opened; for metrics.
    package var writeStatistics: (transactions: Int, writes: Int) {
        let statistics = writer.statistics
        return (statistics.transactions, statistics.members)
    }

    package func ping() async throws(StoreFailure) {
        let version = try await readers.read { database in
            try database.first(MaintenanceSQL.version, []) { try $0.small() }
        }
        guard let version, version >= Schema.newest else { throw .unavailable("not migrated") }
    }

    package func close() async {
        await writer.close()
        await endingsLog?.close()
        await readers.close()
        await scans.close()
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let (pool, files) = (pool, files)
        await withUnsafeContinuation { continuation in
            DispatchQueue.global().async {
                // An error here comes again, and is repaired, at the next opening. The log is merged, so that the one
                // file is the whole database while nobody works on it.
                try? pool.writeWithoutTransaction { database in _ = try database.checkpoint(.truncate) }
                try? pool.close()
                files.release()
                continuation.resume()
            }
        }
    }

    /// Writes a consistent copy to a new file of mode 0600.
    ///
    /// The copy is as inert as the database (guarantee 5).
    package func backUp(to path: String) async throws(StoreOpenFailure) {
        try DatabaseFiles.createFile(path)
        do throws(StoreFailure) {
            try await scans.read { database in try database.execute(sql: "VACUUM INTO ?", arguments: [path]) }
        } catch {
            DatabaseFiles.removeFile(path)
            if case .full = error { throw .database("the disk is full") }
            throw .database("\(error)")
        }
    }

    /// Returns what SQLite says a setting of the writing connection is (`synchronous`: 2 is FULL).
    package func setting(_ pragma: SQLiteSetting) async throws(StoreFailure) -> Int {
        try await writer.write { database in
            try database.first("PRAGMA \(pragma.rawValue)", []) { try $0.small() } ?? -1
        }
    }
}

/// Names the settings that durability and erasure stand on.
package enum SQLiteSetting: String, Sendable {
    case synchronous
    case secureDelete = "secure_delete"
}

/// Writes endings that could not be written before, along with whatever is written next.
private final class EndingsJob: LaneJob {
    private let pending: PendingEndings
    private let batch: [(tokenDigest: Digest, ending: PendingEndings.Ending)]
    private let log: EndingsLog?

    private init(
        _ pending: PendingEndings, _ batch: [(tokenDigest: Digest, ending: PendingEndings.Ending)], _ log: EndingsLog?
    ) {
        self.pending = pending
        self.batch = batch
        self.log = log
    }

    static func next(of pending: PendingEndings, _ log: EndingsLog?) -> [any LaneJob] {
        let batch = pending.next()
        return batch.isEmpty ? [] : [EndingsJob(pending, batch, log)]
    }

    /// Set by `run`, read by `finish`, both on the writer's thread.
    private nonisolated(unsafe) var written = false

    var hasFailed: Bool { !written }

    func run(_ database: Database) throws {
        written = false
        for (tokenDigest, ending) in batch {
            _ = try database.endSessions(.token(tokenDigest), ending.reason, ending.at, limit: 1)
        }
        written = true
    }

    func finish(_ failure: StoreFailure?) {
        guard failure == nil, written else { return }
        log?.note(batch.map { EndingEntry(tokenDigest: $0.tokenDigest, at: $0.ending.at, reason: $0.ending.reason) })
        pending.remove(batch.map(\.tokenDigest))
    }
}

/// The moment of a transaction by the process's monotonic clock, and what tells this process from those before.
struct ClaimClock: Sendable {
    let epoch: Int64
    /// The time at which this process opened the store.
    let begun: Duration
    let moment: Duration
}
