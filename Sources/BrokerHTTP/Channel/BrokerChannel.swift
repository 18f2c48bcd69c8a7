package import HummingbirdCore
package import Logging
package import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1

/// Is the HTTP/1 channel of the broker (engineering note 1): a bounded decoder, the framing door, the deadlines, and
/// Hummingbird's request loop behind them.
package struct BrokerChannel: HTTPChannelHandler {
    /// Is a connection with what is known of it.
    package struct Value: ServerChildChannelValue {
        let parts: NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>
        let connection: ClientConnection

        package var channel: any Channel { parts.channel }
    }

    package let responder: Responder
    private let limits: ChannelLimits
    private let counter: ConnectionCounter
    private let door: DoorProblems

    /// Creates a channel; `door` makes the answers to requests that never become one.
    package init(
        responder: @escaping Responder, limits: ChannelLimits, counter: ConnectionCounter, door: DoorProblems
    ) {
        self.responder = responder
        self.limits = limits
        self.counter = counter
        self.door = door
    }

    /// Returns what an `Application` takes as its server.
    package static func builder(
        limits: ChannelLimits, counter: ConnectionCounter, door: DoorProblems
    ) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            BrokerChannel(responder: responder, limits: limits, counter: counter, door: door)
        }
    }

    package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let connection = ClientConnection(remoteAddress: channel.remoteAddress)
        if let peer = connection.peer {
            guard counter.opened(peer) else {
                channel.close(promise: nil)
                return channel.eventLoop.makeFailedFuture(ChannelError.eof)
            }
            channel.closeFuture.whenComplete { [counter] _ in counter.closed(peer) }
        }
        return channel.eventLoop.makeCompletedFuture {
            var decoder = NIOHTTPDecoderLimitConfiguration()
            decoder.maxHeaderFieldSize = limits.headerField
            decoder.maxHeaderListSize = limits.headers
            decoder.maxHeaderFieldCount = limits.headerFields
            let pipeline = channel.pipeline.syncOperations
            // Header values are checked when they are made (HTTPTypes), so the encoder need not do it again.
            try pipeline.configureHTTPServerPipeline(
                withPipeliningAssistance: false, withErrorHandling: false, withOutboundHeaderValidation: false,
                withEncoderConfiguration: .init(), withDecoderLimitConfiguration: decoder)
            try pipeline.addHandler(
                FramingDoor(linger: limits.linger) { [door, connection] code in door.answer(code, connection) })
            try pipeline.addHandler(HTTP1ToHTTPServerCodec(secure: false))
            try pipeline.addHandler(ConnectionWatchHandler(connection, writeDeadline: limits.write))
            try pipeline.addHandler(HTTPConnectionStateHandler(idleTimeout: limits.idle, logger: logger))
            let parts = try NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>(
                wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
            return Value(parts: parts, connection: connection)
        }
    }

    package func handle(value: Value, logger: Logger) async {
        let task = Task(executorPreference: EventLoopExecutor(value.channel.eventLoop)) {
            await ClientConnection.$current.withValue(value.connection) {
                await handleHTTP(asyncChannel: value.parts, logger: logger)
            }
        }
        value.connection.serve { task.cancel() }
        await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        value.connection.served()
    }
}
