package import Broker
package import NIOCore
import Synchronization

/// The connection that a request came on: whose it is, and whether there is still somebody at the other end.
///
/// Made once a connection, so that what does not change is not worked out for every request.
package final class ClientConnection: Sendable {
    /// The TCP peer's address without its port, for the log; `-` when there is none (a Unix socket).
    package let peerText: String
    /// The TCP peer's address.
    package let peer: IPAddress?

    private struct State {
        var gone = false
        var quiescing = false
        /// How much work is under way that nobody needs without the client.
        var cancellable = 0
        /// The request that is being served.
        var task: Task<Void, Never>?
        var nextID = 0
        var onGone: [Int: @Sendable () -> Void] = [:]
        var onQuiesce: [Int: @Sendable () -> Void] = [:]
    }

    private let state = Mutex(State())

    /// Creates it for a channel's remote address.
    package init(remoteAddress: SocketAddress?) {
        let text = remoteAddress?.ipAddress
        peerText = text ?? "-"
        peer = text.flatMap { IPAddress($0) }
    }

    /// Names what to do when the client hangs up; done at once when it has.
    ///
    /// Returns what takes it back.
    package func whenGone(_ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let id: Int? = state.withLock { state in
            guard !state.gone else { return nil }
            state.nextID += 1
            state.onGone[state.nextID] = action
            return state.nextID
        }
        guard let id else {
            action()
            return {}
        }
        return { [self] in _ = state.withLock { $0.onGone.removeValue(forKey: id) } }
    }

    /// Names what to do when the server begins to shut down; done at once when it has.
    ///
    /// Returns what takes it back.
    package func whenQuiescing(_ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let id: Int? = state.withLock { state in
            guard !state.quiescing else { return nil }
            state.nextID += 1
            state.onQuiesce[state.nextID] = action
            return state.nextID
        }
        guard let id else {
            action()
            return {}
        }
        return { [self] in _ = state.withLock { $0.onQuiesce.removeValue(forKey: id) } }
    }

    /// Registers the task of the request under way.
    func serves(_ task: Task<Void, Never>) {
        let isUnwanted = state.withLock { state in
            state.task = task
            return state.gone && state.cancellable > 0
        }
        if isUnwanted { task.cancel() }
    }

    /// Forgets the task of a request that is answered.
    func served() { state.withLock { $0.task = nil } }

    /// Cancels the request under way, whatever it does.
    func cancel() { state.withLock { $0.task }?.cancel() }

    /// Runs work that is of no use once the client is gone: the request's task is cancelled then.
    ///
    /// A handler is never cancelled for its client's sake otherwise (engineering note 3): most work has to be finished.
    package func cancellingWhenGone<Value, Failure: Error>(
        _ work: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        beginCancellable()
        defer { endCancellable() }
        return try await work()
    }

    /// Begins such work; cancels its task when the client is gone already.
    func beginCancellable() {
        let unwanted = state.withLock { state in
            state.cancellable += 1
            return state.gone ? state.task : nil
        }
        unwanted?.cancel()
    }

    /// Ends such work.
    func endCancellable() { state.withLock { $0.cancellable -= 1 } }

    /// Whether the client has hung up.
    package var isGone: Bool { state.withLock { $0.gone } }

    func clientGone() {
        let (actions, task) = state.withLock { state in
            defer { state.onGone = [:] }
            state.gone = true
            return (Array(state.onGone.values), state.cancellable > 0 ? state.task : nil)
        }
        for action in actions { action() }
        task?.cancel()
    }

    func quiesce() {
        let actions = state.withLock { state in
            defer { state.onQuiesce = [:] }
            state.quiescing = true
            return Array(state.onQuiesce.values)
        }
        for action in actions { action() }
    }
}
