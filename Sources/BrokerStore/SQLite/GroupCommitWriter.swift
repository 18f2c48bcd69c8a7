import Broker
import Dispatch
import GRDB
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The one writer.
///
/// Writes that arrive together share a transaction and its `fdatasync` (decision 5): the queue is drained into
/// one IMMEDIATE transaction, each member inside a savepoint; no result is told before COMMIT.
///
/// A write that arrives while members run joins them, and one that arrives while the disk syncs is in the next
/// transaction. Where the last one had company, the next waits half a millisecond for more: a fast disk would be asked
/// too often otherwise. A write that comes alone never waits.
///
/// Nobody waits without bound: a queue that is full refuses, and what a hanging disk has kept for 10 s is told so; it may
/// be written all the same. On a full disk the reserve is freed, and until it could be made again only endings are
/// written.
final class GroupCommitWriter: Sendable {
    /// The writer's work since it began.
    struct Statistics: Sendable, Equatable {
        /// Committed transactions: each costs one `fdatasync`.
        var transactions = 0
        /// Writes in them.
        var members = 0
    }

    /// Tells which writes a full disk still has room for.
    enum Kind: Sendable {
        case ordinary
        /// Sessions are ended, or a logout token is used: the reserve is kept for these.
        case ending
    }

    private struct Waiting {
        let job: any LaneJob
        let kind: Kind
        let since: DispatchTime
    }

    private struct State {
        var waiting: [Waiting] = []
        /// Members of the transaction under way.
        var running: [Waiting] = []
        var draining = false
        var watched = false
        var retrying = false
        var closed = false
        var endingsOnly = false
        var statistics = Statistics()
    }

    /// A transaction takes no more members than this, so that the first does not wait too long for its commit.
    private static let maximumMembers = 512
    /// The most writes that may wait; endings have twice the room.
    static let maximumWaiting = 8192
    /// The time for which a write may wait, its transaction included.
    static let patience = DispatchTimeInterval.seconds(10)
    /// The interval at which a write that a full disk refused is tried again, and old ones are looked for.
    private static let interval = DispatchTimeInterval.seconds(1)
    /// The number of members from which a transaction had company.
    private static let company = 4
    private static let gathering = Duration.microseconds(500)

    private let pool: DatabasePool
    private let reserve: ReserveFile?
    private let queue = DispatchQueue(label: "coatcheck.store.writer")
    /// The queue on which it is noticed that the writer hangs.
    private let watch = DispatchQueue(label: "coatcheck.store.watch")
    /// Guards what waits and whether somebody drains.
    private let state = Mutex(State())
    /// Returns further jobs for the next transaction (endings that could not be written before).
    private let additions: @Sendable () -> [any LaneJob]
    /// Hears when a transaction or a member came to nothing.
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
    /// A caller that is cancelled gives up the wait only. `committed` gets the result on the writer's thread, after COMMIT
    /// and before the caller.
    func write<Value: Sendable>(
        _ kind: Kind = .ordinary, committed: (@Sendable (Value) -> Void)? = nil,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let job = WaitedJob(body, committed: committed)
        try enqueue(job, kind)
        return try await job.value()
    }

    /// Runs work that must not be inside a transaction (a checkpoint), between transactions.
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

    /// Writes what could not be written before within a second, and goes on trying.
    func retrySoon() { scheduleRetry() }

    /// Makes the reserve where it is missing and the disk has room for it again.
    func makeReserve() {
        guard let reserve, !reserve.isReady, state.withLock({ !$0.closed }) else { return }
        queue.async { _ = reserve.make() }
    }

    /// The number of writes that wait; for metrics and tests.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Whether the disk was full and the reserve is not there again.
    var endingsOnly: Bool { state.withLock { $0.endingsOnly } }

    var statistics: Statistics { state.withLock { $0.statistics } }

    /// Takes no more work and returns when what was queued is written, and what could not be written before was tried
    /// once more; at the latest after twice the patience, when the disk hangs.
    func close() async {
        state.withLock { $0.closed = true }
        let end = DispatchTime.now() + Self.patience + Self.patience
        // A write that was accepted just before may not have reached the queue yet.
        repeat {
            await turn()
        } while state.withLock { $0.draining } && DispatchTime.now() < end
        while !additions().isEmpty, DispatchTime.now() < end {
            let written = await turn { self.retry() }
            if !written { break }
        }
    }

    /// Has the writer's thread do something, and waits no longer for it than a write may wait; false when it did not come.
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

    /// Somebody who is told once.
    private final class Waiter: Sendable {
        /// Guards the continuation; nil once it was resumed.
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

    /// Tells those who have waited too long, for as long as anybody waits.
    private func watchAgain() {
        watch.asyncAfter(deadline: .now() + Self.interval) { [weak self] in self?.look() }
    }

    private func look() {
        let limit = DispatchTime.now()
        let (late, goOn) = state.withLock { state -> ([Waiting], Bool) in
            var late = state.running.filter { $0.since + Self.patience <= limit }
            // A write that has not begun is withdrawn; one that has may be written all the same.
            late += state.waiting.filter { $0.since + Self.patience <= limit }
            if !late.isEmpty { state.waiting.removeAll { $0.since + Self.patience <= limit } }
            state.watched = state.draining
            return (late, state.draining)
        }
        for waiting in late { waiting.job.finish(.unavailable("the disk does not answer")) }
        if goOn { watchAgain() }
    }

    /// Tries again, a second later, what a full disk or a locked database would not take.
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

    /// Waits on a clock that nobody sets.
    ///
    /// A semaphore's time-out is a moment of the wall clock on Linux: one that is set back would stop every write.
    private static func pause(_ duration: Duration) {
        var time = timespec(tv_sec: 0, tv_nsec: Int(duration.components.attoseconds / 1_000_000_000))
        nanosleep(&time, nil)
    }

    /// Returns how many members it had.
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
                    // A failed COMMIT may leave the transaction open; a rollback that fails has nothing to undo.
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
        // There is room now, and it is for the endings alone.
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
        // The log's index grows in steps of its own; where it cannot, that is said otherwise.
        return error.resultCode == .SQLITE_FULL || error.extendedResultCode == .SQLITE_IOERR_SHMSIZE
    }

    /// Runs one member inside a savepoint, and returns whether it met a full disk.
    ///
    /// Throws only when the whole transaction is lost.
    private func member(_ job: any LaneJob, _ database: Database) throws -> Bool {
        var full = false
        try database.run("SAVEPOINT member")
        do {
            try job.run(database)
            try database.run("RELEASE member")
        } catch {
            rolledBack()
            full = Self.isFull(error)
            // On FULL, IOERR, NOMEM SQLite may have rolled everything back; what followed would commit alone.
            guard database.isInsideTransaction else { throw error }
            try database.run("ROLLBACK TO member")
            try database.run("RELEASE member")
        }
        guard database.isInsideTransaction else { throw StoreFailure.unavailable("the transaction is gone") }
        return full
    }
}
