import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1

/// Serves a connection's requests one after the other, and closes a connection that does nothing (SEC-105).
///
/// Everything happens on the connection's own event loop: a request's task is started there and runs there, so that one
/// whose session is at hand is read, worked on and answered without a hand-over (decision 10). While a request is
/// served nothing more is read than its own body, and of that no more than is asked for.
///
/// `NIOLoopBound.value` traps on another thread. It is reached only from the loop's callbacks and from tasks whose
/// executor is the loop: what such a task awaits may run elsewhere, but it comes back there before it goes on.
final class RequestLoop: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = Never
    typealias OutboundOut = HTTPServerResponsePart

    /// How many pipelined requests are served before other connections get their turn (SEC-105).
    private static let turn = 16

    private let responder: BrokerResponder
    private let channel: any Channel
    private let connection: ClientConnection
    private let executor: EventLoopExecutor
    private let idle: TimeAmount
    private let writeDeadline: TimeAmount

    private var context: ChannelHandlerContext?
    /// What came before its turn.
    private var waiting = CircularBuffer<HTTPServerRequestPart>()
    /// The head of a request without a body, until its end has come.
    private var head: HTTPRequestHead?
    private var isServing = false
    private var isAnswering = false
    private var isStreaming = false
    /// The body that is being received; parts of a body that nobody reads have no source.
    private var body: BodySource?
    private var bodyIsOpen = false
    private var bodyIsWanted = true
    private var isReadHeld = false
    private var isAdvancing = false
    /// How many requests were served in this turn, and in all.
    private var served = 0
    private var requests = 0
    private var inputClosed = false
    private var isQuiescing = false
    private var isFlushDue = false
    private var lastActive = NIODeadline.now()
    private var idleTimer: Scheduled<Void>?
    private var writeTimer: Scheduled<Void>?
    /// Who waits until the client has read enough of what was written.
    private var writer: CheckedContinuation<Void, Never>?

    init(
        responder: BrokerResponder, channel: any Channel, connection: ClientConnection, idle: TimeAmount,
        writeDeadline: TimeAmount
    ) {
        self.responder = responder
        self.channel = channel
        self.connection = connection
        self.idle = idle
        self.writeDeadline = writeDeadline
        executor = EventLoopExecutor(channel.eventLoop)
    }

    // MARK: What comes in

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        scheduleIdleCheck(idle)
    }

    func handlerRemoved(context: ChannelHandlerContext) { stop() }

    func channelInactive(context: ChannelHandlerContext) {
        stop()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        lastActive = .now()
        let part = unwrapInboundIn(data)
        guard waiting.isEmpty, !isServing || bodyIsOpen else { return waiting.append(part) }
        take(part)
        advance()
    }

    /// Reading goes on when nothing waits and the body, if there is one, is wanted.
    func read(context: ChannelHandlerContext) {
        guard waiting.isEmpty, !bodyIsOpen || bodyIsWanted else {
            isReadHeld = true
            return
        }
        context.read()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if bodyIsOpen, let body {
            bodyIsOpen = false
            self.body = nil
            body.finish(error)
        } else if !(error is BodyTimeout) {
            // What is being answered has been received whole, so it is answered; nothing comes after it.
            inputClosed = true
            if !isServing { context.close(promise: nil) }
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? ChannelEvent, event == .inputClosed {
            inputClosed = true
            connection.clientGone()
            body?.finish(ChannelError.inputClosed)
            if !isServing, waiting.isEmpty { context.close(promise: nil) }
        }
        if event is ChannelShouldQuiesceEvent {
            isQuiescing = true
            connection.quiesce()
            if !isServing, waiting.isEmpty, head == nil { context.close(promise: nil) }
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// What waits to be sent has to shrink below the low-water mark in time.
    ///
    /// Less than that waits for the idle time-out.
    func channelWritabilityChanged(context: ChannelHandlerContext) {
        writeTimer?.cancel()
        writeTimer = nil
        if context.channel.isWritable {
            resumeWriter()
        } else {
            writeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: writeDeadline) {
                context.close(promise: nil)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    private func take(_ part: HTTPServerRequestPart) {
        switch part {
        case .head(let head):
            guard head.announcesBody else {
                self.head = head
                return
            }
            let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
            let (stream, source) = BodySource.make(on: channel.eventLoop) { bound.value.bodyWanted() }
            body = source
            bodyIsOpen = true
            bodyIsWanted = true
            serve(head, RequestBody(asyncSequence: stream))
        case .body(let chunk):
            // Of a body whose request is answered nothing is kept.
            if let body { bodyIsWanted = body.yield(chunk) }
        case .end:
            if let head {
                self.head = nil
                serve(head, RequestBody(buffer: ByteBuffer()))
            } else {
                bodyIsOpen = false
                body?.finish(nil)
                body = nil
            }
        }
    }

    private func bodyWanted() {
        bodyIsWanted = true
        resumeReading()
    }

    private func resumeReading() {
        guard isReadHeld, waiting.isEmpty, !bodyIsOpen || bodyIsWanted else { return }
        isReadHeld = false
        context?.read()
    }

    /// Takes what waits, as far as it is its turn.
    private func advance() {
        guard !isAdvancing else { return }
        isAdvancing = true
        defer { isAdvancing = false }
        while !isServing || bodyIsOpen, let part = waiting.first {
            if served >= Self.turn, case .head = part { return yieldTurn() }
            waiting.removeFirst()
            take(part)
        }
        if waiting.isEmpty {
            served = 0
            resumeReading()
        }
    }

    /// Lets the event loop look at its other connections: only a timer makes it do so before more of its own tasks.
    private func yieldTurn() {
        served = 0
        channel.eventLoop.assumeIsolated().scheduleTask(in: .microseconds(100)) { self.advance() }
    }

    // MARK: Serving

    private func serve(_ head: HTTPRequestHead, _ body: RequestBody) {
        isServing = true
        isAnswering = false
        served += 1
        requests += 1
        let number = requests
        let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
        let (responder, channel, connection) = (responder, channel, connection)
        let task = Task.immediateDetached(executorPreference: executor) {
            guard let request = HTTPRequest(head) else { return bound.value.close() }
            let answer = await responder.respond(to: request, body: body, on: channel, of: connection)
            bound.value.begin(answer)
        }
        // It may be over already, and another one under way.
        if isServing, !isStreaming, requests == number { connection.serves(task) }
    }

    private func begin(_ answer: Answer) {
        write(.head(HTTPResponseHead(answer)))
        isAnswering = true
        switch answer.body {
        case .none: end(nil)
        case .whole(let buffer):
            write(.body(.byteBuffer(buffer)))
            end(nil)
        case .stream(_, let write): return stream(write)
        }
        finish()
    }

    /// Writes a body in a task of its own: the one that made the answer keeps its memory until it ends, and a listener
    /// may stay for days.
    private func stream(
        _ write: @escaping @concurrent @Sendable (inout any ResponseBodyWriter) async throws -> Void
    ) {
        isStreaming = true
        let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
        let number = requests
        let task = Task.immediateDetached(executorPreference: executor) {
            var writer: any ResponseBodyWriter = ConnectionWriter(loop: bound)
            do { try await write(&writer) } catch {
                // A body that is not whole must not look so.
                bound.value.close()
            }
            bound.value.streamed()
        }
        if isStreaming, requests == number { connection.serves(task) }
    }

    private func streamed() {
        if isAnswering { close() }
        finish()
    }

    private func finish() {
        isServing = false
        isStreaming = false
        connection.served()
        lastActive = .now()
        body?.finish(nil)
        body = nil
        bodyIsWanted = true
        advance()
    }

    private func close() { context?.close(promise: nil) }

    // MARK: Writing

    /// Writes a piece of a body and waits until the client keeps up.
    func write(_ chunk: ByteBuffer) async throws {
        guard isAnswering, let context else { throw ChannelError.ioOnClosedChannel }
        write(.body(.byteBuffer(chunk)))
        flushSoon()
        guard !context.channel.isWritable else { return }
        await withCheckedContinuation { continuation in
            resumeWriter()
            writer = continuation
        }
        guard self.context != nil else { throw ChannelError.ioOnClosedChannel }
    }

    /// Ends the answer.
    func end(_ trailers: HTTPFields?) {
        guard isAnswering, let context else { return }
        isAnswering = false
        isFlushDue = false
        let last = wrapOutboundOut(.end(trailers.map { HTTPHeaders($0) }))
        guard waiting.isEmpty, inputClosed || isQuiescing else { return context.writeAndFlush(last, promise: nil) }
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { _ in self.close() }
        context.writeAndFlush(last, promise: sent)
    }

    private func write(_ part: HTTPServerResponsePart) { context?.write(wrapOutboundOut(part), promise: nil) }

    /// Sends what was written when the loop's other tasks are done, so that head and body leave together.
    private func flushSoon() {
        guard !isFlushDue else { return }
        isFlushDue = true
        channel.eventLoop.assumeIsolated().execute {
            guard self.isFlushDue else { return }
            self.isFlushDue = false
            self.context?.flush()
        }
    }

    private func resumeWriter() {
        let waiting = writer
        writer = nil
        waiting?.resume()
    }

    // MARK: Ending

    private func stop() {
        context = nil
        connection.clientGone()
        idleTimer?.cancel()
        idleTimer = nil
        writeTimer?.cancel()
        writeTimer = nil
        waiting.removeAll()
        body?.finish(ChannelError.eof)
        body = nil
        isAnswering = false
        resumeWriter()
    }

    /// Looks when the time may be over, not with every request.
    private func scheduleIdleCheck(_ delay: TimeAmount) {
        idleTimer = channel.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.checkIdle() }
    }

    private func checkIdle() {
        // A request that is received whole takes the time it takes; so does a body that the upstream takes slowly.
        guard !isServing || (bodyIsOpen && bodyIsWanted) else { return scheduleIdleCheck(idle) }
        let left = lastActive + idle - .now()
        if left > .zero { scheduleIdleCheck(left) } else { close() }
    }
}

@available(*, unavailable)
extension RequestLoop: Sendable {}
