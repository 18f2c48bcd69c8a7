import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// The HTTP/1 channel of the broker (engineering note 1): a bounded decoder, framing rules, and the request loop.
struct BrokerChannel: ServerChildChannel {
    /// A connection with what is known of it.
    struct Value: ServerChildChannelValue {
        let channel: any Channel
        let connection: ClientConnection
    }

    private let responder: BrokerResponder
    private let limits: ChannelLimits
    private let counter: ConnectionCounter
    private let problems: FramingProblems

    /// Creates a channel; `problems` makes the answers to requests that never become one.
    init(
        responder: BrokerResponder, limits: ChannelLimits, counter: ConnectionCounter, problems: FramingProblems
    ) {
        self.responder = responder
        self.limits = limits
        self.counter = counter
        self.problems = problems
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
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
            // Four buffers of up to 64 KiB otherwise, for as long as the connection is kept (decision 14).
            try channel.syncOptions?.setOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: 16_384))
            try channel.syncOptions?.setOption(.maxMessagesPerRead, value: 2)
            let pipeline = channel.pipeline.syncOperations
            // Header values are checked when they are made (HTTPTypes), so the encoder need not do it again.
            try pipeline.configureHTTPServerPipeline(
                withPipeliningAssistance: false, withErrorHandling: false, withOutboundHeaderValidation: false,
                withEncoderConfiguration: .init(), withDecoderLimitConfiguration: decoder)
            try pipeline.addHandler(
                FramingHandler(linger: limits.linger) { [problems, connection] code in problems.answer(code, connection)
                })
            try pipeline.addHandler(
                RequestLoop(
                    responder: responder, channel: channel, connection: connection, idle: TimeAmount(limits.idle),
                    writeDeadline: limits.write))
            return Value(channel: channel, connection: connection)
        }
    }

    /// Waits for the connection's end: its requests are served by the loop in its pipeline.
    func handle(value: Value, logger: Logger) async {
        await withTaskCancellationHandler {
            try? await value.channel.closeFuture.get()
        } onCancel: {
            value.connection.cancel()
            value.channel.close(promise: nil)
        }
    }
}
