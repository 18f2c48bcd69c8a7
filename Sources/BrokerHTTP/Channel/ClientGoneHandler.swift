import NIOCore
import NIOHTTPTypes

/// Tells a `ClientConnection` that its client hung up or that the server shuts down.
///
/// It stands before Hummingbird's state handler, which does not pass `channelInactive` on (engineering note 3).
final class ClientGoneHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart

    private let connection: ClientConnection

    init(_ connection: ClientConnection) { self.connection = connection }

    func channelInactive(context: ChannelHandlerContext) {
        connection.clientGone()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? ChannelEvent, event == .inputClosed { connection.clientGone() }
        if event is ChannelShouldQuiesceEvent { connection.quiesce() }
        context.fireUserInboundEventTriggered(event)
    }
}

@available(*, unavailable)
extension ClientGoneHandler: Sendable {}
