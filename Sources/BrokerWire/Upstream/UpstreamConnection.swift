/// The state machine of one HTTP/1.1 connection to an upstream: the current call, its failure, and the connection's end.
///
/// The machine is free of I/O and clocks: events go in, effects come out (`docs/decisions/0011`). One call at a time uses the
/// connection. Request and answer may overlap in any way. The connection serves another call only if both are complete, the
/// answer was read to its end, and no further bytes followed. Times are nanoseconds of a monotonic clock.
package struct UpstreamConnection: Sendable, Equatable {
    /// The stage of the connection's call.
    package enum Phase: Sendable, Equatable {
        /// The connection is idle.
        case idle
        /// The request is being sent, and the answer's head has not arrived.
        case sending
        /// The request is sent, and the answer's head is expected.
        case waiting
        /// The answer's head has arrived, but not its end.
        ///
        /// The request may still be being sent.
        case receiving
        /// The answer is complete.
        ///
        /// The connection still waits for the request's end, the decoding of all input, or the reading of the answer.
        case draining
        /// The connection's last call is over.
        ///
        /// The upstream has a moment to close the connection first.
        case ending
        /// The connection is unusable.
        case closed
    }

    /// The properties of a call.
    package struct Call: Sendable, Equatable {
        /// Whether the connection must end with this call, because leftover data could be mistaken for data of the next call.
        package var isLast = false
        /// Whether the request has a body, which an upstream that refuses the request may leave unread.
        package var hasBody = false
        /// Whether the request's body is sent in pieces.
        ///
        /// Otherwise, the request is complete at once.
        package var isStreamed = false
        /// The longest time to wait for the answer's head, and for the upstream to read more of the request.
        package var limit: Int64
        /// The time when the call began.
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
        /// The complete request was handed over for sending.
        case requestEnd
        /// The request's body cannot be completed.
        case requestCut
        /// The number of unsent bytes rose above the high-water mark (false), or fell below the low one (true).
        case writable(Bool)
        /// Bytes arrived and are still undecoded.
        case bytes
        /// A head arrived, possibly an interim one.
        case head(status: Int, keepsAlive: Bool)
        /// A piece of the answer's body arrived.
        case body
        /// The answer's end arrived.
        case end
        /// All received bytes are decoded.
        case readComplete
        /// The input is not an HTTP answer.
        case malformed
        /// The answer's reader wants more of the body (true), or has enough for now (false).
        case wanted(Bool)
        /// The answer was read to its end.
        case taken
        /// The call is abandoned.
        ///
        /// The connection then closes, because the unread rest of the answer would precede the next answer (SEC-79).
        case abandoned
        /// The connection is closed.
        case gone
    }

    /// The effects that an event requires.
    package struct Effects: OptionSet, Sendable {
        package let rawValue: UInt16
        package init(rawValue: UInt16) { self.rawValue = rawValue }

        /// Pass the received part to the answer's reader.
        package static let deliver = Effects(rawValue: 1)
        /// Notify the answer's reader that the answer is complete.
        package static let finish = Effects(rawValue: 1 << 1)
        /// End the call with `failure`.
        package static let fail = Effects(rawValue: 1 << 2)
        /// Stop sending the request.
        package static let stopSending = Effects(rawValue: 1 << 3)
        /// Keep the connection for the next call.
        package static let release = Effects(rawValue: 1 << 4)
        /// Close the connection.
        package static let close = Effects(rawValue: 1 << 5)
        /// Compute the time of the next check again, because a deadline may now be earlier.
        package static let reschedule = Effects(rawValue: 1 << 6)
        /// Release the call, and let the upstream close the connection first, so that no port remains in TIME_WAIT.
        package static let linger = Effects(rawValue: 1 << 7)
        /// Close the connection with a reset.
        package static let reset = Effects(rawValue: 1 << 8)
    }

    /// The reason why a call fails.
    package enum Failure: Sendable, Equatable {
        /// A kept connection ended before the answer's first byte.
        ///
        /// The upstream may have closed the connection just before the request arrived.
        case lost
        /// The connection ended within the call.
        case broken
        /// The input is not an HTTP answer.
        case malformed
        /// The upstream took too long.
        case timedOut
        /// The request's body is incomplete.
        case requestCut
        /// The call was abandoned.
        case abandoned
    }

    /// The largest number of interim answers (1xx) before the final answer.
    package static let interimLimit = 64

    /// The status codes that a server may send without reading the request's body.
    ///
    /// A faulty server that keeps the connection then reads the rest of the body as the next request.
    private static let unreadRefusals: Set<Int> = [401, 403, 404, 405, 411, 413, 415, 417]

    package private(set) var phase = Phase.idle
    /// The reason why the call fails, for the effect `fail`.
    package private(set) var failure = Failure.broken
    /// Whether the request's end is still unsent.
    package private(set) var isSending = false
    /// The longest times for an idle connection, for a wait within a call, and for closing after a call.
    private let idle, silence, linger: Int64
    private var call = Call(limit: 0, begun: 0)
    /// The number of the connection's calls so far, including the current one.
    private var calls = 0
    private var hasAnswer = false
    private var interim = 0
    private var keepsAlive = false
    /// Whether the answer makes the rest of the request useless.
    private var isRefusal = false
    /// Whether the upstream may have answered without reading the request's body.
    ///
    /// The upstream may keep the connection, but the broker must not reuse this connection.
    private var isUnread = false
    private var isWritable = true
    private var isWanted = true
    /// Whether all bytes that arrived with the answer's end are decoded (`isQuiet`), and whether the reader has read the whole
    /// answer (`isTaken`).
    private var isQuiet = false, isTaken = false
    /// The time of the last progress within a call; for an idle connection, the time when it became idle.
    private var since: Int64

    /// Creates a connection without a call, made at `now`.
    package init(idle: Int64, silence: Int64, linger: Int64, now: Int64) {
        self.idle = idle
        self.silence = silence
        self.linger = linger
        since = now
    }

    /// Whether the connection may read more input.
    ///
    /// An idle connection is read too, because only reading detects that the upstream closed it.
    package var takesInput: Bool { phase != .receiving || isWanted }

    /// Handles an event at `now` and returns its effects.
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
            // In these phases, the bytes are unrequested or follow a complete answer.
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

    /// Ends the connection.
    ///
    /// Its call fails, unless the answer is complete.
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

    /// The time of the next check of the deadlines; nil if the connection does not wait for the upstream.
    ///
    /// If the app sends or reads slowly, the limits of `ServerConnection` apply instead.
    package var deadline: Int64? {
        switch phase {
        case .closed: nil
        case .idle: since + idle
        case .sending: isWritable ? nil : since + call.limit
        case .waiting: since + call.limit
        case .receiving: isWanted && !(isSending && isWritable) ? since + silence : nil
        // The answer is complete, so a request that makes no progress is abandoned, even if the app causes the delay.
        case .draining: since + silence
        case .ending: since + linger
        }
    }

    /// Checks the deadlines at `now`.
    package mutating func checkDeadlines(at now: Int64) -> Effects {
        guard let deadline, deadline <= now else { return [] }
        return stop(.timedOut)
    }
}
