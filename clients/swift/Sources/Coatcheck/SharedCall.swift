import Foundation

/// A call that several callers wait for.
///
/// If all callers are cancelled, the call is cancelled, too.
final class SharedCall<Value: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var result: Result<Value, any Error>?
    private var waiting: [UUID: CheckedContinuation<Value, any Error>] = [:]
    private var left: Set<UUID> = []
    private var task: Task<Void, Never>?

    /// Starts the work.
    init(_ work: @escaping @Sendable () async throws -> Value) {
        task = Task { [self] in
            do { finish(.success(try await work())) } catch { finish(.failure(error)) }
        }
    }

    /// Whether another caller may still join.
    var isOpen: Bool { lock.withLock { result == nil && task?.isCancelled != true } }

    /// Returns the work's result.
    ///
    /// A cancelled caller stops waiting at once.
    func value() async throws -> Value {
        let id = UUID()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let now: Result<Value, any Error>? = lock.withLock {
                    if left.remove(id) != nil { return .failure(CancellationError()) }
                    if let result { return result }
                    waiting[id] = continuation
                    return nil
                }
                if let now { continuation.resume(with: now) }
            }
        } onCancel: {
            leave(id)
        }
    }

    private func leave(_ id: UUID) {
        let (continuation, abandoned) = lock.withLock {
            () -> (CheckedContinuation<Value, any Error>?, Task<Void, Never>?) in
            guard result == nil else { return (nil, nil) }
            let continuation = waiting.removeValue(forKey: id)
            // The caller was cancelled before it stored a continuation, so `value` has to throw instead.
            if continuation == nil { left.insert(id) }
            return (continuation, waiting.isEmpty ? task : nil)
        }
        abandoned?.cancel()
        continuation?.resume(throwing: CancellationError())
    }

    private func finish(_ result: Result<Value, any Error>) {
        let all = lock.withLock {
            self.result = result
            defer { waiting = [:] }
            return Array(waiting.values)
        }
        for continuation in all { continuation.resume(with: result) }
    }
}
