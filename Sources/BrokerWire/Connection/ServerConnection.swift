/// The state machine of one HTTP/1.1 connection to a client: the current request, permission to read, and the connection's end.
///
/// The machine is free of I/O and clocks: events go in, effects come out (`docs/decisions/0008`). Only this type decides
/// whether the connection is ending. Requests are served one after the other, and input that arrives before its turn waits in
/// the handler. Times are nanoseconds of a monotonic clock.
struct ServerConnection: Sendable, Equatable {
    /// The connection's stage on the way to its end.
    enum Phase: Sendable, Equatable {
        /// The connection may serve further requests.
        case open
        /// The current request is the last.
        ///
        /// Input after this request is ignored (RFC 9112 section 9.6).
        case lastRequest
        /// The last answer is complete, and some of its bytes are still unsent.
        ///
        /// When all bytes are sent, the connection closes its output.
        case closing
        /// The output is closed.
        ///
        /// Input is read and discarded for a moment, so that a reset does not destroy the answer.
        case lingering
        /// The connection is finished.
        case closed
    }

    /// The results of the framing rules for a request's head.
    struct Head: Sendable, Equatable {
        /// The minor version of HTTP/1: 0 or 1.
        var minorVersion = 1
        /// Whether the method is HEAD, so that the answer has no body.
        var isHead = false
        /// Whether the method is safe (RFC 9110 section 9.2.1), so that the client may repeat the request if the answer is
        /// lost.
        var isSafe = true
        /// Whether a body follows the head.
        var hasBody = false
        /// The number of the body's bytes; nil for a chunked body, or without a body.
        var bodyLength: Int?
        /// Whether the method is not safe, and the whole body arrived together with the head.
        ///
        /// If so, the service receives the body as a whole.
        var isBodyHere = false
        /// Whether the client waits for `100 Continue` before it sends the body.
        var expectsContinue = false
        /// Whether the connection must close after this request.
        var closes = false
    }

    /// The properties that determine an answer's head and body.
    struct AnswerFraming: Sendable, Equatable {
        var minorVersion = 1
        /// Whether the head has `Connection: close`.
        var saysClose = false
        /// Whether the request was HEAD, so that the answer is only a head.
        var isHead = false
    }

    /// An event of the connection.
    enum Event: Sendable, Equatable {
        /// A well-formed head arrived.
        case head(Head)
        /// A piece of the body arrived.
        case body
        /// The end of the request arrived.
        case end
        /// The input was refused before it became a request.
        case refused(FramingRefusal)
        /// The body is read for the first time.
        case bodyRead
        /// The client has closed its sending side.
        ///
        /// `more` is true if input that arrived earlier is still unread.
        case inputClosed(more: Bool)
        /// An answer begins.
        ///
        /// `closes` is true if the connection must close after this answer. `more` is true if further requests have arrived.
        case answer(closes: Bool, more: Bool)
        /// The complete answer was handed over for sending.
        case answerEnded(more: Bool)
        /// The answer cannot be completed.
        case answerCut
        /// A piece of an answer was handed over for sending.
        case wrote
        /// The number of unsent bytes rose above the high-water mark (false), or fell below the low one (true).
        case writable(Bool)
        /// The output was closed, and the operating system has all bytes of it.
        case outputClosed
        /// The server begins to shut down.
        ///
        /// `more` is true if further requests have arrived, `pending` if output is unsent.
        case quiesce(more: Bool, pending: Bool)
        /// The connection is closed.
        case inactive
    }

    /// The effects that an event requires.
    struct Effects: OptionSet, Sendable {
        let rawValue: UInt16

