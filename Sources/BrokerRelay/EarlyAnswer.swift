import NIOCore
import NIOHTTP1

/// Keeps the end of an answer back that comes before the request's.
///
/// The client's `RequestBag` takes such a call for finished. It then never sends the request's end, never gives the
/// connection back, and forgets whoever waits for room in the request. An upstream may do this in good order: it has a
/// body's last byte before the client is told that this was the last one. So the end waits for the request's. When that
/// is not to be expected, because the upstream refuses, closes the connection, or the request stands still, an empty
/// piece of body tells `UpstreamExchange` that this was all, and it ends the call and the connection.
final class EarlyAnswer: ChannelDuplexHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    /// How long a request may stand still.
    private let patience: TimeAmount
    private var context: ChannelHandlerContext?
    private var isSending = false
    private var isLast = false
    private var held: HTTPClientResponsePart?
    private var timer: Scheduled<Void>?

    init(patience: TimeAmount) { self.patience = patience }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        self.context = nil
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head: isSending = true
        case .body: if held != nil { wait(context) }
        case .end:
            isSending = false
            // The client is in the middle of sending: it is told when it is done with that.
            if held != nil { context.eventLoop.assumeIsolated().execute { self.release() } }
        }
        context.write(data, promise: promise)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        switch part {
        case .head(let head): isLast = head.status.code >= 300 || !head.isKeepAlive
        case .body: break
        case .end:
            guard isSending else { break }
            held = part
            return isLast ? tell(context) : wait(context)
        }
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        release()
        context.fireErrorCaught(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        release()
        context.fireChannelInactive()
    }

    private func wait(_ context: ChannelHandlerContext) {
        timer?.cancel()
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: patience) {
            guard let context = self.context else { return }
            self.tell(context)
            context.fireChannelReadComplete()
        }
    }

    private func tell(_ context: ChannelHandlerContext) {
        context.fireChannelRead(wrapInboundOut(.body(ByteBuffer())))
    }

    private func release() {
        timer?.cancel()
        timer = nil
        guard let context, let part = held else { return }
        held = nil
        context.fireChannelRead(wrapInboundOut(part))
        context.fireChannelReadComplete()
    }
}

@available(*, unavailable)
extension EarlyAnswer: Sendable {}
