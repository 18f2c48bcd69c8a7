/// The fate of one HTTP/1.1 connection to an upstream: what is sent and awaited on it, what its caller hears, when it
/// ends.
///
/// A pure state machine without I/O or clocks: events go in, effects come out (`docs/decisions/0011`). One call at a
/// time is on it. Request and answer may overlap in any way; only when both are whole, the answer was read to its end and
/// nothing came behind it, the connection serves another call. Times are nanoseconds of a monotonic clock.
package struct UpstreamConnection: Sendable, Equatable {
    /// The stage of the call on the connection.
    package enum Phase: Sendable, Equatable {
        /// There is none.
        case idle
        /// Its request is being sent, and the head of an answer has not come.
        case sending
        /// Its request is sent; the answer's head is awaited.
        case waiting
        /// The answer's head has come and its end has not; the request may still be on its way.
        case receiving
        /// The answer is whole: the request's end is awaited, that nothing more came with it, or that it is read.
        case draining
        /// The call is over, and no other follows: the upstream is given a moment to close first.
        case ending
        /// The connection is of no use any more.
        case closed
    }

    /// The traits of a call.
    package struct Call: Sendable, Equatable {
        /// Whether no other call may follow: what the upstream sends or leaves unread could be taken for the next one's.
        package var isLast = false
        /// Whether the request has a body, which an upstream that refuses it may have left unread.
        package var hasBody = false
        /// Whether the request's body is sent piece by piece; otherwise the request is whole at once.
        package var isStreamed = false
        /// The longest time that the upstream may take to its answer's head, or to make room for more of the request.
        package var limit: Int64
        /// The beginning of the call.
        package var begun: Int64

        package init(
            isLast: Bool = false, hasBody: Bool = false, isStreamed: Bool = false, limit: Int64, begun: Int64
        ) {
            self.isLast = isLast
            self.hasBody = hasBody
            self.isStreamed = isStreamed
            self.limit = limit
            self.begun = begun
        }
    }

    /// An event of the connection.
    package enum Event: Sendable, Equatable {
        /// A call begins.
        case call(Call)
        /// A piece of the request's body was handed over for sending.
        case requestPart
        /// The request was handed over for sending, to its end.
        case requestEnd
        /// The request's body cannot be sent to its end.
        case requestCut
        /// The output that waits went above the high-water mark, or below the low one.
        case writable(Bool)
        /// Bytes came in, which the decoder has not seen yet.
        case bytes
        /// A head came in, interim ones among them.
        case head(status: Int, keepsAlive: Bool)
        /// A piece of the answer's body came in.
        case body
        /// The answer's end came in.
        case end
        /// Everything that had come in is decoded.
        case readComplete
        /// The input is no answer.
        case malformed
        /// The answer's reader wants more of its body, or no more for now.
        case wanted(Bool)
        /// The answer was read to its end.
        case taken
        /// Nobody needs the call any more: an answer that is let go unread is one that somebody doubts (SEC-79).
        case abandoned
        /// The connection is gone.
        case gone
    }

    /// The actions that an event asks for.
    package struct Effects: OptionSet, Sendable {
        package let rawValue: UInt16
        package init(rawValue: UInt16) { self.rawValue = rawValue }

        /// Hand on what came in.
        package static let deliver = Effects(rawValue: 1)
        /// End the answer: it is whole.
        package static let finish = Effects(rawValue: 1 << 1)
        /// End the call by `failure`.
        package static let fail = Effects(rawValue: 1 << 2)
        /// Send nothing more of the request.
        package static let stopSending = Effects(rawValue: 1 << 3)
        /// Keep the connection for another call.
        package static let release = Effects(rawValue: 1 << 4)
        /// Close the connection.
        package static let close = Effects(rawValue: 1 << 5)
        /// Work the deadline out anew: it may be nearer.
        package static let reschedule = Effects(rawValue: 1 << 6)
        /// Let the call go, and the connection end without a port that stays taken.
        package static let linger = Effects(rawValue: 1 << 7)
        /// Close the connection by a reset.
        package static let reset = Effects(rawValue: 1 << 8)
    }

    /// The reason for which a call fails.
    package enum Failure: Sendable, Equatable {
        /// The connection had served others and went away before a byte of an answer: as one that is kept may at any
        /// moment, without the upstream's having seen the request.
        case lost
        /// The connection went away.
        case broken
        /// The input is no answer.
        case malformed
        /// The upstream took too long.
        case timedOut
        /// The request's body is not whole.
        case requestCut
        /// Nobody needs the answer.
        case abandoned
    }

    /// The most interim answers that may come before the answer.
    package static let interimLimit = 64

    /// The refusals that a server may send without having read the request's body: what is left of it is the next request
    /// to one that forgets it.
    private static let unreadRefusals: Set<Int> = [401, 403, 404, 405, 411, 413, 415, 417]

    package private(set) var phase = Phase.idle
    /// The reason for which the call fails, for `fail`.
    package private(set) var failure = Failure.broken
    /// Whether the request's end is not sent yet.
    package private(set) var isSending = false
    /// The time for which the connection is kept without a call, for which its upstream may be silent within one, and
    /// which it may take to close behind one.
    private let idle, silence, linger: Int64
    private var call = Call(limit: 0, begun: 0)
    /// The number of calls that it has served or serves.
    private var calls = 0
    private var hasAnswer = false
    private var interim = 0
    private var keepsAlive = false
    /// Whether the answer says that the request's rest is of no use.
    private var isRefusal = false
    /// Whether it may leave a body unread: then the upstream was not asked to close, and keeps the connection.
    private var isUnread = false
    private var isWritable = true
    private var isWanted = true
    /// Whether everything that had come in with the answer's end is decoded, and whether the answer was read.
    private var isQuiet = false, isTaken = false
    /// The time at which the call moved on last, or the idleness began.
    private var since: Int64

    /// Creates a connection that stands since `now`, without a call.
    package init(idle: Int64, silence: Int64, linger: Int64, now: Int64) {
        self.idle = idle
        self.silence = silence
        self.linger = linger
        since = now
    }

    /// Whether more may be read: an idle connection is read, too, because only so its end is noticed.
    package var takesInput: Bool { phase != .receiving || isWanted }

    /// Takes an event at `now` and returns what has to be done.
    package mutating func handle(_ event: Event, at now: Int64) -> Effects {
        guard phase != .closed else { return [] }
        switch event {
        case .call(let call): return begin(call)
        case .requestPart:
            since = now
            return []
        case .requestEnd: return endRequest(at: now)
        case .requestCut: return isSending ? stop(.requestCut) : []
        case .writable(let isWritable):
            self.isWritable = isWritable
            if isSending, phase != .draining { since = now }
            return .reschedule
        case .bytes:
            // Nobody asked for them, or for so many.
            if phase == .idle || phase == .draining || phase == .ending { return stop(.malformed) }
            hasAnswer = true
            if phase == .receiving { since = now }
            return []
        case .head(let status, let keepsAlive): return beginAnswer(status, keepsAlive, at: now)
        case .body: return phase == .receiving ? .deliver : stop(.malformed)
        case .end: return endAnswer(at: now)
        case .readComplete:
            isQuiet = phase == .draining
            return releaseWhenDone(at: now)
        case .malformed: return stop(.malformed)
        case .wanted(let isWanted):
            self.isWanted = isWanted
            if phase == .receiving { since = now }
            return .reschedule
        case .taken:
            isTaken = phase == .draining
            return releaseWhenDone(at: now)
        case .abandoned: return phase == .idle || phase == .ending ? [] : stop(.abandoned)
        case .gone: return stop(calls > 1 && !hasAnswer ? .lost : .broken)
        }
    }

    private mutating func begin(_ call: Call) -> Effects {
        guard phase == .idle else { return [] }
        self.call = call
        calls += 1
        isSending = call.isStreamed
        phase = isSending ? .sending : .waiting
        (hasAnswer, keepsAlive, isRefusal, isUnread) = (false, false, false, false)
        (isWanted, isQuiet, isTaken) = (true, false, false)
        interim = 0
        since = call.begun
        return .reschedule
    }

    private mutating func endRequest(at now: Int64) -> Effects {
        guard isSending else { return [] }
        isSending = false
        if phase == .draining { return releaseWhenDone(at: now).union(.finish) }
        if phase == .sending { phase = .waiting }
        since = now
        return .reschedule
    }

    private mutating func beginAnswer(_ status: Int, _ keepsAlive: Bool, at now: Int64) -> Effects {
        guard phase == .sending || phase == .waiting else { return stop(.malformed) }
        guard !(100...199).contains(status) || status == 101 else {
            interim += 1
            return interim > Self.interimLimit ? stop(.malformed) : []
        }
        phase = .receiving
        since = now
        isRefusal = status >= 300
        isUnread = call.hasBody && Self.unreadRefusals.contains(status)
        self.keepsAlive = keepsAlive && !call.isLast && !isUnread && status != 101
        return [.deliver, .reschedule]
    }

    private mutating func endAnswer(at now: Int64) -> Effects {
        guard phase == .receiving else { return stop(.malformed) }
        guard keepsAlive, !(isSending && isRefusal) else {
            if isSending { return end(.finish) }
            if isUnread, !call.isLast { return end([.finish, .reset]) }
            phase = .ending
            since = now
            return [.finish, .linger, .reschedule]
        }
        phase = .draining
        since = now
        return isSending ? .reschedule : .finish
    }

    private mutating func releaseWhenDone(at now: Int64) -> Effects {
        guard phase == .draining, !isSending, isQuiet, isTaken else { return [] }
        phase = .idle
        since = now
        return [.release, .reschedule]
    }

    /// Ends the connection: a call on it fails, unless its answer is whole.
    private mutating func stop(_ reason: Failure) -> Effects {
        switch phase {
        case .idle, .closed: return end([])
        case .ending: return end(.reset)
        case .draining: return end(isSending ? .finish : [])
        case .sending, .waiting, .receiving:
            failure = reason
            return end(.fail)
        }
    }

    private mutating func end(_ effects: Effects) -> Effects {
        phase = .closed
        defer { isSending = false }
        let ending = effects.contains(.reset) ? effects : effects.union(.close)
        return isSending ? ending.union(.stopSending) : ending
    }

    // MARK: Deadlines

    /// The time of the next look at the deadlines; nil while nobody waits for the upstream: an app that sends or reads
    /// slowly is the server's to end.
    package var deadline: Int64? {
        switch phase {
        case .closed: nil
        case .idle: since + idle
        case .sending: isWritable ? nil : since + call.limit
        case .waiting: since + call.limit
        case .receiving: isWanted && !(isSending && isWritable) ? since + silence : nil
        // A request that stands still is given up whoever makes it wait: the answer is there.
        case .draining: since + silence
        case .ending: since + linger
        }
    }

    /// Looks at the deadlines at `now`.
    package mutating func checkDeadlines(at now: Int64) -> Effects {
        guard let deadline, deadline <= now else { return [] }
        return stop(.timedOut)
    }
}