        /// Start the service on the current request.
        static let serve = Effects(rawValue: 1)
        /// Give the piece of the body to its reader.
        static let deliver = Effects(rawValue: 1 << 1)
        /// Notify the body's reader that the body is complete.
        static let endBody = Effects(rawValue: 1 << 2)
        /// Notify the body's reader that the body is incomplete.
        static let failBody = Effects(rawValue: 1 << 3)
        /// Send `100 Continue`.
        static let sendContinue = Effects(rawValue: 1 << 4)
        /// Send the complete answer to the refused input (`refusal`).
        static let refuse = Effects(rawValue: 1 << 5)
        /// Process the next request if one has arrived; otherwise continue to read.
        static let next = Effects(rawValue: 1 << 6)
        /// Run the actions that were registered with `whenGone`, because the client has closed its sending side.
        static let halfClosed = Effects(rawValue: 1 << 7)
        /// Cancel the work that is useless without the client.
        static let cancel = Effects(rawValue: 1 << 8)
        /// Close the output after all bytes are sent; discard further input.
        static let closeOutput = Effects(rawValue: 1 << 9)
        /// Close the connection.
        static let close = Effects(rawValue: 1 << 10)
        /// Close the connection with a reset, so that the client does not treat the sent bytes as a complete answer.
        static let reset = Effects(rawValue: 1 << 11)
        /// Compute the time of the next check again, because a deadline may now be earlier.
        static let reschedule = Effects(rawValue: 1 << 12)
    }

    /// The state of the current request's body; `gathering` means that the request is served when the whole body has arrived.
    private enum Body: Sendable, Equatable { case none, gathering, receiving, received }

    /// The state of the request that is being received, served or answered.
    private struct Exchange: Sendable, Equatable {
        var head: Head
        var body: Body
        var isServed = false
        var isAnswering = false
        var awaitsContinue: Bool
    }

    /// The measured speed of the client's reading.
    private struct Reading: Sendable, Equatable {
        var rate: ProgressRate
        let begin: Int64
        var checked: Int64
        /// The total number of bytes that the client had taken at the last check; nil before the first check.
        var taken: Int?
    }

    /// The connection's time limits, in nanoseconds.
    private let limits: ConnectionTimes
    private(set) var phase = Phase.open
    /// The reason why the input was refused, for the effect `refuse`.
    private(set) var refusal = FramingRefusal.malformed
    /// The properties of the answer that began last.
    private(set) var framing = AnswerFraming()
    private var exchange: Exchange?
    private var isWritable = true
    private var isBodyWanted = true
    private var isInputClosed = false
    private var isQuiescing = false
    /// Whether the broker reads the rest of the last request's body only to discard it.
    private var dropsBody = false
    /// The time until which a shutdown waits for the first request; nil after the request has arrived.
    private var firstRequest: Int64?
    /// The time of the last input or of the last answer's end.
    private var lastActive: Int64
    /// The time of the last output, for a half-closed connection.
    private var lastWrite: Int64 = 0
    /// The time when the present phase of closing began.
    private var since: Int64 = 0
    /// The client's measured reading speed; nil while the connection does not wait for the client.
    private var reading: Reading?

    /// Creates a connection that was accepted at `now`.
    init(limits: ConnectionTimes, now: Int64) {
        self.limits = limits
        lastActive = now
        firstRequest = now + limits.firstRequest
    }

    // MARK: Permission to read

    /// Whether the connection processes an arrived part now.
    ///
    /// Otherwise, the part waits in the handler.
    var takesPart: Bool {
        guard let exchange else { return phase == .open && isWritable }
        return !exchange.isServed || exchange.body == .receiving
    }

    /// Whether the handler may read and decode more input.
    var takesInput: Bool {
        guard let exchange else { return phase == .open && isWritable }
        guard exchange.isServed else { return !discardsInput }
        return exchange.body == .receiving && isBodyWanted
    }

    /// Whether the connection discards further input.
    var discardsInput: Bool { phase != .open && phase != .lastRequest }

    /// Whether a request is being served.
    var isServing: Bool { exchange?.isServed ?? false }

    /// Whether a request's body is still being received.
    var isBodyOpen: Bool { exchange?.body == .receiving || exchange?.body == .gathering }

    /// Whether the body that is being received will be served as a whole.
    var isGathering: Bool { exchange?.body == .gathering }

    /// Whether an answer has begun and not ended.
    var isAnswering: Bool { exchange?.isAnswering ?? false }

    /// Stores whether the body's reader wants more.
    mutating func wantsBody(_ wanted: Bool) { isBodyWanted = wanted }

