import NIOCore
import NIOHTTPTypes

/// Watches a connection from behind the codec: tells its `ClientConnection` that the client hung up or that the server
/// shuts down, and closes it when the client does not read what it asked for (SEC-105).
///
/// It stands before Hummingbird's state handler, which does not pass `channelInactive` on (engineering note 3).
final class ConnectionWatchHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart

    private let connection: ClientConnection
    private let writeDeadline: TimeAmount
    private var writeTimer: Scheduled<Void>?

    init(_ connection: ClientConnection, writeDeadline: TimeAmount) {
        self.connection = connection
        self.writeDeadline = writeDeadline
    }

    func channelInactive(context: ChannelHandlerContext) {
        connection.clientGone()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? ChannelEvent, event == .inputClosed { connection.clientGone() }
        if event is ChannelShouldQuiesceEvent { connection.quiesce() }
        context.fireUserInboundEventTriggered(event)
    }

    /// What waits to be sent has to shrink below the low-water mark in time. Less than that waits for the idle time-out.
    func channelWritabilityChanged(context: ChannelHandlerContext) {
        writeTimer?.cancel()
        writeTimer = nil
        if !context.channel.isWritable {
            writeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: writeDeadline) {
                context.close(promise: nil)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        writeTimer?.cancel()
        writeTimer = nil
    }
}

@available(*, unavailable)
extension ConnectionWatchHandler: Sendable {}
