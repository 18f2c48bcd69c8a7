package import Broker
import Dispatch
import GRDB
import Synchronization

/// The embedded store: SQLite in WAL mode, durable at every commit, for one process.
///
/// Reads run on several threads of the store, and writes on one thread. Callers only wait for these threads, so the
/// cooperative pool is free of blocking calls. A write continues after its caller hangs up.
package final class SQLiteStore: BrokerStore {
    let writer: GroupCommitWriter
    /// The lanes for reads of single rows.
    let readers: ReaderLanes
    /// The lanes for walks over tables: lists, counts, the backup.
    let scans: ReaderLanes
    let endings: PendingEndings
    /// The log of endings for a later restore; nil if it is not configured.
    let endingsLog: EndingsLog?
    /// Guards the ids of logout tokens that the database has although the caller received an error.
    ///
    /// The caller got an error because the endings file lacked the endings. If such a token is sent again, it does not count
    /// as a replay.
    let unkeptNotices = Mutex<Set<Digest>>([])
    let pendingLogins: PendingLoginCount
    /// The monotonic clock that times claims.
    let monotonic: @Sendable () -> Duration
    /// The id that distinguishes this process's claims from those of earlier processes.
    let epoch: Int64
    private let begun: Duration
    private let pool: DatabasePool
    /// The database's files, which stay locked until the store is closed.
    private let files: DatabaseFiles

    /// Whether the connections are closed.
    ///
    /// After this, SQLite must not be called.
    private let isClosed = Atomic<Bool>(false)

    /// Disk space for endings on a full disk; nil if none is configured.
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

    /// Returns the clock for the claims of a transaction that begins now.
    var claimClock: @Sendable () -> ClaimClock {
        { [epoch, begun, monotonic] in ClaimClock(epoch: epoch, begun: begun, moment: monotonic()) }
    }

    /// Whether the reserve for endings exists, or is switched off; for metrics.
    package var hasReserve: Bool { reserve?.isReady ?? true }

    /// The number of endings that are not yet in the database because the disk refused them; for metrics.
    package var pendingEndings: Int { endings.count }

    /// The number of endings that the endings file lacks, and the reason why it fails; for metrics and readiness.
    package var unkeptEndings: (count: Int, reason: String?) {
        (endingsLog?.unwrittenCount ?? 0, endingsLog?.failure)
    }

    /// Whether endings are also kept in a file of their own.
    package var keepsEndings: Bool { endingsLog != nil }

    /// Adopts a longer lifetime of sessions than the one given when the store was opened.
    package func adopt(longestLifetime: Duration) { endingsLog?.adopt(longestLifetime: longestLifetime) }

    /// Whether the disk was full and still lacks room for the reserve, so that only endings are written; for readiness.
    package var isDiskFull: Bool { writer.endingsOnly }

    /// Committed transactions and the writes in them since the store was opened; for metrics.
    package var writeStatistics: (transactions: Int, writes: Int) {
        let statistics = writer.statistics
        return (statistics.transactions, statistics.members)
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
                // Merge the log, so that the database is a single file while no process uses it. An error is ignored, because
                // SQLite merges the log when it opens the database again.
                try? pool.writeWithoutTransaction { database in _ = try database.checkpoint(.truncate) }
                try? pool.close()
                files.release()
                continuation.resume()
            }
        }
    }

    /// Writes a consistent copy to a new file of mode 0600.
    ///
    /// A stolen copy is as inert as the database (guarantee 5).
    package func backUp(to path: String) async throws(StoreOpenFailure) {
        try DatabaseFiles.createFile(path)
        do throws(StoreFailure) {
            try await scans.read { database in try database.execute(sql: "VACUUM INTO :path", arguments: ["path": path])
            }
        } catch {
            DatabaseFiles.removeFile(path)
            if case .full = error { throw .database("the disk is full") }
            throw .database("\(error)")
        }
    }

    /// Returns a setting of the writing connection, as SQLite reports it (`synchronous`: 2 is FULL).
    package func setting(_ pragma: SQLiteSetting) async throws(StoreFailure) -> Int {
        try await writer.write { database in
            try database.first(NamedSQL("PRAGMA \(pragma.rawValue)"), [:]) { try $0.small() } ?? -1
        }
    }
}

/// A setting that durability or erasure depends on.
package enum SQLiteSetting: String, Sendable {
    case synchronous
    case secureDelete = "secure_delete"
}

/// A job that writes the endings which the disk refused before, in the transaction of the next writes.
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
