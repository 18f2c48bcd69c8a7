/// A value that arrives later; only the first value counts.
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

    /// Waits for the promised value; returns `value` if the task is cancelled.
    func wait(orCancelled value: Value) async -> Value {
        await withTaskCancellationHandler {
            await wait()
        } onCancel: {
            resolve(value)
        }
    }
}
