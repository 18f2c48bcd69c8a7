import HTTPTypes
import NIOCore
import NIOHTTP1

/// Connects `ServerConnection` to a channel: passes events in, and carries out the effects.
///
/// Everything runs on the connection's event loop. A request's task starts and runs there, so a request with a cached session
/// is read, handled and answered on one thread (decision 10).
///
/// `NIOLoopBound.value` traps on another thread. Only the loop's callbacks, and tasks with the loop as executor, use it. Work
/// that such a task awaits may run on another thread, but the task continues on the loop.
final class ServerConnectionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    /// The number of pipelined requests that one connection serves before other connections get their turn (SEC-105).
    private static let turn = 16

    /// The number of bytes of a complete body that the connection gives to TLS at once.
    ///
    /// TLS copies these bytes into the connection's own memory, as one record of less than 16 KiB.
    private static let slice = 16_000

    /// A part of the input that arrived before the connection could process it.
    private enum Part {
        case request(HTTPServerRequestPart)
        /// A piece of a chunked body.
        case piece(ByteBuffer)
        /// Input that was refused.
        ///
        /// `fault` is the error for the reader of a body that is still being received.
        case refused(FramingRefusal, fault: BodyFault)
    }

    private let service: any WireService
    private let channel: any Channel
    private let connection: ClientConnection
    private let executor: EventLoopExecutor
    private let isSecure: Bool

    private var state: ServerConnection
    private var encoder = AnswerEncoder()
    private var held: HeldBytes
    private var context: ChannelHandlerContext?
    /// The buffer before the decoder, with the bytes that the decoder has not received.
    private var input: InboundBuffer?
    private var waiting = CircularBuffer<Part>()
    /// The head of a request until the service starts.
    ///
    /// The start may have to wait for the request's end.
    private var head: HTTPRequestHead?
    /// The body of a request that is served when the body is complete.
    private var gathered: ByteBuffer?
    /// The body that is being received (`body`), and the body of the current request, which may be complete (`bodyServed`).
    private var body: BodySource?
    private var bodyServed: BodySource?
    private var bodyFault = BodyFault.incomplete
    /// The number of bytes of the body that have not arrived; nil for a chunked body.
    private var bodyLeft: Int?
    /// The number of bytes of a discarded body that the broker still reads; nil for other bodies.
    private var droppedLeft: Int?
    /// The largest number of bytes of a discarded body that the broker reads.
    private let droppedBody: Int
    private var hasInputEnded = false
    private var isAdvancing = false
    private var isDraining = false
    /// Whether this connection waits while its event loop serves the other connections.
    private var isYielding = false
    private var isStreaming = false
    /// The number of requests that the connection has served since other connections last had their turn (`served`), and in
    /// total (`requests`).
    private var served = 0
    private var requests = 0
    /// The number of bytes of bodies that were handed over for sending.
    private var written = 0
    /// The unsent rest of a complete body that is sent in slices.
    private var rest = ByteBuffer()
    private var isWritable = true
    private var isFlushDue = false
    /// The unflushed bytes of a streamed body.
    ///
    /// TLS keeps these bytes without counting them as pending output, so the handler counts them.
    private var unflushed = 0
    private var timer: Scheduled<Void>?
    private var timerAt = Int64.max
    /// The continuation of the body's writer, which waits for the client to read.
    private var writer: CheckedContinuation<Void, Never>?

    init(
        service: any WireService, channel: any Channel, connection: ClientConnection, account: PeerAccount?,
        times: ConnectionTimes, droppedBody: Int, isSecure: Bool
    ) {
        self.service = service
        self.channel = channel
        self.connection = connection
        self.droppedBody = droppedBody
        self.isSecure = isSecure
        executor = EventLoopExecutor(channel.eventLoop)
        state = ServerConnection(limits: times, now: Self.now)
        held = HeldBytes(account: account)
    }

    /// Stores the buffer before the decoder.
    func reads(_ input: InboundBuffer) { self.input = input }

    private static var now: Int64 { Int64(clamping: NIODeadline.now().uptimeNanoseconds) }

    // MARK: Questions of the input

    var takesInput: Bool { served < Self.turn && waiting.isEmpty && state.takesInput }
    var discardsInput: Bool { state.discardsInput }

    /// The form of the body that is being received; nil without such a body.
    var openBody: InboundBuffer.BodyForm? {
        guard state.isBodyOpen else { return nil }
        return bodyLeft.map { .length($0) } ?? .chunked
    }

    /// Counts received bytes; returns false if they exceed the limit of the client's address.
    func received(_ count: Int) -> Bool {
        guard !connection.isOfSession, !held.add(count) else { return true }
        take(.refused(.overLimit, fault: .overLimit))
        return false
    }

    /// Counts received bytes of a discarded body.
    func discarded(_ count: Int) { if droppedLeft != nil { drop(count) } }

    /// Processes a piece of a chunked body.
    func receive(_ piece: ByteBuffer) { take(.piece(piece)) }

    /// Ends the connection's input because a chunked body is malformed.
    func breaksFraming() { take(.refused(.malformed, fault: .malformed)) }

    /// Notes that the client has closed its sending side; input that arrived earlier is still processed.
    func inputEnds() { perform(state.handle(.inputClosed(more: true), at: Self.now)) }

    // MARK: Input

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        reschedule()
    }

    func handlerRemoved(context: ChannelHandlerContext) { stop() }

    func channelInactive(context: ChannelHandlerContext) {
        stop()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        take(.request(unwrapInboundIn(data)))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        // The client closed its sending side in the middle of a request.
        case HTTPParserError.invalidEOFState: take(.refused(.malformed, fault: .incomplete))
        case HTTPParserError.headerOverflow: take(.refused(.tooLarge, fault: .malformed))
        case is HTTPParserError, is ByteToMessageDecoderError: take(.refused(.malformed, fault: .malformed))
        default:
            // The socket failed, so the client is gone.
            perform(state.handle(.answerCut, at: Self.now))
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? ChannelEvent, event == .inputClosed {
            hasInputEnded = true
            perform(state.handle(.inputClosed(more: !waiting.isEmpty), at: Self.now))
        }
        if event is ChannelShouldQuiesceEvent {
            connection.quiesce()
            let more = !waiting.isEmpty || head != nil
            perform(state.handle(.quiesce(more: more, pending: pending > 0), at: Self.now))
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { resumeWriter() }
        tellWritability()
        context.fireChannelWritabilityChanged()
    }

    /// Passes on to the state machine whether the client reads fast enough.
    ///
    /// While a body is sent in slices, the connection waits for the client, even if few bytes are unsent.
    private func tellWritability() {
        let isWritable = channel.isWritable && rest.readableBytes == 0
        guard isWritable != self.isWritable else { return }
        self.isWritable = isWritable
        perform(state.handle(.writable(isWritable), at: Self.now))
    }

    /// Processes a part now, or stores it until the connection can process the part.
    private func take(_ part: Part) {
        guard !state.discardsInput else { return }
        // While the decoder works on a slice, store its parts, because `hasMore` must count the slice's later parts as well.
        guard waiting.isEmpty, input?.isDecoding != true, takesNow(part) else { return waiting.append(part) }
        process(part)
        advance()
    }

    private func takesNow(_ part: Part) -> Bool {
        // If the client's address has reached its limit, the refusal also concerns the current request. Process this refusal
        // before the waiting parts.
        if case .refused(.overLimit, _) = part { return true }
        return state.takesPart
    }

    private func process(_ part: Part) {
        switch part {
        case .refused(let refusal, let fault):
            bodyFault = fault
            waiting.removeAll()
            perform(state.handle(.refused(refusal), at: Self.now))
        case .request(.head(let head)):
            switch FramingRules.check(head) {
            case .nameless(let summary) where service.answersWithoutHost(head.uri):
                self.head = head
                perform(state.handle(.head(summary), at: Self.now))
            case .nameless, .refuse: process(.refused(.malformed, fault: .malformed))
            case .pass(var summary, let path):
                var head = head
                if let path { head.uri = path }
                self.head = head
                bodyLeft = summary.bodyLength
                // The body of a safe request stays a stream, because only the relay reads it. Other routes discard it.
                summary.isBodyHere = !summary.isSafe && isHere(summary.bodyLength)
                perform(state.handle(.head(summary), at: Self.now))
            }
        case .request(.body(let chunk)):
            // The buffer reads chunked bodies itself. If the decoder reports a chunk, the decoder and the buffer have found
            // different ends of the head, so the framing is ambiguous.
            guard let left = bodyLeft else { return process(.refused(.malformed, fault: .malformed)) }
            bodyLeft = left - chunk.readableBytes
            deliver(chunk)
        case .piece(let piece): deliver(piece)
        case .request(.end): perform(state.handle(.end, at: Self.now))
        }
    }

    /// Whether a body of this length has completely arrived, so that reading the body needs no sequence, timer or thread switch.
    private func isHere(_ length: Int?) -> Bool {
        guard let length, let input else { return false }
        return length <= min(input.count, Self.slice)
    }

    private func deliver(_ chunk: ByteBuffer) {
        guard state.handle(.body, at: Self.now).contains(.deliver) else { return }
        guard droppedLeft == nil else { return drop(chunk.readableBytes) }
        if state.isGathering {
            var whole = gathered ?? ByteBuffer()
            gathered = nil
            whole.writeImmutableBuffer(chunk)
            gathered = whole
        } else {
            guard let body else { return }
            state.wantsBody(body.yield(chunk.compact))
        }
        // Bytes of a request with a live session do not count towards the limit of the client's address. All other bytes count
        // until their request is answered.
        if connection.isOfSession { held.keep(0) }
    }

    /// Discards bytes of a body, and stops reading at the limit for discarded bodies.
    private func drop(_ count: Int) {
        let left = (droppedLeft ?? 0) - count
        droppedLeft = left
        held.keep(input?.count ?? 0)
        if left <= 0 { try? channel.syncOptions?.setOption(.autoRead, value: false) }
    }

    /// Processes the stored parts that the state machine accepts now.
    func drain() {
        guard !isDraining else { return }
        isDraining = true
        defer { isDraining = false }
        while let part = waiting.first, takesNow(part) {
            if served >= Self.turn, case .request(.head) = part { return yieldTurn() }
            waiting.removeFirst()
            process(part)
        }
    }

    /// Processes stored parts, and then further input.
    private func advance() {
        guard !isAdvancing else { return }
        isAdvancing = true
        defer { isAdvancing = false }
        drain()
        guard waiting.isEmpty else { return }
        guard served < Self.turn else { return yieldTurn() }
        input?.resume()
        guard served < Self.turn else { return yieldTurn() }
        guard waiting.isEmpty, !state.isServing, input?.count ?? 0 == 0 else { return }
        served = 0
        // All complete requests are processed by now, so any remaining input is an incomplete request.
        if hasInputEnded { perform(state.handle(.inputClosed(more: false), at: Self.now)) }
    }

    /// Lets the event loop serve its other connections.
    ///
    /// A timer is necessary, because the loop would run a task of this connection before the loop reads from other connections.
    private func yieldTurn() {
        guard !isYielding else { return }
        isYielding = true
        channel.eventLoop.assumeIsolated().scheduleTask(in: .microseconds(100)) {
            self.isYielding = false
            self.served = 0
            self.advance()
        }
    }

    // MARK: Effects

    private func perform(_ effects: ServerConnection.Effects) {
        guard !effects.isEmpty else { return }
        if effects.contains(.sendContinue) {
            context?.writeAndFlush(wrapOutboundOut(AnswerEncoder.interim), promise: nil)
        }
        if effects.contains(.endBody) { endBody(nil) }
        if effects.contains(.failBody) { endBody(bodyFault) }
        if effects.contains(.serve) { serve() }
        if effects.contains(.refuse) { refuse() }
        if effects.contains(.halfClosed) { connection.clientHalfClosed() }
        if effects.contains(.cancel) { connection.cancelUnwanted() }
        if effects.contains(.closeOutput) { closeOutput() }
        if effects.contains(.reset) { reset() }
        if effects.contains(.close) { close() }
        if effects.contains(.reschedule) { reschedule() }
        if effects.contains(.next) { advance() }
    }

    private func endBody(_ fault: BodyFault?) {
        body?.finish(fault)
        body = nil
    }

    private func serve() {
        guard let head else { return }
        self.head = nil
        served += 1
        requests += 1
        let number = requests
        connection.beginsRequest()
        let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
        let stream: RequestBody
        if state.isBodyOpen {
            let made = BodySource.make(
                on: channel.eventLoop, wanted: { bound.value.bodyWanted() },
                began: { [eventLoop = channel.eventLoop] in
                    if eventLoop.inEventLoop {
                        bound.value.bodyRead(of: number)
                    } else {
                        eventLoop.execute { bound.value.bodyRead(of: number) }
                    }
                },
                fail: { [eventLoop = channel.eventLoop] fault in
                    eventLoop.execute { bound.value.abandonBody(of: number, fault) }
                },
                drop: { [eventLoop = channel.eventLoop] in
                    if eventLoop.inEventLoop {
                        bound.value.dropBody(of: number)
                    } else {
                        eventLoop.execute { bound.value.dropBody(of: number) }
                    }
                })
            (stream, body) = made
            bodyServed = body
        } else {
            stream = RequestBody(buffer: gathered)
            gathered = nil
            bodyServed = nil
        }
        let (service, connection) = (service, connection)
        let task = Task.immediateDetached(executorPreference: executor) {
            guard let request = HTTPRequest(head) else { return bound.value.refuseMethod() }
            let answer = await service.respond(to: request, body: stream, of: connection)
            bound.value.begin(answer)
        }
        // Store the task only if its request is still being served. This request may have ended already, and the next request
        // may have begun.
        if state.isServing, !isStreaming, requests == number { connection.serves(task) }
    }

    private func bodyWanted() {
        state.wantsBody(true)
        input?.resume()
    }

    private func bodyRead(of number: Int) {
        guard requests == number else { return }
        perform(state.handle(.bodyRead, at: Self.now))
    }

    /// Ends the reading of the body.
    ///
    /// The connection then closes after the answer, because the rest of the body stays unread.
    private func abandonBody(of number: Int, _ fault: BodyFault) {
        guard requests == number, state.isBodyOpen else { return }
        body?.finish(fault)
        body = nil
    }

    private func dropBody(of number: Int) {
        guard requests == number, droppedLeft == nil else { return }
        state.dropBody()
        droppedLeft = droppedBody
    }

    private func refuse() {
        (head, gathered) = (nil, nil)
        bodyServed = nil
        var answer = service.refuse(state.refusal, on: connection)
        answer.closes = true
        begin(answer)
    }

    private func refuseMethod() {
        var answer = service.refuse(.malformed, on: connection)
        answer.closes = true
        begin(answer)
    }

    // MARK: Answering

    private func begin(_ answer: Answer) {
        guard !state.discardsInput, state.isServing else { return }
        // The connection can serve another request only if the body was read to its end.
        let closes = answer.closes || bodyServed?.isRead == false
        perform(state.handle(.answer(closes: closes, more: hasMore), at: Self.now))
        let (bytes, rest) = encoder.begin(answer, state.framing)
        write(bytes)
        switch answer.body {
        case .none: end(nil)
        case .whole(let buffer):
            guard isSecure, let rest else {
                written += buffer.readableBytes
                if let rest { write(rest) }
                return end(nil)
            }
            self.rest = rest
            writeSlice(of: requests)
        case .stream(_, let write): stream(write)
        }
    }

    /// Whether received input still waits to be processed.
    private var hasMore: Bool { !waiting.isEmpty || (input?.count ?? 0) > 0 }

    /// Writes the next slice of a complete body, and continues when that slice is sent.
    private func writeSlice(of number: Int) {
        guard requests == number, state.isAnswering, let context,
            let slice = rest.readSlice(length: min(rest.readableBytes, Self.slice))
        else { return }
        written += slice.readableBytes
        guard rest.readableBytes > 0 else {
            write(slice)
            rest = ByteBuffer()
            tellWritability()
            return end(nil)
        }
        context.writeAndFlush(wrapOutboundOut(slice)).assumeIsolated().whenSuccess { self.writeSlice(of: number) }
        tellWritability()
    }

    /// Writes a streamed body in a task of its own.
    ///
    /// The memory of the task that made the answer is released only when that task ends, and an event stream may last for days.
    private func stream(_ write: @escaping @concurrent @Sendable (any BodyWriter) async throws -> Void) {
        isStreaming = true
        let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
        let number = requests
        let task = Task.immediateDetached(executorPreference: executor) {
            do { try await write(ConnectionWriter(connection: bound, number: number)) } catch {
                // An incomplete body must not look complete.
                bound.value.cut(number)
            }
            // If the writer returned without ending the body, the incomplete body must not look complete. After a normal end,
            // `cut` has no effect.
            bound.value.cut(number)
        }
        if isStreaming, requests == number { connection.serves(task) }
    }

    /// Cuts the answer to a request, unless the answer has ended.
    func cut(_ number: Int) {
        guard requests == number, state.isAnswering else { return }
        perform(state.handle(.answerCut, at: Self.now))
    }

    /// Writes a piece of a body and waits until the client has read enough for the next one.
    func write(_ chunk: ByteBuffer) async throws {
        guard state.isAnswering, let context else { throw ChannelError.ioOnClosedChannel }
        written += chunk.readableBytes
        encoder.framing.pass(chunk) { write($0) }
        _ = state.handle(.wrote, at: Self.now)
        unflushed += chunk.readableBytes
        if unflushed < Self.slice { flushSoon() } else { flush() }
        guard !context.channel.isWritable else { return }
        await withCheckedContinuation { continuation in
            resumeWriter()
            writer = continuation
        }
        guard self.context != nil, state.isAnswering else { throw ChannelError.ioOnClosedChannel }
    }

    /// Ends the answer.
    func end(_ trailers: HTTPFields?) {
        guard state.isAnswering, context != nil else { return }
        isStreaming = false
        if let last = encoder.framing.end(trailers) { write(last) }
        flush()
        held.keep(input?.count ?? 0)
        connection.served()
        bodyFault = .incomplete
        endBody(.incomplete)
        // Keep this call last, because it may begin the next request.
        perform(state.handle(.answerEnded(more: hasMore), at: Self.now))
    }

    private func write(_ bytes: ByteBuffer) { context?.write(wrapOutboundOut(bytes), promise: nil) }

    /// Sends the written bytes after the loop's other tasks, so that head and body share a packet.
    private func flushSoon() {
        guard !isFlushDue else { return }
        isFlushDue = true
        channel.eventLoop.assumeIsolated().execute {
            if self.isFlushDue { self.flush() }
        }
    }

    private func flush() {
        isFlushDue = false
        unflushed = 0
        context?.flush()
    }

    private func resumeWriter() {
        let waiting = writer
        writer = nil
        waiting?.resume()
    }

    // MARK: Ending

    /// The number of bytes that are written and not yet sent.
    private var pending: Int { (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 }

    /// Closes the output after all bytes are sent.
    ///
    /// Closing at once with unread input would reset the connection, and the answer could be lost (RFC 9112 section 9.6).
    private func closeOutput() {
        waiting.removeAll()
        input?.discard()
        held.keep(0)
        guard let context else { return }
        context.close(mode: .output).assumeIsolated().whenComplete { _ in
            self.perform(self.state.handle(.outputClosed, at: Self.now))
        }
        // The body's reader, for which the input paused, is gone. So read and discard the rest of the input.
        input?.resume()
    }

    private func close() { context?.close(promise: nil) }

    private func reset() { context?.triggerUserOutboundEvent(SocketEnding.Wanted.reset, promise: nil) }

    private func stop() {
        guard context != nil else { return }
        context = nil
        perform(state.handle(.inactive, at: Self.now))
        connection.clientGone()
        timer?.cancel()
        timer = nil
        waiting.removeAll()
        endBody(.incomplete)
        gathered = nil
        held.keep(0)
        input = nil
        rest = ByteBuffer()
        resumeWriter()
    }

    // MARK: Deadlines

    /// Schedules the next check for the nearest deadline.
    ///
    /// One timer for the connection replaces a timer for every request.
    private func reschedule() {
        guard context != nil else { return }
        let now = Self.now
        let due = state.deadline ?? now + 60_000_000_000
        guard timer == nil || due < timerAt else { return }
        timer?.cancel()
        timerAt = due
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(max(due - now, 0))) {
            self.timer = nil
            guard self.context != nil else { return }
            let pending = self.pending
            self.perform(
                self.state.checkDeadlines(at: Self.now, taken: self.written - pending, pending: pending > 0))
            self.reschedule()
        }
    }
}

@available(*, unavailable)
extension ServerConnectionHandler: Sendable {}
