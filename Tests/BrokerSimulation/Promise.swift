/// A value that arrives later.
///
/// If several values arrive, only the first one counts.
final class Promise<Value: Sendable>: @unchecked Sendable {
    private(set) var value: Value?
    private var waiter: UnsafeContinuation<Value, Never>?

    func resolve(_ value: Value) {
        guard self.value == nil else { return }
        self.value = value
        waiter?.resume(returning: value)
        waiter = nil
    }

    /// Waits for the value; only one task may wait at a time.
    func wait() async -> Value {
        if let value { return value }
        return await withUnsafeContinuation { waiter = $0 }
    }

    /// Waits for the value; returns the argument instead if the waiting task is cancelled.
    func wait(orCancelled value: Value) async -> Value {
        await withTaskCancellationHandler {
            await wait()
        } onCancel: {
            resolve(value)
        }
    }
}
