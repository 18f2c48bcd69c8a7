import HTTPTypes
import NIOCore
import NIOHTTP1

/// The shell round `ServerConnection`: hands it what happens on the channel, and does what it says.
///
/// Everything happens on the connection's own event loop: a request's task is started there and runs there, so that one
/// whose session is at hand is read, worked on and answered without a hand-over (decision 10).
///
/// `NIOLoopBound.value` traps on another thread. It is reached only from the loop's callbacks and from tasks whose
/// executor is the loop: what such a task awaits may run elsewhere, but it comes back there before it goes on.
final class ServerConnectionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    /// The number of pipelined requests that are served before other connections get their turn (SEC-105).
    private static let turn = 16

    /// The bytes of a whole body that TLS is given at a time: what it makes of them is the connection's own memory, in
    /// one record of less than 16 KiB.
    private static let slice = 16_000

    /// The input that came before its turn.
    private enum Part {
        case request(HTTPServerRequestPart)
        /// A piece of a chunked body.
        case piece(ByteBuffer)
        /// `fault` is what the reader of an open body hears of it.
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
    /// The bytes that the decoder has not been given.
    private var input: InboundBuffer?
    private var waiting = CircularBuffer<Part>()
    /// The head of a request without a body, until its end has come.
    private var head: HTTPRequestHead?
    /// The body of a request that is served once it is whole.
    private var gathered: ByteBuffer?
    /// The body that is coming in, and the one of the request under way, whether it has come in or not.
    private var body: BodySource?
    private var bodyServed: BodySource?
    private var bodyFault = BodyFault.incomplete
    /// The bytes of it that are still to come; nil for one that is chunked.
    private var bodyLeft: Int?
    /// The bytes that may still be read of a body that is thrown away; nil for other bodies.
    private var droppedLeft: Int?
    /// The most of them.
    private let droppedBody: Int
    private var hasInputEnded = false
    private var isAdvancing = false
    private var isDraining = false
    /// Whether the connections of its event loop have their turn.
    private var isYielding = false
    private var isStreaming = false
    /// The number of requests that were served in this turn, and in all.
    private var served = 0
    private var requests = 0
    /// The bytes of bodies that were handed over for sending.
    private var written = 0
    /// The rest of a whole body that is handed over slice by slice.
    private var rest = ByteBuffer()
    private var isWritable = true
    private var isFlushDue = false
    /// The bytes of a streamed body that wait for that: TLS keeps them where nobody sees that they are many.
    private var unflushed = 0
    private var timer: Scheduled<Void>?
    private var timerAt = Int64.max
    /// The writer that waits until the client has read enough.
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

    /// Names the handler that gives the decoder its bytes.
    func reads(_ input: InboundBuffer) { self.input = input }

    private static var now: Int64 { Int64(clamping: NIODeadline.now().uptimeNanoseconds) }

    // MARK: What the input asks

    var takesInput: Bool { served < Self.turn && waiting.isEmpty && state.takesInput }
    var discardsInput: Bool { state.discardsInput }

    /// The form of the body that is coming in; nil while none is.
    var openBody: InboundBuffer.BodyForm? {
        guard state.isBodyOpen else { return nil }
        return bodyLeft.map { .length($0) } ?? .chunked
    }

    /// Takes note of bytes that came in; false when they are too many to be kept.
    func received(_ count: Int) -> Bool {
        guard !connection.isOfSession, !held.add(count) else { return true }
        take(.refused(.overLimit, fault: .overLimit))
        return false
    }

    /// Takes note of bytes that came in and are thrown away.
    func discarded(_ count: Int) { if droppedLeft != nil { drop(count) } }

    /// Takes a piece of a chunked body.
    func receive(_ piece: ByteBuffer) { take(.piece(piece)) }

    /// Takes note of a chunked body that is not well formed.
    func breaksFraming() { take(.refused(.malformed, fault: .malformed)) }

    /// Takes note that the client sends nothing more than what waits with the input.
    func inputEnds() { perform(state.handle(.inputClosed(more: true), at: Self.now)) }

    // MARK: What comes in

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
        // The client has closed its side within a request.
        case HTTPParserError.invalidEOFState: take(.refused(.malformed, fault: .incomplete))
        case HTTPParserError.headerOverflow: take(.refused(.tooLarge, fault: .malformed))
        case is HTTPParserError, is ByteToMessageDecoderError: take(.refused(.malformed, fault: .malformed))
        default:
            // A socket that fails: nobody is there any more.
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

    /// Says whether the client keeps up: a body that is sent slice by slice waits for it, however little is on its way.
    private func tellWritability() {
        let isWritable = channel.isWritable && rest.readableBytes == 0
        guard isWritable != self.isWritable else { return }
        self.isWritable = isWritable
        perform(state.handle(.writable(isWritable), at: Self.now))
    }

    /// Takes a part in its turn.
    private func take(_ part: Part) {
        guard !state.discardsInput else { return }
        // A request that is answered while its slice is decoded does not know what follows it.
        guard waiting.isEmpty, input?.isDecoding != true, takesNow(part) else { return waiting.append(part) }
        process(part)
        advance()
    }

    private func takesNow(_ part: Part) -> Bool {
        // That its address holds too much concerns the request under way as well as the next one.
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
            case .refuse: process(.refused(.malformed, fault: .malformed))
            case .pass(var summary, let path):
                var head = head
                if let path { head.uri = path }
                self.head = head
                bodyLeft = summary.bodyLength
                // A GET's body is read by the relay alone; other routes drop it, whole or not.
                summary.isBodyHere = !summary.isSafe && isHere(summary.bodyLength)
                perform(state.handle(.head(summary), at: Self.now))
            }
        case .request(.body(let chunk)):
            // Chunks are not the decoder's to find: it took another end of the head than we did.
            guard let left = bodyLeft else { return process(.refused(.malformed, fault: .malformed)) }
            bodyLeft = left - chunk.readableBytes
            deliver(chunk)
        case .piece(let piece): deliver(piece)
        case .request(.end): perform(state.handle(.end, at: Self.now))
        }
    }

    /// Whether a body of a length has come in: then it costs no sequence, no timer and no hand-over.
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
        // A session's bytes are its own; everybody else's are counted until they are answered.
        if connection.isOfSession { held.keep(0) }
    }

    /// Throws bytes of a body away, and stops reading at the bound.
    private func drop(_ count: Int) {
        let left = (droppedLeft ?? 0) - count
        droppedLeft = left
        held.keep(input?.count ?? 0)
        if left <= 0 { try? channel.syncOptions?.setOption(.autoRead, value: false) }
    }

    /// Takes what waits, as far as it is its turn.
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

    /// Takes what waits, and then more.
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
        // Requests that came before the end are answered, and the rest of the input is no whole request.
        if hasInputEnded { perform(state.handle(.inputClosed(more: false), at: Self.now)) }
    }

    /// Lets the event loop look at its other connections: only a timer makes it do so before more of its own tasks.
    private func yieldTurn() {
        guard !isYielding else { return }
        isYielding = true
        channel.eventLoop.assumeIsolated().scheduleTask(in: .microseconds(100)) {
            self.isYielding = false
            self.served = 0
            self.advance()
        }
    }

    // MARK: What has to be done

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
        // It may be over already, and another one under way.
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

    /// Ends the body's reading; the answer that follows closes the connection, because the rest is not read.
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
        // A body that nobody read to its end is followed by no other request.
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

    /// Whether something that came in waits for its turn.
    private var hasMore: Bool { !waiting.isEmpty || (input?.count ?? 0) > 0 }

    /// Writes the next slice of a whole body, and the one behind it when it is sent.
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

    /// Writes a body in a task of its own: the one that made the answer keeps its memory until it ends, and a listener
    /// may stay for days.
    private func stream(_ write: @escaping @concurrent @Sendable (any BodyWriter) async throws -> Void) {
        isStreaming = true
        let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
        let number = requests
        let task = Task.immediateDetached(executorPreference: executor) {
            do { try await write(ConnectionWriter(connection: bound, number: number)) } catch {
                // A body that is not whole must not look so.
                bound.value.cut(number)
            }
            // Neither must one whose writer forgot its end.
            bound.value.cut(number)
        }
        if isStreaming, requests == number { connection.serves(task) }
    }

    /// Cuts the answer to a request, unless it has ended.
    func cut(_ number: Int) {
        guard requests == number, state.isAnswering else { return }
        perform(state.handle(.answerCut, at: Self.now))
    }

    /// Writes a piece of a body and waits until the client keeps up.
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
        // Last of all: it may begin the next request.
        perform(state.handle(.answerEnded(more: hasMore), at: Self.now))
    }

    private func write(_ bytes: ByteBuffer) { context?.write(wrapOutboundOut(bytes), promise: nil) }

    /// Sends what was written when the loop's other tasks are done, so that head and body leave together.
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

    /// The number of bytes that wait to be sent.
    private var pending: Int { (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 }

    /// Closes the output when everything is sent.
    ///
    /// Closing at once with input unread would reset the connection, and the answer could be lost with it (RFC 9112
    /// section 9.6).
    private func closeOutput() {
        waiting.removeAll()
        input?.discard()
        held.keep(0)
        guard let context else { return }
        context.close(mode: .output).assumeIsolated().whenComplete { _ in
            self.perform(self.state.handle(.outputClosed, at: Self.now))
        }
        // The reader that paused is gone: what is left is thrown away.
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

    /// Looks at the deadlines when the nearest may be over, not with every request.
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
