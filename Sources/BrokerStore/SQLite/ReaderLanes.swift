import Broker
import Dispatch
import GRDB
import Synchronization

/// The threads that reads run on: a few of their own with a connection each, never the cooperative pool.
///
/// Reads of single rows and reads that walk many have lanes apart, so that neither a list nor a count holds up a
/// session's check. A lane takes one read at a time; a further lane starts when none is idle.
final class ReaderLanes: Sendable {
    /// The number of threads that read single rows at once, and of those that walk tables.
    static let points = 3
    static let scans = 1

    private struct State {
        var waiting: [any LaneJob] = []
        /// The jobs in front that have been taken.
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
    /// Guards what waits and how many threads run.
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

    /// Takes no more work and returns when what waited is done.
    func close() async {
        state.withLock { $0.closed = true }
        // A read that was accepted just before may not have reached the queue yet.
        repeat {
            await withUnsafeContinuation { continuation in queue.async(flags: .barrier) { continuation.resume() } }
        } while state.withLock { $0.running > 0 }
    }

    private func drain() {
        var job = state.withLock { $0.next() }
        while let first = job {
            do {
                // The connection is kept while there is something to read with it.
                try pool.unsafeRead { database in
                    while let next = job {
                        // A job keeps what it threw; the next one has nothing to do with it.
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

/// A piece of database work that somebody waits for.
protocol LaneJob: AnyObject, Sendable {
    /// Does the work and keeps its result. Throws what it threw; `finish` is called all the same.
    func run(_ database: Database) throws
    /// Gives the kept result to the waiter, or the failure when the work's transaction came to nothing.
    func finish(_ failure: StoreFailure?)
    /// Whether `run` threw; asked on the thread that ran it.
    var hasFailed: Bool { get }
}

/// A job with its result.
///
/// A caller that waits may give up; the work does not notice (library note 9).
final class WaitedJob<Value: Sendable>: LaneJob {
    private enum Waiter {
        case none
        case waiting(UnsafeContinuation<Result<Value, StoreFailure>, Never>)
        /// Finished before anybody waited.
        case finished(Result<Value, StoreFailure>)
        /// Nobody waits any more.
        case gone
    }

    private let body: @Sendable (Database) throws -> Value
    /// Gets the result when it is on disk, whether or not anybody waits for it.
    private let committed: (@Sendable (Value) -> Void)?
    /// The result of `run`.
    ///
    /// Touched only by the lane that runs the job, before it calls `finish`.
    private nonisolated(unsafe) var result: Result<Value, StoreFailure> = .failure(.unavailable("not run"))
    /// Guards who waits.
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
    /// Maps whatever the database threw.
    ///
    /// The text names SQLite's code and never a value.
    init(describing error: any Error) {
        switch error {
        case let failure as StoreFailure: self = failure
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL: self = .full
        case let error as DatabaseError: self = .unavailable("SQLite \(error.extendedResultCode.rawValue)")
        default: self = .unavailable("database")
        }
    }
}
