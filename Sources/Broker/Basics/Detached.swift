import Synchronization

/// Runs work that must outlive the request that started it, for example a code's exchange or a refresh.
package enum Detached {
    /// Starts `work` and waits for its result; nil if the waiting task is cancelled first, in which case the work continues.
    package static func run<Value: Sendable>(
        _ name: StaticString, on spawner: Spawner, _ work: @escaping @Sendable () async -> Value
    ) async -> Value? {
        await run(name, on: spawner) { _ in await work() }
    }

    /// Starts `work`, which may deliver its result before it ends.
    ///
    /// Returns nil if the waiting task is cancelled first.
    package static func run<Value: Sendable>(
        _ name: StaticString, on spawner: Spawner,
        _ work: @escaping @Sendable (_ answer: @escaping @Sendable (Value) -> Void) async -> Value
    ) async -> Value? {
        let result = PendingResult<Value>()
        spawner.spawn(name) { result.resolve(await work { result.resolve($0) }) }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { result.wait($0) }
        } onCancel: {
            result.resolve(nil)
        }
    }
}

/// A result that the work resolves and one caller waits for.
///
/// The mutex guards the result and the waiting caller.
private final class PendingResult<Value: Sendable>: Sendable {
    private enum State {
        case empty
        case waiting(CheckedContinuation<Value?, Never>)
        case resolved(Value?)
    }

    private let state = Mutex(State.empty)

    func resolve(_ value: Value?) {
        let waiter = state.withLock { state -> CheckedContinuation<Value?, Never>? in
            switch state {
            case .empty:
                state = .resolved(value)
                return nil
            case .waiting(let continuation):
                state = .resolved(nil)
                return continuation
            case .resolved: return nil
            }
        }
        waiter?.resume(returning: value)
    }

    func wait(_ continuation: CheckedContinuation<Value?, Never>) {
        let ready = state.withLock { state -> (Bool, Value?) in
            if case .resolved(let value) = state { return (true, value) }
            state = .waiting(continuation)
            return (false, nil)
        }
        if ready.0 { continuation.resume(returning: ready.1) }
    }
}
