import Broker
import CLibPQ
import Synchronization

/// Exchanges notices between replicas about sessions that have ended (guarantee 6) or have changed by a step-up or a presence
/// key.
///
/// Notices are gathered for 100 ms after the commit and sent together, because each sending takes a lock on the whole
/// database. Correctness does not depend on notices, because cached rows expire after five seconds anyway.
final class EndingExchange: Sendable {
    static let channel = "coatcheck_endings"
    static let tell = Statement(
        "tell_endings", ["payloads": .textList],
        "SELECT pg_notify('\(channel)', payload) FROM unnest(:payloads) AS payload")
    /// The largest number of notices that wait to be sent.
    ///
    /// Further notices are dropped, because the other replicas' cached rows expire anyway.
    private static let maximumWaiting = 100_000

    private struct State {
        var waiting: [EndedSession] = []
        var changes: [EndingPayload.Change: [Digest]] = [:]
        var listener: EndingListener?
    }

    /// The name of this process in its notices.
    ///
    /// The process ignores notices with its own name.
    let origin = EndingPayload.origin()
    private let lane: PipelineLane
    private let ticker: StoreTicker
    private let listening: ConnectionSettings?
    /// Guards the waiting entries and the listener.
    private let state = Mutex(State())

    init(lane: PipelineLane, ticker: StoreTicker, listening: ConnectionSettings?) {
        self.lane = lane
        self.ticker = ticker
        self.listening = listening
        ticker.onTick { [weak self] in self?.flush() }
    }

    /// Queues a notice to the other replicas about sessions that ended for one reason.
    ///
    /// The notice is sent within 100 ms.
    func tell(_ tokenDigests: [Digest], _ reason: EndReason) {
        tell(tokenDigests.map { EndedSession(tokenDigest: $0, reason: reason) })
    }

    /// Queues a notice to the other replicas about ended sessions, each with its reason.
    ///
    /// The notice is sent within 100 ms.
    func tell(_ ended: [EndedSession]) {
        guard !ended.isEmpty else { return }
        state.withLock { state in
            guard state.waiting.count < Self.maximumWaiting else { return }
            state.waiting += ended
        }
        ticker.signal()
    }

    /// Queues a notice to the other replicas about a changed session.
    ///
    /// The notice is sent within 100 ms.
    func tell(_ change: EndingPayload.Change, _ tokenDigest: Digest) {
        state.withLock { state in
            guard state.changes[change, default: []].count < Self.maximumWaiting else { return }
            state.changes[change, default: []].append(tokenDigest)
        }
        ticker.signal()
    }

    /// Sends the waiting notices.
    func flush() {
        let (ended, changes) = state.withLock { state in
            defer { (state.waiting, state.changes) = ([], [:]) }
            return (state.waiting, state.changes)
        }
        let payloads =
            EndingPayload.encode(ended, origin: origin)
            + changes.flatMap { EndingPayload.encode($0.key, $0.value, origin: origin) }
        guard !payloads.isEmpty else { return }
        // Only a fault in the source can make this fail, and the tests find such a fault.
        guard let notices = try? BoundStatement(Self.tell, ["payloads": .texts(payloads)]) else { return }
        lane.submit(UnwaitedPipelineJob(notices, patience: lane.monotonic() + PipelineLane.patience))
    }

    /// Calls `handler` with the other replicas' notices.
    ///
    /// While this process has no listening connection, `handler` receives `deaf`.
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

/// The text of a notice: the type of notice, the name of the sending process, and the entries.
///
/// An entry is `reason:digest` for an ended session (type 1), or the digest of a changed session (types 2 and 3). A release
/// ignores types that it does not know.
enum EndingPayload {
    /// The change to a session that a notice reports.
    enum Change: String, Hashable {
        /// A step-up that keeps the tokens' version.
        ///
        /// The session's listeners learn of this step-up only from the notice.
        case steppedUp = "2"
        /// A step-up with another grant, or a new presence key.
        case changed = "3"
    }

    /// The decoded content of a notice.
    struct News: Equatable {
        var ended: [EndedSession] = []
        var steppedUp: [Digest] = []
        var changed: [Digest] = []
    }

    /// The longest text of a notice, in bytes; PostgreSQL's limit is below 8000.
    private static let maximumLength = 7_900

    /// Returns a name that is unique to this process.
    static func origin() -> String { String(UInt64.random(in: .min ... .max), radix: 36) }

    /// Encodes ended sessions into as many texts as necessary.
    static func encode(_ ended: [EndedSession], origin: String) -> [String] {
        texts("1 \(origin)", ended.map { "\($0.reason.rawValue):\(Base64URL.encode($0.tokenDigest.bytes))" })
    }

    /// Encodes changed sessions into as many texts as necessary.
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

    /// Decodes a notice's text; nil for this process's own notices, and for texts of other programs.
    ///
    /// Every user of the database may send a notice, so malformed entries are skipped. An unknown reason becomes `admin`,
    /// because the session has ended in any case.
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

/// Receives the other replicas' notices on a connection and thread of its own.
///
/// The connection is tested every two seconds, because a dead connection loses notices without an error.
final class EndingListener: Sendable {
    private static let pulse = Duration.seconds(2)
    private static let longestPause = Duration.seconds(2)

    private let settings: ConnectionSettings
    private let origin: String
    private let handler: @Sendable (EndingNotice) -> Void
    private let wakeup: Wakeup
    private let isClosed = Atomic<Bool>(false)

    /// Starts the listener; nil if the system has no descriptor or thread left.
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

    /// Receives notices until the next pulse, then tests the connection.
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
