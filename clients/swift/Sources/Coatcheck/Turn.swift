import Foundation

/// A queue that does one piece of work at a time, in the order of the requests.
final class Turn: @unchecked Sendable {
    private let lock = NSLock()
    private var isTaken = false
    private var waiting: [(id: UUID, continuation: CheckedContinuation<Void, any Error>)] = []
    private var left: Set<UUID> = []

    /// The number of waiting callers.
    var count: Int { lock.withLock { waiting.count } }

    /// Does the work when its turn comes.
    ///
    /// If the caller is cancelled before its turn, it stops waiting at once.
    func taken<Value: Sendable>(_ work: @Sendable () async throws -> Value) async throws -> Value {
        try await take()
        defer { pass() }
        return try await work()
    }

    /// Fails all waiting callers.
    func refuse(_ error: any Error) {
        let all = lock.withLock {
            defer { waiting = [] }
            return waiting
        }
        for one in all { one.continuation.resume(throwing: error) }
    }

    private func take() async throws {
        let id = UUID()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let now: Result<Void, any Error>? = lock.withLock {
                    if left.remove(id) != nil { return .failure(CancellationError()) }
                    guard isTaken else {
                        isTaken = true
                        return .success(())
                    }
                    waiting.append((id, continuation))
                    return nil
                }
                if let now { continuation.resume(with: now) }
            }
        } onCancel: {
            leave(id)
        }
    }

    private func leave(_ id: UUID) {
        let continuation = lock.withLock { () -> CheckedContinuation<Void, any Error>? in
            guard let index = waiting.firstIndex(where: { $0.id == id }) else {
                left.insert(id)
                return nil
            }
            return waiting.remove(at: index).continuation
        }
        continuation?.resume(throwing: CancellationError())
    }

    private func pass() {
        let next = lock.withLock { () -> CheckedContinuation<Void, any Error>? in
            guard !waiting.isEmpty else {
                isTaken = false
                return nil
            }
            return waiting.removeFirst().continuation
        }
        next?.resume()
    }
}
