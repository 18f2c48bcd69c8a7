import NIOCore
import NIOHTTP1
import NIOTLS

/// Connects `UpstreamConnection` to a channel: passes events in, and carries out the effects.
///
/// Everything runs on the event loop of the app's connection. Bytes move from one socket to the other without a lock or another
/// thread.
final class UpstreamConnectionHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundIn = Never
    typealias OutboundOut = ByteBuffer

    /// An error that stops the sending of an abandoned request.
    struct Stopped: Error {}

    private let pool: UpstreamPool
    private let channel: any Channel
    private var state: UpstreamConnection
    private var context: ChannelHandlerContext?
    private var exchange: UpstreamExchange?
    /// The head of the request that began last; nil after the decoder has taken it.
    private var begun: HTTPRequestHead?
    /// The closure to call when the connection is ready, or when connecting has failed.
    ///
    /// The connection must be ready at `readyBy`.
    private var ready: ((Result<UpstreamConnectionHandler, any Error>) -> Void)?
    private let readyBy: Int64
    private var isReadHeld = false
    /// Whether the current answer's body is chunked.
    private var isChunked = false
    private var timer: Scheduled<Void>?
    private var timerAt = Int64.max
    /// The continuation of the request's writer, which waits for the upstream to read.
    private var writer: CheckedContinuation<Void, Never>?

    init(
        _ pool: UpstreamPool, channel: any Channel, readyBy: NIODeadline,
        ready: @escaping (Result<UpstreamConnectionHandler, any Error>) -> Void
    ) {
        self.pool = pool
        self.channel = channel
        self.ready = ready
        self.readyBy = Int64(clamping: readyBy.uptimeNanoseconds)
        state = UpstreamConnection(
            idle: pool.limits.idleOfOne, silence: pool.limits.silence.nanoseconds,
            linger: pool.limits.linger.nanoseconds, now: Self.now)
    }

    private static var now: Int64 { Int64(clamping: NIODeadline.now().uptimeNanoseconds) }

    // MARK: Requests of the call

    /// Sends a call's request.
    ///
    /// The head and a complete body form one write. A streamed body is sent as it arrives.
    func begin(_ exchange: UpstreamExchange) {
        guard let context, state.phase == .idle else { return exchange.finish(.failure(.call(.broken))) }
        let request = exchange.request
        self.exchange = exchange
        exchange.connection = self
        perform(
            state.handle(
                .call(
                    .init(
                        isLast: request.endsConnection, hasBody: request.hasBody, isStreamed: request.isStreamed,
                        limit: request.limit, begun: request.begun)), at: Self.now))
        begun = request.head
        let (bytes, rest) = RequestEncoder.begin(request)
        context.write(wrapOutboundOut(bytes), promise: nil)
        if let rest { context.write(wrapOutboundOut(rest), promise: nil) }
        context.flush()
        guard case .stream(let stream, let length) = request.body else { return }
        exchange.sendingBegins()
        let loop = channel.eventLoop
        let (bound, boundExchange) = (NIOLoopBound(self, eventLoop: loop), NIOLoopBound(exchange, eventLoop: loop))
        exchange.isSent(
            by: Task.immediateDetached(executorPreference: pool.executor) {
                await bound.value.send(stream, length, of: boundExchange.value)
            })
    }

    /// Sends a request's body, each piece when the upstream can accept it.
    private func send(_ stream: UpstreamRequest.Stream, _ length: Int?, of exchange: UpstreamExchange) async {
        do {
            let next = stream.read()
            var sent = 0
            while let piece = try await next() {
                sent += piece.readableBytes
                // The upstream would read bytes beyond the announced length as another request (SEC-79, SEC-81).
                guard sent <= length ?? stream.limit else { throw UpstreamFailure.requestTooLong }
                try await send(piece, exchange.request.framing)
            }
            guard sent == length ?? sent else { throw UpstreamFailure.requestTooShort }
            guard state.isSending, let context else { throw Stopped() }
            if let end = exchange.request.framing.end() { context.writeAndFlush(wrapOutboundOut(end), promise: nil) }
            perform(state.handle(.requestEnd, at: Self.now))
        } catch {
            exchange.requestFault = error
            perform(state.handle(.requestCut, at: Self.now))
        }
        exchange.sendingEnded()
    }

    private func send(_ piece: ByteBuffer, _ framing: BodyFraming) async throws {
        guard state.isSending, let context else { throw Stopped() }
        framing.pass(piece) { context.write(wrapOutboundOut($0), promise: nil) }
        context.flush()
        perform(state.handle(.requestPart, at: Self.now))
        guard !channel.isWritable else { return }
        await withCheckedContinuation { writer = $0 }
        guard state.isSending else { throw Stopped() }
    }

    /// Passes on to the state machine whether the answer's reader wants more now.
    func wants(_ more: Bool) {
        perform(state.handle(.wanted(more), at: Self.now))
        guard more, isReadHeld, let context else { return }
        isReadHeld = false
        context.read()
    }

    /// Notes that the answer was read to its end.
    func taken() { perform(state.handle(.taken, at: Self.now)) }

    /// Abandons the call.
    func abandon() { perform(state.handle(.abandoned, at: Self.now)) }

    /// Closes the connection, even within a call.
    func close() { perform(state.handle(.gone, at: Self.now)) }

    // MARK: Input

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        reschedule()
    }

    func handlerRemoved(context: ChannelHandlerContext) { stop() }

    func read(context: ChannelHandlerContext) {
        if state.takesInput { context.read() } else { isReadHeld = true }
    }

    /// Notes that bytes were received; returns false if the connection is closed.
    func received() -> Bool {
        perform(state.handle(.bytes, at: Self.now))
        return state.phase != .closed
    }

    /// The part of the answer that contains the next bytes.
    var part: UpstreamDecoder.Part {
        switch state.phase {
        case .sending, .waiting: .head
        case .receiving: isChunked ? .chunks : .other
        default: .other
        }
    }

    /// Returns whether the decoder will treat the body behind a head as chunked.
    ///
    /// If there is an unusual coding or several codings, NIO's decoder reads the body itself, and the relay refuses the answer.
    private func isChunked(_ head: HTTPResponseHead) -> Bool {
        guard exchange?.request.head.method != .HEAD, ![101, 204, 304].contains(head.status.code) else { return false }
        let codings = head.headers["Transfer-Encoding"]
        return codings.count == 1 && codings.allSatisfy { $0.isASCIIEqual(to: "chunked") }
    }

    /// Returns the head of a request that began since the last call of this method; nil if all requests began before.
    func takeBegun() -> HTTPRequestHead? {
        defer { begun = nil }
        return begun
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        switch part {
        case .head(let head):
            let effects = state.handle(
                .head(status: Int(head.status.code), keepsAlive: head.isKeepAlive), at: Self.now)
            if effects.contains(.deliver) {
                isChunked = isChunked(head)
                exchange?.receive(head, isEarly: state.isSending)
            }
            perform(effects)
        case .body(let piece):
            let effects = state.handle(.body, at: Self.now)
            if effects.contains(.deliver), exchange?.receive(piece) == false { wants(false) }
            perform(effects)
        case .end: perform(state.handle(.end, at: Self.now))
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        perform(state.handle(.readComplete, at: Self.now))
        exchange?.awaitsBody(for: pool.limits.hold, on: channel.eventLoop)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        perform(state.handle(.writable(channel.isWritable), at: Self.now))
        if channel.isWritable { resumeWriter() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { becomeReady() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(ready: error)
        // Only the decoder's errors mean invalid HTTP. All other errors come from the socket or TLS.
        let isMalformed = error is HTTPParserError || error is NIOHTTPDecoderError
        perform(state.handle(isMalformed ? .malformed : .gone, at: Self.now))
    }

    func channelInactive(context: ChannelHandlerContext) { stop() }

    private func stop() {
        guard context != nil else { return }
        fail(ready: ChannelError.eof)
        perform(state.handle(.gone, at: Self.now))
        context = nil
        timer?.cancel()
        timer = nil
        pool.forget(self)
    }

    // MARK: Getting ready

    /// Notes that TLS and the proxy are set up, so written bytes reach the upstream.
    func becomeReady() {
        let ready = ready
        self.ready = nil
        ready?(.success(self))
    }

    /// Notes that connecting failed.
    func fail(ready error: any Error) {
        let ready = ready
        self.ready = nil
        ready?(.failure(error))
    }

    // MARK: Effects

    private func perform(_ effects: UpstreamConnection.Effects) {
        if effects.isEmpty { return }
        if effects.contains(.stopSending) { resumeWriter() }
        if effects.contains(.finish) { exchange?.finish(.success(())) }
        if effects.contains(.fail) { fail() }
        if effects.contains(.release) {
            takeExchange()
            pool.release(self)
        }
        if effects.contains(.linger) {
            takeExchange()
            context?.triggerUserOutboundEvent(SocketEnding.Wanted.withoutTrace, promise: nil)
            // The limit on calls leaves out lingering connections, so the pool limits their number.
            if !pool.letLinger(self) { perform(state.handle(.gone, at: Self.now)) }
        }
        if effects.contains(.close) || effects.contains(.reset) {
            takeExchange()
            resumeWriter()
            pool.forget(self)
            if effects.contains(.reset) {
                context?.triggerUserOutboundEvent(SocketEnding.Wanted.reset, promise: nil)
            } else {
                context?.close(promise: nil)
            }
        }
        if effects.contains(.reschedule) { reschedule() }
    }

    @discardableResult
    private func takeExchange() -> UpstreamExchange? {
        defer { exchange = nil }
        exchange?.connection = nil
        return exchange
    }

    private func fail() {
        guard let exchange = takeExchange() else { return }
        if state.failure == .lost, exchange.request.canBeRepeated, !exchange.isRepeated {
            exchange.isRepeated = true
            pool.connect(for: exchange)
        } else {
            exchange.finish(.failure(exchange.failure(state.failure)))
        }
    }

    private func resumeWriter() {
        let waiting = writer
        writer = nil
        waiting?.resume()
    }

    /// Schedules the next check for the nearest deadline, instead of a timer for every call.
    private func reschedule() {
        guard context != nil, let due = ready == nil ? state.deadline : readyBy else { return }
        guard timer == nil || due < timerAt else { return }
        timer?.cancel()
        timerAt = due
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(max(due - Self.now, 0))) {
            self.timer = nil
            if self.ready != nil, self.readyBy <= Self.now {
                self.fail(ready: ChannelError.connectTimeout(.zero))
                self.close()
            }
            self.perform(self.state.checkDeadlines(at: Self.now))
            self.reschedule()
        }
    }
}

@available(*, unavailable)
extension UpstreamConnectionHandler: Sendable {}
