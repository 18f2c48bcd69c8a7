import Broker
import Dispatch
import GRDB
import Synchronization

/// The threads for reads, each with a database connection, outside the cooperative pool.
///
/// Reads of single rows and walks over many rows have separate lanes, so that a list or a count cannot delay the check of a
/// session. Each thread does one read at a time. If all threads are busy, the next read starts another thread, up to the
/// lane's number.
final class ReaderLanes: Sendable {
    /// The number of threads for reads of single rows, and the number for walks over tables.
    static let points = 3
    static let scans = 1

    private struct State {
        var waiting: [any LaneJob] = []
        /// The number of jobs at the front of the queue that threads have taken.
        var taken = 0
        var running = 0
        var closed = false

        mutating func next() -> (any LaneJob)? {
            guard taken < waiting.count else {
                waiting.removeAll(keepingCapacity: waiting.count <= 256)
                taken = 0
                running -= 1
                return nil
            }
            if taken > 256, taken * 2 > waiting.count {
                waiting.removeFirst(taken)
                taken = 0
            }
            defer { taken += 1 }
            return waiting[taken]
        }
    }

    private let pool: DatabasePool
    private let count: Int
    private let queue: DispatchQueue
    /// Guards the queue and the number of running threads.
    private let state = Mutex(State())

    init(_ pool: DatabasePool, count: Int) {
        self.pool = pool
        self.count = count
        queue = DispatchQueue(label: "coatcheck.store.readers", attributes: .concurrent)
    }

    /// Runs a query outside any transaction and waits for its result.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreFailure) -> Value {
        let job = WaitedJob(body)
        let (accepted, start) = state.withLock { state in
            guard !state.closed else { return (false, false) }
            state.waiting.append(job)
            guard state.running < count else { return (true, false) }
            state.running += 1
            return (true, true)
        }
        guard accepted else { throw .unavailable("closed") }
        if start { queue.async { self.drain() } }
        return try await job.value()
    }

    /// Refuses new work, and returns when the waiting reads are done.
    func close() async {
        state.withLock { $0.closed = true }
        // A read that was accepted just now may not have started its work on the queue yet, so wait until no thread is
        // running.
        repeat {
            await withUnsafeContinuation { continuation in queue.async(flags: .barrier) { continuation.resume() } }
        } while state.withLock { $0.running > 0 }
    }

    private func drain() {
        var job = state.withLock { $0.next() }
        while let first = job {
            do {
                // The connection is kept for as long as reads are waiting.
                try pool.unsafeRead { database in
                    while let next = job {
                        // A job keeps its own error for its caller, so the next job runs in any case.
                        try? next.run(database)
                        next.finish(nil)
                        job = state.withLock { $0.next() }
                    }
                }
            } catch {
                first.finish(StoreFailure(describing: error))
                job = state.withLock { $0.next() }
            }
        }
    }
}

/// Work on the database whose caller waits for the result.
protocol LaneJob: AnyObject, Sendable {
    /// Does the work and keeps its result.
    ///
    /// Throws the work's error after keeping it; `finish` is called in any case.
    func run(_ database: Database) throws
    /// Resumes the caller with the kept result, or with the failure if the transaction was rolled back.
    func finish(_ failure: StoreFailure?)
    /// Whether `run` threw; read on the thread that ran it.
    var hasFailed: Bool { get }
}

/// A job that keeps its result for the caller.
///
/// The caller may stop waiting; the work continues (library note 9).
final class WaitedJob<Value: Sendable>: LaneJob {
    private enum Waiter {
        case none
        case waiting(UnsafeContinuation<Result<Value, StoreFailure>, Never>)
        /// The job finished before its caller began to wait.
        case finished(Result<Value, StoreFailure>)
        /// The caller has stopped waiting.
        case gone
    }

    private let body: @Sendable (Database) throws -> Value
    /// Called with the result when the write is on disk, even if the caller no longer waits.
    private let committed: (@Sendable (Value) -> Void)?
    /// The result of `run`.
    ///
    /// Only the thread that runs the job uses the result, before and during `finish`.
    private nonisolated(unsafe) var result: Result<Value, StoreFailure> = .failure(.unavailable("not run"))
    /// Guards the waiter.
    private let waiter = Mutex(Waiter.none)

    init(
        _ body: @escaping @Sendable (Database) throws -> Value, committed: (@Sendable (Value) -> Void)? = nil
    ) {
        self.body = body
        self.committed = committed
    }

    func run(_ database: Database) throws {
        do {
            result = .success(try body(database))
        } catch {
            result = .failure(StoreFailure(describing: error))
            throw error
        }
    }

    var hasFailed: Bool { if case .failure = result { true } else { false } }

    func finish(_ failure: StoreFailure?) {
        if failure == nil, case .success(let value) = result { committed?(value) }
        resume(failure.map { .failure($0) } ?? result)
    }

    /// Waits for `finish`, or until the caller's task is cancelled.
    func value() async throws(StoreFailure) -> Value {
        let result = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                let early: Result<Value, StoreFailure>? = waiter.withLock { waiter in
                    switch waiter {
                    case .none, .waiting:
                        waiter = .waiting(continuation)
                        return nil
                    case .finished(let result): return result
                    case .gone: return .failure(.inDoubt("the caller gave up"))
                    }
                }
                if let early { continuation.resume(returning: early) }
            }
        } onCancel: {
            let waiting: UnsafeContinuation<Result<Value, StoreFailure>, Never>? = waiter.withLock { waiter in
                switch waiter {
                case .finished, .gone: return nil
                case .none:
                    waiter = .gone
                    return nil
                case .waiting(let continuation):
                    waiter = .gone
                    return continuation
                }
            }
            waiting?.resume(returning: .failure(.inDoubt("the caller gave up")))
        }
        return try result.get()
    }

    private func resume(_ result: Result<Value, StoreFailure>) {
        let waiting: UnsafeContinuation<Result<Value, StoreFailure>, Never>? = waiter.withLock { waiter in
            switch waiter {
            case .finished, .gone: return nil
            case .none:
                waiter = .finished(result)
                return nil
            case .waiting(let continuation):
                waiter = .gone
                return continuation
            }
        }
        waiting?.resume(returning: result)
    }
}

extension StoreFailure {
    /// Maps an error of the database.
    ///
    /// The text contains SQLite's code and never a value.
    init(describing error: any Error) {
        switch error {
        case let failure as StoreFailure: self = failure
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL: self = .full
        case let error as DatabaseError: self = .unavailable("SQLite \(error.extendedResultCode.rawValue)")
        case let fault as StatementFault: self = .unavailable("statement: \(fault)")
        default: self = .unavailable("database")
        }
    }
}
