import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Stands next to the socket, below TLS, and ends the connection as it is told to.
///
/// A connection that is closed above TLS ends in TLS's goodbye, which says that everything was said: a body that was
/// cut would look whole to a client that has nothing else to tell it by (decision 8).
final class SocketEnding: ChannelOutboundHandler {
    typealias OutboundIn = Never

    /// The way to end.
    enum Wanted: Sendable {
        /// At once, by a reset: what is not sent is thrown away, and the peer is told so.
        case reset
        /// By the one that ends it, but without a port that stays taken for a minute.
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
