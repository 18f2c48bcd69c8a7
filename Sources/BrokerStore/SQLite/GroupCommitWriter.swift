import Broker
import Dispatch
import GRDB
import Synchronization

/// The one writer.
///
/// Writes that arrive together share a transaction and its `fdatasync` (DESIGN section 6): the queue is drained into
/// one IMMEDIATE transaction, each member inside a savepoint; no result is told before COMMIT.
///
/// What arrives while members run joins them, and what arrives while the disk syncs is the next transaction. Where the
/// last one had company, the next waits half a millisecond for more: a fast disk would be asked too often otherwise. A
/// write that comes alone never waits.
final class GroupCommitWriter: Sendable {
    /// What the writer has done since it began.
    struct Statistics: Sendable, Equatable {
        /// Committed transactions: each costs one `fdatasync`.
        var transactions = 0
        /// Writes in them.
        var members = 0
    }

    private struct State {
        var waiting: [any LaneJob] = []
        var draining = false
        var closed = false
        var statistics = Statistics()
    }

    /// A transaction takes no more members than this, so that the first does not wait too long for its commit.
    private static let maximumMembers = 512
    /// From how many members on a transaction had company.
    private static let company = 4
    private static let gathering = DispatchTimeInterval.microseconds(500)

    private let pool: DatabasePool
    private let queue = DispatchQueue(label: "coatcheck.store.writer")
    /// Never signalled: to wait on it is to pause.
    private let pause = DispatchSemaphore(value: 0)
    /// Guards what waits and whether somebody drains.
    private let state = Mutex(State())
    /// What else goes into the next transaction (endings that could not be written before), as jobs.
    private let additions: @Sendable () -> [any LaneJob]
    /// Hears when a transaction or a member came to nothing.
    private let rolledBack: @Sendable () -> Void

    init(
        _ pool: DatabasePool, additions: @escaping @Sendable () -> [any LaneJob],
        rolledBack: @escaping @Sendable () -> Void
    ) {
        self.pool = pool
        self.additions = additions
        self.rolledBack = rolledBack
    }

    /// Queues a write and waits until its transaction is on disk.
    ///
    /// A caller that is cancelled gives up the wait only.
    func write<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let job = WaitedJob(body)
        guard enqueue(job) else { throw .unavailable("closed") }
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

    /// How many writes wait; for metrics and tests.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    var statistics: Statistics { state.withLock { $0.statistics } }

    /// Takes no more work and returns when what was queued is written.
    func close() async {
        state.withLock { $0.closed = true }
        // A write that was accepted just before may not have reached the queue yet.
        repeat {
            await withUnsafeContinuation { continuation in queue.async { continuation.resume() } }
        } while state.withLock { $0.draining }
    }

    private func enqueue(_ job: any LaneJob) -> Bool {
        let (accepted, start) = state.withLock { state in
            guard !state.closed else { return (false, false) }
            state.waiting.append(job)
            defer { state.draining = true }
            return (true, !state.draining)
        }
        if start { queue.async { self.drain() } }
        return accepted
    }

    private func takeWaiting(stopWhenEmpty: Bool) -> [any LaneJob] {
        state.withLock { state in
            if state.waiting.isEmpty {
                if stopWhenEmpty { state.draining = false }
                return []
            }
            let taken = state.waiting
            state.waiting = []
            return taken
        }
    }

    private func drain() {
        var members = 0
        while true {
            if members >= Self.company { _ = pause.wait(timeout: .now() + Self.gathering) }
            let jobs = takeWaiting(stopWhenEmpty: true)
            if jobs.isEmpty { return }
            members = transaction(jobs)
        }
    }

    /// Returns how many members it had.
    private func transaction(_ first: [any LaneJob]) -> Int {
        var members: [any LaneJob] = []
        var failure: StoreFailure?
        do {
            try pool.writeWithoutTransaction { database in
                try database.run("BEGIN IMMEDIATE")
                do {
                    var next = additions() + first
                    while !next.isEmpty {
                        members += next
                        for job in next { try member(job, database) }
                        next = members.count < Self.maximumMembers ? takeWaiting(stopWhenEmpty: false) : []
                    }
                    try database.run("COMMIT")
                } catch {
                    // A failed COMMIT may leave the transaction open; a rollback that fails has nothing to undo.
                    if database.isInsideTransaction { try? database.run("ROLLBACK") }
                    throw error
                }
            }
            let count = members.count
            state.withLock { state in
                state.statistics.transactions += 1
                state.statistics.members += count
            }
        } catch {
            failure = StoreFailure(describing: error)
            rolledBack()
            if members.isEmpty { members = first }
        }
        for job in members { job.finish(failure) }
        return members.count
    }

    /// Runs one member inside a savepoint.
    ///
    /// Throws only when the whole transaction is lost.
    private func member(_ job: any LaneJob, _ database: Database) throws {
        try database.run("SAVEPOINT member")
        do {
            try job.run(database)
            try database.run("RELEASE member")
        } catch {
            rolledBack()
            // On FULL, IOERR, NOMEM SQLite may have rolled everything back; what followed would commit alone.
            guard database.isInsideTransaction else { throw error }
            try database.run("ROLLBACK TO member")
            try database.run("RELEASE member")
        }
        guard database.isInsideTransaction else { throw StoreFailure.unavailable("the transaction is gone") }
    }
}