    /// Discards the request's body, and makes this request the connection's last.
    mutating func dropBody() {
        guard exchange != nil, phase == .open || phase == .lastRequest else { return }
        phase = .lastRequest
        dropsBody = true
    }

    // MARK: Events

    /// Handles an event at `now` and returns its effects.
    mutating func handle(_ event: Event, at now: Int64) -> Effects {
        switch event {
        case .head(let head): return begin(head, at: now)
        case .body:
            lastActive = now
            exchange?.awaitsContinue = false
            return isBodyOpen ? .deliver : []
        case .end: return endRequest(at: now)
        case .refused(let refusal): return refuse(refusal)
        case .bodyRead:
            guard exchange?.awaitsContinue == true, exchange?.isAnswering == false else { return [] }
            exchange?.awaitsContinue = false
            return .sendContinue
        case .inputClosed(let more): return closeInput(more: more, at: now)
        case .answer(let closes, let more): return beginAnswer(closes: closes, more: more, at: now)
        case .answerEnded(let more): return endAnswer(more: more, at: now)
        case .answerCut: return end(.reset)
        case .wrote:
            lastWrite = now
            return []
        case .writable(let isWritable): return changeWritability(isWritable, at: now)
        case .outputClosed: return linger(at: now)
        case .quiesce(let more, let pending):
            isQuiescing = true
            guard phase == .open, exchange == nil, !more else { return [] }
            if let firstRequest, now < firstRequest { return .reschedule }
            return pending ? closeOutput(at: now) : end(.close)
        case .inactive: return end([])
        }
    }

    private mutating func begin(_ head: Head, at now: Int64) -> Effects {
        guard phase == .open, exchange == nil else { return [] }
        lastActive = now
        firstRequest = nil
        isBodyWanted = true
        let body: Body = !head.hasBody ? .none : head.isBodyHere ? .gathering : .receiving
        exchange = Exchange(head: head, body: body, awaitsContinue: body == .receiving && head.expectsContinue)
        if head.closes { phase = .lastRequest }
        guard body == .receiving else { return [] }
        exchange?.isServed = true
        return .serve
    }

    private mutating func endRequest(at now: Int64) -> Effects {
        lastActive = now
        guard let body = exchange?.body else { return [] }
        switch body {
        case .receiving:
            exchange?.body = .received
            return .endBody
        case .gathering:
            exchange?.body = .received
            exchange?.isServed = true
            return .serve
        case .none where exchange?.isServed == false:
            exchange?.isServed = true
            return .serve
        default: return []
        }
    }

    private mutating func refuse(_ refusal: FramingRefusal) -> Effects {
        guard !discardsInput else { return [] }
        phase = .lastRequest
        if exchange?.body == .receiving {
            // The body's reader gets the error, and the service answers the request itself.
            exchange?.body = .received
            return .failBody
        }
        guard exchange?.isServed != true else { return [] }
        self.refusal = refusal
        exchange = Exchange(head: exchange?.head ?? Head(), body: .none, isServed: true, awaitsContinue: false)
        return .refuse
    }

    private mutating func closeInput(more: Bool, at now: Int64) -> Effects {
        isInputClosed = true
        lastWrite = now
        switch phase {
        case .open, .lastRequest:
            guard exchange?.isServed == true else { return more ? .reschedule : closeOutput(at: now) }
            guard !more, exchange?.body == .receiving else { return [.halfClosed, .reschedule] }
            exchange?.body = .received
            phase = .lastRequest
            return [.failBody, .halfClosed, .reschedule]
        case .lingering: return end(.close)
        case .closing, .closed: return []
        }
    }

    private mutating func beginAnswer(closes isLast: Bool, more: Bool, at now: Int64) -> Effects {
        guard var exchange, !exchange.isAnswering, !discardsInput else { return [] }
        exchange.isAnswering = true
        self.exchange = exchange
        lastWrite = now
        // The answer closes the connection if the body is still being received, because the rest of the body would precede the
        // next request.
        let closes =
            phase == .lastRequest || isLast || exchange.body == .receiving
            || ((isQuiescing || isInputClosed) && !more)
        framing.saysClose = closes
        framing.minorVersion = exchange.head.minorVersion
        framing.isHead = exchange.head.isHead
        if closes { phase = .lastRequest }
        return []
    }

