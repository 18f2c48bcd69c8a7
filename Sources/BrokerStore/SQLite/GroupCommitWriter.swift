import Broker
import Dispatch
import GRDB
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The thread that makes all writes to the database.
///
/// Writes that arrive together share a transaction and its `fdatasync` (decision 5). The queue is drained into one IMMEDIATE
/// transaction, with a savepoint for each write. Results are released after COMMIT.
///
/// A write that arrives while others run joins their transaction. A write that arrives during the disk's sync joins the next
/// transaction. After a transaction with several writes, the next transaction starts half a millisecond later and collects
/// more writes. Otherwise a fast disk would sync too often. A write that comes alone starts at once.
///
/// All waits are bounded. A full queue refuses writes. A write fails after 10 s if the disk hangs, although it may still be
/// written later. On a full disk, the file with the reserved space is emptied. Then only endings are written, until the space
/// can be reserved again.
final class GroupCommitWriter: Sendable {
    /// Counts of the writer's work since its start.
    struct Statistics: Sendable, Equatable {
        /// The number of committed transactions.
        ///
        /// Each transaction costs one `fdatasync`.
        var transactions = 0
        /// The number of writes in these transactions.
        var members = 0
    }

    /// The kind of a write, which decides whether a full disk accepts it.
    enum Kind: Sendable {
        case ordinary
        /// A write that ends sessions or uses a logout token.
        ///
        /// The reserved disk space is kept for these writes.
        case ending
    }

    private struct Waiting {
        let job: any LaneJob
        let kind: Kind
        let since: DispatchTime
    }

    private struct State {
        var waiting: [Waiting] = []
        /// The writes of the transaction in progress.
        var running: [Waiting] = []
        var draining = false
        var watched = false
        var retrying = false
        var closed = false
        var endingsOnly = false
        var statistics = Statistics()
    }

    /// The largest number of writes in one transaction, so that its first write is soon on disk.
    private static let maximumMembers = 512
    /// The largest number of writes that may wait before a further ordinary write is refused.
    ///
    /// An ending is refused only at twice this number.
    static let maximumWaiting = 8192
    /// The longest wait of a write, its transaction included.
    static let patience = DispatchTimeInterval.seconds(10)
    /// The interval of retries after the disk was full, and of checks for overdue writes.
    private static let interval = DispatchTimeInterval.seconds(1)
    /// The number of writes that make a transaction count as shared.
    private static let company = 4
    private static let gathering = Duration.microseconds(500)

    private let pool: DatabasePool
    private let reserve: ReserveFile?
    private let queue = DispatchQueue(label: "coatcheck.store.writer")
    /// The queue that detects a hanging writer.
    private let watch = DispatchQueue(label: "coatcheck.store.watch")
    /// Guards the queue and its state.
    private let state = Mutex(State())
    /// Returns further jobs for the next transaction.
    ///
    /// They write the endings that could not be written before.
    private let additions: @Sendable () -> [any LaneJob]
    /// Called when a transaction or a single write was rolled back.
    private let rolledBack: @Sendable () -> Void

    init(
        _ pool: DatabasePool, reserve: ReserveFile? = nil, additions: @escaping @Sendable () -> [any LaneJob],
        rolledBack: @escaping @Sendable () -> Void
    ) {
        self.pool = pool
        self.reserve = reserve
        self.additions = additions
        self.rolledBack = rolledBack
    }

    /// Queues a write and waits until its transaction is on disk.
    ///
    /// Cancelling the caller ends only the wait. After COMMIT, `committed` receives the result on the writer's thread, before
    /// the caller gets it.
    func write<Value: Sendable>(
        _ kind: Kind = .ordinary, committed: (@Sendable (Value) -> Void)? = nil,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let job = WaitedJob(body, committed: committed)
        try enqueue(job, kind)
        return try await job.value()
    }

    /// Runs work between two transactions, for example a checkpoint, which must be outside a transaction.
    func exclusively(_ body: @escaping @Sendable (Database) throws -> Void) async throws(StoreFailure) {
        let job = WaitedJob(body)
        guard state.withLock({ !$0.closed }) else { throw .unavailable("closed") }
        queue.async { [pool] in
            do {
                try pool.writeWithoutTransaction { database in try job.run(database) }
                job.finish(nil)
            } catch { job.finish(StoreFailure(describing: error)) }
        }
        try await job.value()
    }

    /// Retries the failed endings in a second, and then each second until they are written.
    func retrySoon() { scheduleRetry() }

