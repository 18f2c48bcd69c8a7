import Broker
import Synchronization

/// A piece of work for a pipelining connection: one transaction.
protocol PipelineJob: AnyObject, Sendable {
    /// The statements in order.
    ///
    /// The last statement's rows are the result. The statements before it prepare the transaction.
    var statements: [BoundStatement] { get }
    var isWrite: Bool { get }
    /// The time until which the job may wait for a connection, by the process's monotonic clock.
    var patience: Duration { get }
    /// Decodes the result; called on the connection's thread.
    func keep(_ rows: ResultRows)
    /// Resumes the caller that waits, with the kept result or with the failure.
    func finish(_ failure: JobFailure?)
}

/// The reason why a job has no result.
enum JobFailure: Error, Sendable, Equatable {
    case server(ServerFault)
    case inDoubt
    /// The job was not begun, or it changed nothing, so it can be repeated safely.
    case store(StoreFailure)

    /// The failure that the store's caller receives.
    var failure: StoreFailure {
        switch self {
        case .server(let fault): fault.failure
        case .inDoubt: .inDoubt("the connection to PostgreSQL was lost")
        case .store(let failure): failure
        }
    }
}

/// A job whose caller waits for the result.
final class WaitedPipelineJob<Value: Sendable>: PipelineJob {
    typealias Answer = Result<Value, JobFailure>

    let statements: [BoundStatement]
    let isWrite: Bool
    let patience: Duration
    private let decode: @Sendable (ResultRows) throws -> Value
    private let waiter: UnsafeContinuation<Answer, Never>
    /// The value that `keep` decoded.
    ///
    /// Only one connection's thread at a time uses it.
    private nonisolated(unsafe) var kept: Answer = .failure(.store(.unavailable("no answer")))
    /// Guards against a second answer.
    private let isFinished = Atomic<Bool>(false)

    init(
        _ statements: [BoundStatement], isWrite: Bool, patience: Duration, waiter: UnsafeContinuation<Answer, Never>,
        decode: @escaping @Sendable (ResultRows) throws -> Value
    ) {
        self.statements = statements
        self.isWrite = isWrite
        self.patience = patience
        self.waiter = waiter
        self.decode = decode
    }

    func keep(_ rows: ResultRows) {
        do {
            kept = .success(try decode(rows))
        } catch {
            kept = .failure(.store(error as? StoreFailure ?? .unavailable("a row is damaged")))
        }
    }

    func finish(_ failure: JobFailure?) {
        guard !isFinished.exchange(true, ordering: .acquiringAndReleasing) else { return }
        waiter.resume(returning: failure.map { .failure($0) } ?? kept)
    }
}
