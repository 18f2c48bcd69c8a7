import HTTPTypes
package import NIOCore
import Synchronization

/// A client's connection: its peer, and whether the client is still there.
///
/// Each connection has one object of this class, so constant values are computed only once.
package final class ClientConnection: Sendable {
    /// The TCP peer's address without its port, for the log; `-` for a Unix socket.
    package let peerText: String
    /// The TCP peer's address.
    package let peer: PeerAddress?
    /// The broker's own address on this connection.
    package let localAddress: SocketAddress?
    /// The event loop that serves the connection's requests.
    package let eventLoop: any EventLoop

    private struct State {
        var gone = false
        var halfClosed = false
        var givenUp = false
        var quiescing = false
        /// The number of pieces of work in progress that become useless when the client leaves.
        var cancellable = 0
        /// The task of the current request.
        var task: Task<Void, Never>?
        var nextID = 0
        var onGone: [Int: @Sendable () -> Void] = [:]
        var onQuiesce: [Int: @Sendable () -> Void] = [:]
    }

    private let state = Mutex(State())
    private let account: PeerAccount?
    private let session = Atomic<Bool>(false)
    private let hasCarriedSession = Atomic<Bool>(false)

    /// Creates the connection from a channel's addresses.
    init(
        remoteAddress: SocketAddress?, localAddress: SocketAddress?, account: PeerAccount?, eventLoop: any EventLoop
    ) {
        self.localAddress = localAddress
        peerText = remoteAddress?.ipAddress ?? "-"
        peer = remoteAddress.flatMap { PeerAddress($0) }
        self.account = account
        self.eventLoop = eventLoop
    }

    // MARK: The session

    /// Notes that the current request carried the token of a live session.
    ///
    /// From then on, the request's bytes no longer count towards the limits of the client's address.
    package func carriesSession() {
        session.store(true, ordering: .relaxed)
        guard !hasCarriedSession.load(ordering: .relaxed) else { return }
        hasCarriedSession.store(true, ordering: .relaxed)
        account?.hasSession()
    }

    /// Whether the current request carried the token of a live session.
    var isOfSession: Bool { session.load(ordering: .relaxed) }

    /// Notes that a new request begins, so that the session of the previous request does not count for this request.
    func beginsRequest() {
        if session.load(ordering: .relaxed) { session.store(false, ordering: .relaxed) }
    }

    // MARK: The client's presence

    /// Registers an action for the moment when the client hangs up or closes its sending side.
    ///
    /// If the client has already left, the action runs at once. Returns a closure that removes the action.
    package func whenGone(_ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let id: Int? = state.withLock { state in
            guard !state.gone, !state.halfClosed else { return nil }
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

    /// Registers an action for the beginning of the server's shutdown.
    ///
    /// If the shutdown has begun, the action runs at once. Returns a closure that removes the action.
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

    /// Stores the current request's task, so that the task can be cancelled.
    func serves(_ task: Task<Void, Never>) {
        let isUnwanted = state.withLock { state in
            state.task = task
            return state.gone && state.cancellable > 0
        }
        if isUnwanted { task.cancel() }
    }

    /// Forgets the task of an answered request.
    func served() { state.withLock { $0.task = nil } }

    /// Runs work that becomes useless when the client leaves; cancels the request's task if the client has left or leaves.
    ///
    /// All other work has to be finished even if the client leaves, so the handler's task then continues (library note 2).
    package func cancellingWhenGone<Value, Failure: Error>(
        _ work: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        beginCancellable()
        defer { endCancellable() }
        return try await work()
    }

    /// Begins work that becomes useless when the client leaves; cancels the request's task if the client has already left.
    package func beginCancellable() {
        let unwanted = state.withLock { state in
            state.cancellable += 1
            return state.gone ? state.task : nil
        }
        unwanted?.cancel()
    }

    /// Ends work that `beginCancellable` began.
    package func endCancellable() { state.withLock { $0.cancellable -= 1 } }

    /// Whether the client has hung up, or the broker has cancelled its request because the client closed its sending side.
    package var isGone: Bool { state.withLock { $0.gone || $0.givenUp } }

    /// Notes that the client has hung up.
    func clientGone() {
        let (actions, task) = state.withLock { state in
            defer { state.onGone = [:] }
            state.gone = true
            return (Array(state.onGone.values), state.cancellable > 0 ? state.task : nil)
        }
        for action in actions { action() }
        task?.cancel()
    }

    /// Notes that the client has closed its sending side; the client may still read.
    func clientHalfClosed() {
        let actions = state.withLock { state in
            defer { state.onGone = [:] }
            state.halfClosed = true
            return Array(state.onGone.values)
        }
        for action in actions { action() }
    }

    /// Cancels the current request's task if work that needs the client is in progress.
    func cancelUnwanted() {
        let task = state.withLock { state -> Task<Void, Never>? in
            guard state.cancellable > 0 else { return nil }
            state.givenUp = true
            return state.task
        }
        task?.cancel()
    }

    /// Notes that the server has begun to shut down.
    func quiesce() {
        let actions = state.withLock { state in
            defer { state.onQuiesce = [:] }
            state.quiescing = true
            return Array(state.onQuiesce.values)
        }
        for action in actions { action() }
    }
}

/// Writes the body of a streamed answer to the connection, as fast as the client reads.
struct ConnectionWriter: BodyWriter {
    let connection: NIOLoopBound<ServerConnectionHandler>
    /// The number of the answered request among the connection's requests.
    let number: Int

    func write(_ buffer: ByteBuffer) async throws { try await connection.value.write(buffer) }

    func finish(_ trailers: HTTPFields?) async throws { connection.value.end(trailers) }

    func cut() { connection.eventLoop.execute { connection.value.cut(number) } }
}
