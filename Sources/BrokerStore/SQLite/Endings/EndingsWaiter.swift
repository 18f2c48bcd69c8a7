import Synchronization

/// Somebody who waits for endings to be kept, and is told once.
final class EndingsWaiter: Sendable {
    /// Guards the continuation; nil once it was resumed.
    private let continuation: Mutex<UnsafeContinuation<Bool, Never>?>

    init(_ continuation: UnsafeContinuation<Bool, Never>) { self.continuation = Mutex(continuation) }

    /// Whether it was told.
    var isTold: Bool { continuation.withLock { $0 == nil } }

    /// Tells it, unless it was told before; returns whether it was not.
    @discardableResult
    func resume(_ value: Bool) -> Bool {
        let waiting = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        waiting?.resume(returning: value)
        return waiting != nil
    }
}
