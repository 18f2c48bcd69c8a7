import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The handler next to the socket, below TLS, which resets the connection now or prepares its end.
///
/// A connection that is closed above TLS ends with TLS's close_notify. A client that relies on close_notify would then treat an
/// incomplete body as complete (decision 8).
final class SocketEnding: ChannelOutboundHandler {
    typealias OutboundIn = Never

    /// The way of ending a connection.
    enum Wanted: Sendable {
        /// At once, with a reset.
        ///
        /// Unsent data is discarded, and the peer is notified.
        case reset
        /// Later: the connection stays open, so that the peer can close it first.
        ///
        /// If the broker closes the connection nevertheless, it sends a reset, so no port remains in TIME_WAIT for a minute.
        case withoutTrace
    }

    private static let reset = linger(l_onoff: 1, l_linger: 0)

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard let wanted = event as? Wanted else {
            return context.triggerUserOutboundEvent(event, promise: promise)
        }
        (context.channel as? any SocketOptionProvider)?.unsafeSetSocketOption(
            level: .socket, name: .so_linger, value: Self.reset
        ).whenFailure { _ in }
        switch wanted {
        case .reset: context.close(promise: promise)
        case .withoutTrace: promise?.succeed(())
        }
    }
}

@available(*, unavailable)
extension SocketEnding: Sendable {}