    /// Reserves the disk space for endings if the reserve is missing and the disk has room again.
    func makeReserve() {
        guard let reserve, !reserve.isReady, state.withLock({ !$0.closed }) else { return }
        queue.async { _ = reserve.make() }
    }

    /// The number of waiting writes, for metrics and tests.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Whether the disk was full and the reserve is still missing.
    var endingsOnly: Bool { state.withLock { $0.endingsOnly } }

    var statistics: Statistics { state.withLock { $0.statistics } }

    /// Refuses new work, writes the waiting writes, and retries the failed endings.
    ///
    /// If the disk hangs, this returns after twice the patience.
    func close() async {
        state.withLock { $0.closed = true }
        let end = DispatchTime.now() + Self.patience + Self.patience
        // A write that was accepted just now may not have started its work on the queue yet, so wait until all writes are
        // done.
        repeat {
            await turn()
        } while state.withLock { $0.draining } && DispatchTime.now() < end
        while !additions().isEmpty, DispatchTime.now() < end {
            let written = await turn { self.retry() }
            if !written { break }
        }
    }

    /// Runs work on the writer's thread, and waits for at most `patience`.
    ///
    /// Returns false if the thread did not run it in time.
    @discardableResult
    private func turn(_ work: @escaping @Sendable () -> Void = {}) async -> Bool {
        await withUnsafeContinuation { continuation in
            let waiter = Waiter(continuation)
            queue.async {
                work()
                waiter.resume(true)
            }
            watch.asyncAfter(deadline: .now() + Self.patience) { waiter.resume(false) }
        }
    }

    /// A waiter that ignores every answer after the first.
    private final class Waiter: Sendable {
        /// Guards the continuation, which is nil after it was resumed.
        private let continuation: Mutex<UnsafeContinuation<Bool, Never>?>

        init(_ continuation: UnsafeContinuation<Bool, Never>) { self.continuation = Mutex(continuation) }

        func resume(_ value: Bool) {
            let waiting = continuation.withLock { continuation in
                defer { continuation = nil }
                return continuation
            }
            waiting?.resume(returning: value)
        }
    }

    private func enqueue(_ job: any LaneJob, _ kind: Kind) throws(StoreFailure) {
        let (refusal, start, watching) = state.withLock { state -> (StoreFailure?, Bool, Bool) in
            if state.closed { return (.unavailable("closed"), false, false) }
            if state.endingsOnly, kind == .ordinary { return (.full, false, false) }
            if state.waiting.count >= (kind == .ending ? 2 : 1) * Self.maximumWaiting {
                return (.unavailable("too many writes wait"), false, false)
            }
            state.waiting.append(Waiting(job: job, kind: kind, since: .now()))
            defer {
                state.draining = true
                state.watched = true
            }
            return (nil, !state.draining, !state.watched)
        }
        if let refusal { throw refusal }
        if start { queue.async { self.drain() } }
        if watching { watchAgain() }
    }

    // MARK: Time

    /// Checks for overdue writes for as long as any write waits.
    private func watchAgain() {
        watch.asyncAfter(deadline: .now() + Self.interval) { [weak self] in self?.look() }
    }

    private func look() {
        let limit = DispatchTime.now()
        let (late, goOn) = state.withLock { state -> ([Waiting], Bool) in
            var late = state.running.filter { $0.since + Self.patience <= limit }
            // An overdue write that has not begun is withdrawn. An overdue write that has begun may still be written.
            late += state.waiting.filter { $0.since + Self.patience <= limit }
            if !late.isEmpty { state.waiting.removeAll { $0.since + Self.patience <= limit } }
            state.watched = state.draining
            return (late, state.draining)
        }
        for waiting in late { waiting.job.finish(.unavailable("the disk does not answer")) }
        if goOn { watchAgain() }
    }

    /// Schedules, in a second, a retry of the endings that a full disk or a locked database refused.
    private func scheduleRetry() {
        let start = state.withLock { state in
            defer { state.retrying = true }
            return !state.retrying
        }
        guard start else { return }
        queue.asyncAfter(deadline: .now() + Self.interval) { [weak self] in self?.retry() }
    }

    private func retry() {
        state.withLock { $0.retrying = false }
        if endingsOnly, reserve?.make() ?? true { state.withLock { $0.endingsOnly = false } }
        if !additions().isEmpty { _ = transaction([]) }
        if endingsOnly || !additions().isEmpty, state.withLock({ !$0.closed }) { scheduleRetry() }
    }

