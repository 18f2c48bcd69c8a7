import NIOCore
import Synchronization

/// Stands between the HTTP client and the app's request body.
///
/// The client reads the body in a task of its own, which can outlive the exchange: an upstream may answer before it has
/// read everything. The server forbids two readers of one connection, by a trap. So nobody returns to the server before
/// the gate is closed: no read is under way then, and none will begin.
final class BodyGate: Sendable {
    private struct State {
        var isReading = false
        var isClosed = false
        var isFinished = false
        /// Since when the upstream has been at turn.
        var upstreamTurn: ContinuousClock.Instant
        var closer: CheckedContinuation<Void, Never>?
        /// Tells the client that it has the whole body, or that there will not be more.
        var sent: EventLoopPromise<Void>?
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

    /// Begins the sending, which `sent` ends.
    func sending(_ promise: EventLoopPromise<Void>) { state.withLock { $0.sent = promise } }

    /// Ends the sending.
    ///
    /// The first one to do so decides how; false for everybody else, and when it has not begun.
    @discardableResult
    func sent(_ result: Result<Void, any Error>) -> Bool {
        let promise = state.withLock { state in
            defer { state.sent = nil }
            return state.sent
        }
        promise?.completeWith(result)
        return promise != nil
    }

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
