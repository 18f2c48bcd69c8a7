import NIOCore
import Synchronization

/// Stands between the HTTP client and the app's request body.
///
/// The client reads the body in a task of its own, which can outlive the exchange: an upstream may answer before it has
/// read everything. The server forbids two readers of one connection, by a trap. So nobody returns to the server before
/// the gate is closed: no read is under way then, and none will begin.
///
/// That task waits here until the upstream takes more, and nowhere else: the client forgets who waits for room in a
/// request that fails or is refused (`RequestBag.fail`).
final class BodyGate: Sendable {
    /// How far the sending is.
    private enum Sending {
        case notBegun
        /// The promise tells the client that it has the whole body, or that there will not be more.
        case underWay(EventLoopPromise<Void>)
        case stopped(any Error)
        case finished
    }

    private struct State {
        var isReading = false
        var isClosed = false
        var isFinished = false
        /// Since when the upstream has been at turn.
        var upstreamTurn: ContinuousClock.Instant
        var closer: CheckedContinuation<Void, Never>?
        var sending = Sending.notBegun
        /// Who waits until the upstream takes more.
        var waiter: CheckedContinuation<Void, any Error>?
    }

    /// An error thrown into a read after the gate was closed.
    struct Closed: Error {}
    /// An error thrown when the upstream neither took more of the body nor answered in time.
    struct Stalled: Error {}

    private let state: Mutex<State>

    init() { state = Mutex(State(upstreamTurn: .now)) }

    /// Begins a read of the app's body.
    func enter() throws(Closed) {
        let isOpen = state.withLock { state in
            guard !state.isClosed else { return false }
            state.isReading = true
            return true
        }
        if !isOpen { throw Closed() }
    }

    /// Ends a read; `finished` after the last chunk.
    func leave(finished: Bool) {
        let closer = state.withLock { state in
            state.isReading = false
            state.isFinished = state.isFinished || finished
            state.upstreamTurn = .now
            defer { state.closer = nil }
            return state.closer
        }
        closer?.resume()
    }

    // MARK: Sending

    /// Begins the sending, which `finish` or `stop` ends; false, and the promise is failed, when it was stopped before.
    func begin(_ promise: EventLoopPromise<Void>) -> Bool {
        let stopped: (any Error)? = state.withLock { state in
            if case .stopped(let error) = state.sending { return error }
            state.sending = .underWay(promise)
            return nil
        }
        guard let stopped else { return true }
        promise.fail(stopped)
        return false
    }

    /// Waits until there is room for more; throws when the sending is stopped, whatever becomes of `room`.
    func wait(for room: EventLoopFuture<Void>) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            let stopped: (any Error)? = state.withLock { state in
                if case .stopped(let error) = state.sending { return error }
                state.waiter = continuation
                return nil
            }
            if let stopped { return continuation.resume(throwing: stopped) }
            // Weak, because this is what would stay when the client forgets.
            room.whenComplete { [weak self] result in self?.takeWaiter()?.resume(with: result) }
        }
    }

    private func takeWaiter() -> CheckedContinuation<Void, any Error>? {
        state.withLock { state in
            defer { state.waiter = nil }
            return state.waiter
        }
    }

    /// Ends the sending: this was the whole body.
    func finish() {
        let promise: EventLoopPromise<Void>? = state.withLock { state in
            guard case .underWay(let promise) = state.sending else { return nil }
            state.sending = .finished
            return promise
        }
        promise?.succeed()
    }

    /// Stops the sending, unless it has ended.
    ///
    /// Returns whether the call ends by that, now or because somebody else has stopped it; false when its request was
    /// not begun or is whole.
    @discardableResult
    func stop(_ reason: any Error) -> Bool {
        let (isEnding, promise, waiter) = state.withLock {
            state -> (Bool, EventLoopPromise<Void>?, CheckedContinuation<Void, any Error>?) in
            switch state.sending {
            case .notBegun:
                state.sending = .stopped(reason)
                return (false, nil, nil)
            case .underWay(let promise):
                state.sending = .stopped(reason)
                defer { state.waiter = nil }
                return (true, promise, state.waiter)
            case .stopped: return (true, nil, nil)
            case .finished: return (false, nil, nil)
            }
        }
        promise?.fail(reason)
        waiter?.resume(throwing: reason)
        return isEnding
    }

    // MARK: Ending

    /// Whether the whole body was read.
    var isFinished: Bool { state.withLock(\.isFinished) }

    /// Lets no further read begin and waits for the one under way, which ends with the app's next chunk or its end.
    func close() async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                state.isClosed = true
                if state.isReading { state.closer = continuation }
                return !state.isReading
            }
            if isIdle { continuation.resume() }
        }
    }

    /// Waits until the upstream was at turn for `limit`, and throws `Stalled`.
    ///
    /// A slow app is not its fault and not watched here: the server's own deadlines do that.
    func watch(_ limit: Duration) async throws {
        while true {
            let wake = state.withLock { $0.isReading ? .now + limit : $0.upstreamTurn + limit }
            if wake <= .now { throw Stalled() }
            try await Task.sleep(until: wake, clock: .continuous)
        }
    }
}
