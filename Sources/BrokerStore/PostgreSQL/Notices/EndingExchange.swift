import Broker
import Synchronization

/// The notices by which replicas tell one another which sessions ended (guarantee 6).
///
/// Told after they committed, gathered for 100 ms, because a notice takes a lock on the whole database; never for
/// correctness: what is lost is found within the cache's five seconds.
final class EndingExchange: Sendable {
    static let channel = "coatcheck_endings"
    static let tell = Statement(
        "tell_endings", "T", "SELECT pg_notify('\(channel)', payload) FROM unnest($1) AS payload")
    /// More than this is not told: the caches of the others forget by themselves.
    private static let maximumWaiting = 100_000

    private struct State {
        var waiting: [EndedSession] = []
        var listener: EndingListener?
    }

    /// Names this process, which does not listen to itself.
    let origin = EndingPayload.origin()
    private let lane: PipelineLane
    private let ticker: StoreTicker
    private let listening: ConnectionSettings?
    /// Guards what waits to be told, and who listens.
    private let state = Mutex(State())

    init(lane: PipelineLane, ticker: StoreTicker, listening: ConnectionSettings?) {
        self.lane = lane
        self.ticker = ticker
        self.listening = listening
        ticker.onTick { [weak self] in self?.flush() }
    }

    /// Tells the others, soon.
    func tell(_ tokens: [Digest], _ reason: EndReason) {
        tell(tokens.map { EndedSession(token: $0, reason: reason) })
    }

    /// Tells the others, soon.
    func tell(_ ended: [EndedSession]) {
        guard !ended.isEmpty else { return }
        state.withLock { state in
            guard state.waiting.count < Self.maximumWaiting else { return }
            state.waiting += ended
        }
        ticker.signal()
    }

    /// Hands what waits to be told to a connection.
    func flush() {
        let ended = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        guard !ended.isEmpty else { return }
        let payloads = EndingPayload.encode(ended, origin: origin)
        lane.submit(
            UnwaitedPipelineJob(
                BoundStatement(Self.tell, [.list(of: .text, payloads.map { .text($0) })]),
                patience: lane.monotonic() + PipelineLane.patience))
    }

    /// Has `handler` called with what the others tell; where nobody listens, only that nothing is heard.
    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) {
        guard let listening, let listener = EndingListener(listening, origin: origin, handler) else {
            return handler(.deaf)
        }
        state.withLock { $0.listener = listener }
    }

    func close() {
        let listener = state.withLock { state in
            defer { state.listener = nil }
            return state.listener
        }
        listener?.close()
    }
}
