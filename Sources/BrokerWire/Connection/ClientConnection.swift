package import HTTPTypes
package import NIOCore
import Synchronization

/// The connection that a request came on: whose it is, and whether there is still somebody at the other end.
///
/// Made once a connection, so that what does not change is not worked out for every request.
package final class ClientConnection: Sendable {
    /// The TCP peer's address without its port, for the log; `-` when there is none (a Unix socket).
    package let peerText: String
    /// The TCP peer's address.
    package let peer: PeerAddress?
    /// Our own end.
    package let localAddress: SocketAddress?
    /// The event loop that serves its requests.
    package let eventLoop: any EventLoop

    private struct State {
        var gone = false
        var halfClosed = false
        var givenUp = false
        var quiescing = false
        /// The work under way that nobody needs without the client.
        var cancellable = 0
        /// The request that is being served.
        var task: Task<Void, Never>?
        var nextID = 0
        var onGone: [Int: @Sendable () -> Void] = [:]
        var onQuiesce: [Int: @Sendable () -> Void] = [:]
    }

    private let state = Mutex(State())
    private let account: PeerAccount?
    private let session = Atomic<Bool>(false)
    private let hasCarriedSession = Atomic<Bool>(false)

    /// Creates it for a channel's addresses.
    init(
        remoteAddress: SocketAddress?, localAddress: SocketAddress?, account: PeerAccount?, eventLoop: any EventLoop
    ) {
        self.localAddress = localAddress
        peerText = remoteAddress?.ipAddress ?? "-"
        peer = remoteAddress.flatMap { PeerAddress($0) }
        self.account = account
        self.eventLoop = eventLoop
    }

    // MARK: Whose it is

    /// Says that the request under way brought a live session: what it sends is somebody's from here on.
    package func carriesSession() {
        session.store(true, ordering: .relaxed)
        guard !hasCarriedSession.load(ordering: .relaxed) else { return }
        hasCarriedSession.store(true, ordering: .relaxed)
        account?.hasSession()
    }

    /// Whether the request under way brought a live session.
    var isOfSession: Bool { session.load(ordering: .relaxed) }

    /// Forgets the session of the request before.
    func beginsRequest() {
        if session.load(ordering: .relaxed) { session.store(false, ordering: .relaxed) }
    }

    // MARK: Whether somebody listens

    /// Names what to do when the client hangs up or says that it will send nothing more; done at once when it has.
    ///
    /// Returns what takes it back.
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

    /// Runs work that is of no use once the client is gone: the request's task is cancelled then.
    ///
    /// A handler is never cancelled for its client's sake otherwise (library note 2): most work has to be finished.
    package func cancellingWhenGone<Value, Failure: Error>(
        _ work: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        beginCancellable()
        defer { endCancellable() }
        return try await work()
    }

    /// Begins such work; cancels its task when the client is gone already.
    package func beginCancellable() {
        let unwanted = state.withLock { state in
            state.cancellable += 1
            return state.gone ? state.task : nil
        }
        unwanted?.cancel()
    }

    /// Ends such work.
    package func endCancellable() { state.withLock { $0.cancellable -= 1 } }

    /// Whether the client has hung up, or was taken to have.
    package var isGone: Bool { state.withLock { $0.gone || $0.givenUp } }

    /// Takes note that the client has hung up.
    func clientGone() {
        let (actions, task) = state.withLock { state in
            defer { state.onGone = [:] }
            state.gone = true
            return (Array(state.onGone.values), state.cancellable > 0 ? state.task : nil)
        }
        for action in actions { action() }
        task?.cancel()
    }

    /// Takes note that the client will send nothing more.
    func clientHalfClosed() {
        let actions = state.withLock { state in
            defer { state.onGone = [:] }
            state.halfClosed = true
            return Array(state.onGone.values)
        }
        for action in actions { action() }
    }

    /// Cancels the work under way that nobody needs without the client.
    func cancelUnwanted() {
        let task = state.withLock { state -> Task<Void, Never>? in
            guard state.cancellable > 0 else { return nil }
            state.givenUp = true
            return state.task
        }
        task?.cancel()
    }

    /// Takes note that the server begins to shut down.
    func quiesce() {
        let actions = state.withLock { state in
            defer { state.onQuiesce = [:] }
            state.quiescing = true
            return Array(state.onQuiesce.values)
        }
        for action in actions { action() }
    }
}

/// Writes a streamed answer's body to its connection, as fast as the client reads it.
struct ConnectionWriter: BodyWriter {
    let connection: NIOLoopBound<ServerConnectionHandler>
    /// The number of the answer's request on its connection.
    let number: Int

    func write(_ buffer: ByteBuffer) async throws { try await connection.value.write(buffer) }

    func finish(_ trailers: HTTPFields?) async throws { connection.value.end(trailers) }

    func cut() { connection.eventLoop.execute { connection.value.cut(number) } }
}

/// Runs a connection's tasks on the connection's own event loop: a request is read, worked on and answered by one
/// thread, without a hand-over to the concurrency pool and back.
///
/// Blocking calls have threads of their own in the stores, so that none reaches this one.
final class EventLoopExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// The service behind a listener's connections.
package protocol WireService: Sendable {
    /// Answers a request; whatever becomes of it has an answer.
    func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer

    /// Returns the whole answer to what is not answered as a request.
    func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer
}
