import NIOCore
import NIOSSL
import NIOTLS

/// Stands behind the TLS handler: ends a handshake that takes too long or whose place another needs, and turns what TLS
/// says of a connection's end into what sockets say.
final class HandshakeGuard: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let room: HandshakeRoom
    private var place: Int?
    private var timer: Scheduled<Void>?

    init(_ room: HandshakeRoom) { self.room = room }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        let end: @Sendable () -> Void = { channel.close(mode: .all, promise: nil) }
        place = room.enter(end)
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: ServerTLS.patience) { end() }
    }

    func handlerRemoved(context: ChannelHandlerContext) { finish() }

    func channelInactive(context: ChannelHandlerContext) {
        finish()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { finish() }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A client that ends its side without TLS's goodbye: HTTP's own framing says whether a request was whole.
        if let error = error as? NIOSSLError, case .uncleanShutdown = error { return }
        context.fireErrorCaught(error)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .output, place == nil else { return context.close(mode: mode, promise: promise) }
        // Where the client has said goodbye already, the TLS handler closes at once, with what was written unsent.
        context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(capacity: 0))).assumeIsolated()
            .whenComplete { _ in context.close(mode: .output, promise: promise) }
    }

    private func finish() {
        timer?.cancel()
        timer = nil
        if let place { room.leave(place) }
        place = nil
    }
}

@available(*, unavailable)
extension HandshakeGuard: Sendable {}
