import Broker
import GRDB
import Synchronization

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
/// Whoever waits may give up; the work does not notice (library note 9).
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
    /// What `run` came to.
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
