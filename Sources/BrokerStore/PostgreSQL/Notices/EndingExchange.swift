import Broker
import CLibPQ
import Synchronization

/// The notices by which replicas tell one another which sessions ended (guarantee 6), and which changed: by a step-up or a
/// presence key.
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
        var changes: [EndingPayload.Change: [Digest]] = [:]
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
    func tell(_ tokenDigests: [Digest], _ reason: EndReason) {
        tell(tokenDigests.map { EndedSession(tokenDigest: $0, reason: reason) })
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

    /// Tells the others, soon, of a session that has changed.
    func tell(_ change: EndingPayload.Change, _ tokenDigest: Digest) {
        state.withLock { state in
            guard state.changes[change, default: []].count < Self.maximumWaiting else { return }
            state.changes[change, default: []].append(tokenDigest)
        }
        ticker.signal()
    }

    /// Hands what waits to be told to a connection.
    func flush() {
        let (ended, changes) = state.withLock { state in
            defer { (state.waiting, state.changes) = ([], [:]) }
            return (state.waiting, state.changes)
        }
        let payloads =
            EndingPayload.encode(ended, origin: origin)
            + changes.flatMap { EndingPayload.encode($0.key, $0.value, origin: origin) }
        guard !payloads.isEmpty else { return }
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

/// The text of a notice: its kind, its origin, and what has happened.
///
/// That is `reason:digest` for each session that has ended (1), or the digest of each that has changed (2 and 3). A release
/// leaves out kinds that it does not know.
enum EndingPayload {
    /// The ways in which a session changes, by the kind of their notice.
    enum Change: String, Hashable {
        /// By a step-up that keeps the tokens' version: who listens to the session hears of it by the notice alone.
        case steppedUp = "2"
        /// By a step-up with another grant, or by a presence key.
        case changed = "3"
    }

    /// The news that a text tells.
    struct News: Equatable {
        var ended: [EndedSession] = []
        var steppedUp: [Digest] = []
        var changed: [Digest] = []
    }

    /// PostgreSQL takes less than 8000 bytes.
    private static let maximumLength = 7_900

    /// Returns a name that no other process has.
    static func origin() -> String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// Writes the sessions into as many texts as they need.
    static func encode(_ ended: [EndedSession], origin: String) -> [String] {
        texts("1 \(origin)", ended.map { "\($0.reason.rawValue):\(Base64URL.encode($0.tokenDigest.bytes))" })
    }

    /// Writes the sessions that have changed into as many texts as they need.
    static func encode(_ change: Change, _ sessions: [Digest], origin: String) -> [String] {
        texts("\(change.rawValue) \(origin)", sessions.map { Base64URL.encode($0.bytes) })
    }

    private static func texts(_ beginning: String, _ items: [String]) -> [String] {
        var texts: [String] = []
        var text = ""
        for item in items {
            if text.isEmpty || text.utf8.count + item.utf8.count + 1 > maximumLength {
                if !text.isEmpty { texts.append(text) }
                text = beginning
            }
            text += " \(item)"
        }
        return text.isEmpty ? texts : texts + [text]
    }

    /// Reads a text; nil when it is this process's own or no notice of ours.
    ///
    /// Every user of the database may write one: what is not well formed is left out. A reason that this version does
    /// not know is called `admin`: the session has ended all the same.
    static func decode(_ text: String, origin: String) -> News? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count >= 2, parts[1] != origin else { return nil }
        let items = parts.dropFirst(2)
        if parts[0] == "1" { return News(ended: ended(items)) }
        guard let change = Change(rawValue: String(parts[0])) else { return nil }
        let sessions = items.compactMap { Base64URL.decode(String($0)).flatMap(Digest.init) }
        return change == .steppedUp ? News(steppedUp: sessions) : News(changed: sessions)
    }

    private static func ended(_ parts: ArraySlice<Substring>) -> [EndedSession] {
        parts.compactMap { part in
            let pair = part.split(separator: ":", maxSplits: 1)
            guard pair.count == 2, let bytes = Base64URL.decode(String(pair[1])), let tokenDigest = Digest(bytes) else {
                return nil
            }
            return EndedSession(tokenDigest: tokenDigest, reason: EndReason(rawValue: String(pair[0])) ?? .admin)
        }
    }
}

/// A connection of its own that hears what is told of other replicas' sessions, on a thread of its own.
///
/// It is asked every two seconds whether it still hears: one that is gone loses notices without a word.
final class EndingListener: Sendable {
    private static let pulse = Duration.seconds(2)
    private static let longestPause = Duration.seconds(2)

    private let settings: ConnectionSettings
    private let origin: String
    private let handler: @Sendable (EndingNotice) -> Void
    private let wakeup: Wakeup
    private let isClosed = Atomic<Bool>(false)

    /// Starts it; nil when the system has no descriptor or thread left.
    init?(
        _ settings: ConnectionSettings, origin: String, _ handler: @escaping @Sendable (EndingNotice) -> Void
    ) {
        guard let wakeup = Wakeup() else { return nil }
        self.settings = settings
        self.origin = origin
        self.handler = handler
        self.wakeup = wakeup
        guard OSThread.start({ [self] in run() }) else { return nil }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        wakeup.signal()
    }

    private var closed: Bool { isClosed.load(ordering: .acquiring) }

    private func run() {
        var pause = Duration.milliseconds(50)
        handler(.deaf)
        while !closed {
            do throws(StoreOpenFailure) {
                let connection = try LibPQConnection(settings, wakeup: wakeup)
                try connection.execute("LISTEN \(EndingExchange.channel)", within: Self.pulse)
                pause = .milliseconds(50)
                handler(.hearing)
                defer { handler(.deaf) }
                while !closed { try hear(connection) }
            } catch {
                _ = wakeup.wait(for: -1, events: 0, atMost: closed ? .zero : pause)
                pause = min(pause * 2, Self.longestPause)
            }
        }
    }

    /// Hears until the next pulse, and feels it.
    private func hear(_ connection: LibPQConnection) throws(StoreOpenFailure) {
        let end = MonotonicTime.now() + Self.pulse
        while !closed {
            deliver(connection)
            let rest = end - MonotonicTime.now()
            guard rest > .zero else { break }
            if wakeup.wait(for: connection.descriptor, events: 1, atMost: rest) != 0 {
                guard PQconsumeInput(connection.handle) == 1 else { throw .unreachable(connection.message) }
            }
        }
        if closed { return }
        try connection.execute("SELECT 1", within: Self.pulse)
    }

    private func deliver(_ connection: LibPQConnection) {
        var news = EndingPayload.News()
        while let notice = PQnotifies(connection.handle) {
            if let text = notice.pointee.extra.map({ String(cString: $0) }) {
                let found = EndingPayload.decode(text, origin: origin) ?? EndingPayload.News()
                news.ended += found.ended
                news.steppedUp += found.steppedUp
                news.changed += found.changed
            }
            PQfreemem(notice)
        }
        if !news.ended.isEmpty { handler(.ended(news.ended)) }
        if !news.steppedUp.isEmpty { handler(.steppedUp(news.steppedUp)) }
        if !news.changed.isEmpty { handler(.changed(news.changed)) }
    }
}
