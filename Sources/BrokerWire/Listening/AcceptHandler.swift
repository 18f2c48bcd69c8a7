import NIOCore

/// Pauses accepting while there are as many connections as may be, and for a moment when the system has no descriptor
/// left: a listening socket that stays readable would keep its event loop spinning.
final class AcceptHandler: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    /// How long accepting pauses after it failed.
    private static let pause = TimeAmount.milliseconds(100)

    private let cap: ConnectionCap?
    private var context: ChannelHandlerContext?
    private var isPaused = false
    private var isReadHeld = false

    init(cap: ConnectionCap?) { self.cap = cap }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if let cap {
            cap.opened()
            unwrapInboundIn(data).closeFuture.whenComplete { _ in cap.closed() }
        }
        context.fireChannelRead(data)
    }

    func read(context: ChannelHandlerContext) {
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        guard !isPaused,
            cap?.admits(orElse: { [eventLoop = context.eventLoop] in
                eventLoop.execute { bound.value.resume() }
            }) ?? true
        else {
            isReadHeld = true
            return
        }
        context.read()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isPaused = true
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) {
            self.isPaused = false
            self.resume()
        }
        context.fireErrorCaught(error)
    }

    private func resume() {
        guard isReadHeld, !isPaused else { return }
        isReadHeld = false
        // Through `read`, which looks at the cap again.
        context?.channel.read()
    }
}

@available(*, unavailable)
extension AcceptHandler: Sendable {}
