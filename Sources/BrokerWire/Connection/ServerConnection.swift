/// The fate of one HTTP/1.1 connection to a client: which request is served, what may be read, when it ends and how.
///
/// A pure state machine without I/O or clocks: events go in, effects come out (`docs/decisions/0008`). It is the only
/// place that knows whether the connection is ending. Requests are served one after the other; what came before its
/// turn waits with the handler. Times are nanoseconds of a monotonic clock.
package struct ServerConnection: Sendable, Equatable {
    /// The connection's stage on the way to its end.
    package enum Phase: Sendable, Equatable {
        /// Further requests may follow.
        case open
        /// The request under way is the last: nothing behind it is read (RFC 9112 section 9.6).
        case lastRequest
        /// The last answer is written and not yet sent; then the output is closed.
        case closing
        /// The output is closed; input is read and thrown away for a moment, so that the answer is not lost in a reset.
        case lingering
        /// Nothing is left to do.
        case closed
    }

    /// The findings of the framing rules in a request's head.
    package struct Head: Sendable, Equatable {
        /// The minor version: 0 or 1.
        package var minorVersion = 1
        /// Whether the method is HEAD, whose answer has no body.
        package var isHead = false
        /// Whether the method is safe (RFC 9110 section 9.2.1): doing without the answer loses nothing.
        package var isSafe = true
        /// Whether a body follows.
        package var hasBody = false
        /// The number of the body's bytes; nil for one that is chunked, and for none.
        package var bodyLength: Int?
        /// Whether all of the body came in with the head: then it is served as a whole.
        package var isBodyHere = false
        /// Whether the client waits for `100 Continue` before it sends the body.
        package var expectsContinue = false
        /// Whether the request says that it is the last, or has to be.
        package var closes = false

        package init() {}
    }

    /// The form in which an answer's head is written.
    package struct AnswerFraming: Sendable, Equatable {
        package var minorVersion = 1
        /// Whether `Connection: close` is said.
        package var saysClose = false
        /// Whether the request was HEAD: a head is all of the answer.
        package var isHead = false
    }

    /// An event of the connection.
    package enum Event: Sendable, Equatable {
        /// A well-formed head came in.
        case head(Head)
        /// A piece of the body came in.
        case body
        /// The request's end came in.
        case end
        /// The input is not to be answered as a request.
        case refused(FramingRefusal)
        /// The body is read for the first time.
        case bodyRead
        /// The client has closed its side; `more` when something that it sent before still waits for its turn.
        case inputClosed(more: Bool)
        /// An answer begins; `more` when further requests have come in already.
        case answer(closes: Bool, more: Bool)
        /// The answer was handed over for sending, to its end.
        case answerEnded(more: Bool)
        /// The answer cannot be sent to its end.
        case answerCut
        /// A piece of an answer was handed over for sending.
        case wrote
        /// The output that waits went above the high-water mark, or below the low one.
        case writable(Bool)
        /// The output was closed: everything is with the operating system.
        case outputClosed
        /// The server begins to shut down; `more` when further requests have come in already, `pending` when something is
        /// not sent yet.
        case quiesce(more: Bool, pending: Bool)
        /// The connection is gone.
        case inactive
    }

    /// The actions that an event asks for.
    package struct Effects: OptionSet, Sendable {
        package let rawValue: UInt16
        package init(rawValue: UInt16) { self.rawValue = rawValue }

        /// Serve the request.
        package static let serve = Effects(rawValue: 1)
        /// Hand the piece to the body's reader.
        package static let deliver = Effects(rawValue: 1 << 1)
        /// End the body.
        package static let endBody = Effects(rawValue: 1 << 2)
        /// End the body by an error: it is not whole.
        package static let failBody = Effects(rawValue: 1 << 3)
        /// Send `100 Continue`.
        package static let sendContinue = Effects(rawValue: 1 << 4)
        /// Send the whole answer of `refusal`.
        package static let refuse = Effects(rawValue: 1 << 5)
        /// Take the next request, if one is there, or read on.
        package static let next = Effects(rawValue: 1 << 6)
        /// Tell whoever listens that the client will send nothing more.
        package static let halfClosed = Effects(rawValue: 1 << 7)
        /// Cancel what is of no use without the client.
        package static let cancel = Effects(rawValue: 1 << 8)
        /// Close the output when everything is sent; throw away what came in.
        package static let closeOutput = Effects(rawValue: 1 << 9)
        /// Close the connection.
        package static let close = Effects(rawValue: 1 << 10)
        /// Close the connection by a reset: what was sent must not look whole.
        package static let reset = Effects(rawValue: 1 << 11)
        /// Work the deadline out anew: it may be nearer.
        package static let reschedule = Effects(rawValue: 1 << 12)
    }

    /// `gathering`: it is received to its end before the request is served.
    private enum Body: Sendable, Equatable { case none, gathering, receiving, received }

    /// The request under way.
    private struct Exchange: Sendable, Equatable {
        var head: Head
        var body: Body
        var isServed = false
        var isAnswering = false
        var awaitsContinue: Bool
    }

    /// The speed at which the client has read since it is waited for.
    private struct Reading: Sendable, Equatable {
        var rate: ProgressRate
        let begin: Int64
        var checked: Int64
        /// The bytes it had taken in all when that was looked at last; nil before.
        var taken: Int?
    }

    /// The bounds of its times.
    private let limits: ConnectionTimes
    package private(set) var phase = Phase.open
    /// The reason for which the request is refused, for `refuse`.
    package private(set) var refusal = FramingRefusal.malformed
    /// The form in which the answer that begins is written.
    package private(set) var framing = AnswerFraming()
    private var exchange: Exchange?
    private var isWritable = true
    private var isBodyWanted = true
    private var isInputClosed = false
    private var isQuiescing = false
    /// Whether the body of the last request is read only to be thrown away.
    private var dropsBody = false
    /// The time until which the first request is waited for in a shutdown; nil once it has come.
    private var firstRequest: Int64?
    /// The time at which something last came in or an answer ended.
    private var lastActive: Int64
    /// The time at which the client was last sent something; for a half-closed connection.
    private var lastWrite: Int64 = 0
    /// The time at which the present phase of closing began.
    private var since: Int64 = 0
    /// The speed at which the client reads while it is waited for.
    private var reading: Reading?

    /// Creates a connection that was accepted at `now`.
    package init(limits: ConnectionTimes, now: Int64) {
        self.limits = limits
        lastActive = now
        firstRequest = now + limits.firstRequest
    }

    // MARK: What may come in

    /// Whether a part that came in may be taken now; otherwise it waits for its turn.
    package var takesPart: Bool {
        guard let exchange else { return phase == .open && isWritable }
        return !exchange.isServed || exchange.body == .receiving
    }

    /// Whether more may be read and decoded.
    package var takesInput: Bool {
        guard let exchange else { return phase == .open && isWritable }
        guard exchange.isServed else { return !discardsInput }
        return exchange.body == .receiving && isBodyWanted
    }

    /// Whether what comes in is thrown away.
    package var discardsInput: Bool { phase != .open && phase != .lastRequest }

    /// Whether a request is being served.
    package var isServing: Bool { exchange?.isServed ?? false }

    /// Whether a request's body is still coming in.
    package var isBodyOpen: Bool { exchange?.body == .receiving || isGathering }

    /// Whether the body that is coming in is served as a whole.
    package var isGathering: Bool { exchange?.body == .gathering }

    /// Whether an answer has begun and not ended.
    package var isAnswering: Bool { exchange?.isAnswering ?? false }

    /// Says whether the body's reader wants more.
    package mutating func wantsBody(_ wanted: Bool) { isBodyWanted = wanted }

    /// Has the request's body thrown away, and makes the request the connection's last.
    package mutating func dropBody() {
        guard exchange != nil, phase == .open || phase == .lastRequest else { return }
        phase = .lastRequest
        dropsBody = true
    }

    // MARK: Events

    /// Takes an event at `now` and returns what has to be done.
    package mutating func handle(_ event: Event, at now: Int64) -> Effects {
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
            // A body that breaks off is its request's to answer.
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
        // Until the body is received to its end, no further request can follow on the connection.
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

    /// The time of the next look at the deadlines; nil when the connection waits for nobody but us.
    package var deadline: Int64? {
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
        // A request that is received whole takes the time it takes; so does a body that its reader takes slowly.
        let waitsForClient =
            exchange.map { !$0.isServed || ($0.body == .receiving && isBodyWanted && !dropsBody) } ?? true
        guard waitsForClient else { return nil }
        if isQuiescing, let firstRequest { return firstRequest }
        return lastActive + (firstRequest == nil && exchange == nil ? limits.idle : limits.idleInRequest)
    }

    /// Looks at the deadlines at `now`.
    ///
    /// `taken` is how many bytes the client has taken so far, `pending` whether something is not sent yet.
    package mutating func checkDeadlines(at now: Int64, taken: Int, pending: Bool) -> Effects {
        guard let deadline, deadline <= now else { return [] }
        if phase == .lingering { return end(.close) }
        if var reading {
            // It was done before now: in the slice of time that ends here.
            reading.rate.account(taken - (reading.taken ?? taken), at: now - reading.begin - 1)
            reading.taken = taken
            reading.checked = now
            let isTooSlow = reading.rate.isBelow(at: now - reading.begin)
            self.reading = reading
            // An answer that is cut here must not look like a whole one.
            return isTooSlow ? end(.reset) : []
        }
        if isInputClosed, exchange?.isServed == true, exchange?.body != .receiving {
            lastWrite = now
            return .cancel
        }
        // The reader of a body has deadlines of its own; this is the last resort.
        return end(pending || exchange?.isAnswering == true ? .reset : .close)
    }
}