    // MARK: Transactions

    private func takeWaiting(stopWhenEmpty: Bool) -> [Waiting] {
        let (taken, refused) = state.withLock { state -> ([Waiting], [Waiting]) in
            let waiting = state.waiting
            state.waiting = []
            let taken = state.endingsOnly ? waiting.filter { $0.kind == .ending } : waiting
            if taken.isEmpty, stopWhenEmpty { state.draining = false }
            state.running += taken
            return (taken, state.endingsOnly ? waiting.filter { $0.kind == .ordinary } : [])
        }
        for waiting in refused { waiting.job.finish(.full) }
        return taken
    }

    private func drain() {
        var members = 0
        while true {
            if members >= Self.company { Self.pause(Self.gathering) }
            let jobs = takeWaiting(stopWhenEmpty: true)
            if jobs.isEmpty { return }
            members = transaction(jobs)
        }
    }

    /// Waits according to a clock that cannot be set.
    ///
    /// On Linux a semaphore's time-out follows the wall clock, so setting that clock back would stop every write.
    private static func pause(_ duration: Duration) {
        var time = timespec(tv_sec: 0, tv_nsec: Int(duration.components.attoseconds / 1_000_000_000))
        nanosleep(&time, nil)
    }

    /// Runs one transaction that begins with these writes, and returns the number of its writes.
    private func transaction(_ first: [Waiting]) -> Int {
        var members: [Waiting] = []
        var added: [any LaneJob] = []
        var failure: StoreFailure?
        var full = false
        do {
            try pool.writeWithoutTransaction { database in
                try database.run("BEGIN IMMEDIATE")
                do {
                    added = additions()
                    for job in added { full = try member(job, database) || full }
                    var next = first
                    while !next.isEmpty {
                        members += next
                        for waiting in next { full = try member(waiting.job, database) || full }
                        next = members.count < Self.maximumMembers ? takeWaiting(stopWhenEmpty: false) : []
                    }
                    try database.run("COMMIT")
                } catch {
                    // A failed COMMIT may leave the transaction open, so roll it back. If the rollback fails, the transaction
                    // is already closed.
                    if database.isInsideTransaction { try? database.run("ROLLBACK") }
                    throw error
                }
            }
            let count = members.count + added.count
            state.withLock { state in
                state.statistics.transactions += 1
                state.statistics.members += count
            }
        } catch {
            failure = StoreFailure(describing: error)
            full = full || Self.isFull(error)
            rolledBack()
            if members.isEmpty { members = first }
        }
        for job in added { job.finish(failure) }
        guard full, reserve?.free() ?? false else {
            state.withLock { $0.running = [] }
            for waiting in members { waiting.job.finish(failure) }
            if failure != nil || full, !additions().isEmpty || endingsOnly { scheduleRetry() }
            return members.count
        }
        // Only endings may use the space that was reserved for them, so only endings are tried again.
        let isTriedAgain = { (waiting: Waiting) in
            waiting.kind == .ending && (failure != nil || waiting.job.hasFailed)
        }
        let endings = members.filter(isTriedAgain)
        state.withLock { state in
            state.endingsOnly = true
            state.running = endings
        }
        for waiting in members where !isTriedAgain(waiting) { waiting.job.finish(failure) }
        scheduleRetry()
        if !endings.isEmpty || !additions().isEmpty { _ = transaction(endings) }
        return members.count
    }

    private static func isFull(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return false }
        // The `-shm` file grows separately. If the disk is full then, SQLite reports another code.
        return error.resultCode == .SQLITE_FULL || error.extendedResultCode == .SQLITE_IOERR_SHMSIZE
    }

    /// Runs one write inside a savepoint, and returns whether the disk was full.
    ///
    /// Throws only if the whole transaction is lost.
    private func member(_ job: any LaneJob, _ database: Database) throws -> Bool {
        var full = false
        try database.run("SAVEPOINT member")
        do {
            try job.run(database)
            try database.run("RELEASE member")
        } catch {
            rolledBack()
            full = Self.isFull(error)
            // On FULL, IOERR and NOMEM SQLite may have rolled back the transaction. Outside the transaction, each later
            // statement would commit on its own, so give up this transaction.
            guard database.isInsideTransaction else { throw error }
            try database.run("ROLLBACK TO member")
            try database.run("RELEASE member")
        }
        guard database.isInsideTransaction else { throw StoreFailure.unavailable("the transaction is gone") }
        return full
    }
}