    private mutating func endAnswer(more: Bool, at now: Int64) -> Effects {
        guard exchange != nil, !discardsInput else { return [] }
        let isBodyOpen = exchange?.body == .receiving
        exchange = nil
        lastActive = now
        if phase == .lastRequest || ((isQuiescing || isInputClosed) && !more) {
            return isBodyOpen ? closeOutput(at: now).union(.failBody) : closeOutput(at: now)
        }
        return .next
    }

    private mutating func changeWritability(_ isWritable: Bool, at now: Int64) -> Effects {
        self.isWritable = isWritable
        guard phase == .open || phase == .lastRequest else { return [] }
        reading = isWritable ? nil : Reading(rate: limits.reading, begin: now, checked: now)
        if isWritable { return exchange == nil ? [.next] : [] }
        return .reschedule
    }

    private mutating func closeOutput(at now: Int64) -> Effects {
        guard !discardsInput else { return [] }
        phase = .closing
        exchange = nil
        since = now
        if reading == nil { reading = Reading(rate: limits.reading, begin: now, checked: now) }
        return [.closeOutput, .reschedule]
    }

    private mutating func linger(at now: Int64) -> Effects {
        guard phase == .closing else { return [] }
        guard !isInputClosed else { return end(.close) }
        phase = .lingering
        since = now
        reading = nil
        return .reschedule
    }

    private mutating func end(_ effects: Effects) -> Effects {
        guard phase != .closed else { return [] }
        phase = .closed
        let isBodyOpen = exchange?.body == .receiving
        exchange = nil
        reading = nil
        return isBodyOpen ? effects.union(.failBody) : effects
    }

    // MARK: Deadlines

    /// The time of the next check of the deadlines; nil if the connection waits only for the broker.
    var deadline: Int64? {
        switch phase {
        case .closed: return nil
        case .lingering: return since + (dropsBody ? limits.lingerOfDroppedBody : limits.linger)
        case .closing: return reading.map { $0.checked + limits.check }
        case .open, .lastRequest: break
        }
        if let reading { return reading.checked + limits.check }
        if isInputClosed, let exchange, exchange.head.isSafe, exchange.body != .receiving {
            return lastWrite + limits.halfClosed
        }
        // A request that was received completely has no deadline here. A body has no deadline while its reader is busy with
        // earlier pieces.
        let waitsForClient =
            exchange.map { !$0.isServed || ($0.body == .receiving && isBodyWanted && !dropsBody) } ?? true
        guard waitsForClient else { return nil }
        if isQuiescing, let firstRequest { return firstRequest }
        return lastActive + (firstRequest == nil && exchange == nil ? limits.idle : limits.idleInRequest)
    }

    /// Checks the deadlines at `now`.
    ///
    /// `taken` is the number of bytes that the client has taken so far. `pending` is true if output is unsent.
    mutating func checkDeadlines(at now: Int64, taken: Int, pending: Bool) -> Effects {
        guard let deadline, deadline <= now else { return [] }
        if phase == .lingering { return end(.close) }
        if var reading {
            // Count the bytes just before `now`, because the client took them in the slice of time that ends at `now`.
            reading.rate.account(taken - (reading.taken ?? taken), at: now - reading.begin - 1)
            reading.taken = taken
            reading.checked = now
            let isTooSlow = reading.rate.isBelow(at: now - reading.begin)
            self.reading = reading
            // Use a reset, because an answer that is cut must not look complete.
            return isTooSlow ? end(.reset) : []
        }
        if isInputClosed, exchange?.isServed == true, exchange?.body != .receiving {
            lastWrite = now
            return .cancel
        }
        // A reader of a body has shorter deadlines of its own, so this deadline is the last resort.
        return end(pending || exchange?.isAnswering == true ? .reset : .close)
    }
}
