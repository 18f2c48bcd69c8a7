import NIOCore

/// Stops accepting at the limit on connections, and for a moment after a failure, for example if no descriptor is left.
///
/// Without the pause, a listening socket that stays readable would keep its event loop spinning.
final class AcceptHandler: ChannelDuplexHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel
    typealias OutboundIn = Never

    /// The length of the pause after accepting failed.
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
        // The handler's method `read` checks the cap again.
        context?.channel.read()
    }
}

@available(*, unavailable)
extension AcceptHandler: Sendable {}
