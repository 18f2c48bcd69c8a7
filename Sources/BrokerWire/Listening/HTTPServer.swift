package import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
import NIOSSL

/// One listener: accepts connections, serves their requests, and drains at its end.
package final class HTTPServer: Sendable {
    /// The settings of a listener.
    package struct Configuration: Sendable {
        /// Returns the terms of a new connection.
        package var terms: @Sendable () -> ConnectionTerms
        /// The ledger of what the connections of one address take; nil for no bound.
        package var ledger: PeerLedger?
        /// The cap on what all listeners have open together; nil for no bound.
        package var cap: ConnectionCap?
        /// The room in which the handshakes of all listeners are counted.
        package var handshakes = HandshakeRoom()

        package init() {
            let terms = ConnectionTerms()
            self.terms = { terms }
        }
    }

    private let channel: any Channel
    private let quiescing: ServerQuiescingHelper
    private let group: any EventLoopGroup

    private init(channel: any Channel, quiescing: ServerQuiescingHelper, group: any EventLoopGroup) {
        self.channel = channel
        self.quiescing = quiescing
        self.group = group
    }

    /// Begins to accept what comes to a socket, which stays the caller's.
    package static func start(
        _ service: any WireService, _ configuration: Configuration, on socket: ListeningSocket,
        group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) async throws -> HTTPServer {
        let quiescing = ServerQuiescingHelper(group: group)
        let channel = try await ServerBootstrap(group: group)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        quiescing.makeServerChannelHandler(channel: channel))
                    try channel.pipeline.syncOperations.addHandler(AcceptHandler(cap: configuration.cap))
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            // Four buffers of up to 64 KiB otherwise, for as long as the connection is kept (decision 14).
            .childChannelOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: 16_384)
            )
            .childChannelOption(.maxMessagesPerRead, value: 2)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try Self.configure(
                        channel, service: service, terms: configuration.terms(), configuration)
                }
            }
            .withBoundSocket(try socket.duplicate()).get()
        // Taking it over has set it to the library's 128.
        socket.restoreBacklog()
        return HTTPServer(channel: channel, quiescing: quiescing, group: group)
    }

    /// The port that is listened on.
    package var port: Int { channel.localAddress?.port ?? 0 }

    /// Stops accepting, tells every connection so, and waits until the last of them has ended or its task is
    /// cancelled.
    ///
    /// Connections that come in from here on wait in the socket's queue for the next who accepts from it.
    package func drain() async {
        await stopAccepting()
        let closed = channel.eventLoop.makePromise(of: Void.self)
        quiescing.initiateShutdown(promise: closed)
        await withTaskCancellationHandler {
            try? await closed.futureResult.get()
        } onCancel: {
            // A future's wait does not end by itself then, and a slow client must not hold up a shutdown that is over.
            closed.succeed(())
        }
    }

    /// Accepts nothing more, and returns when every connection that was accepted is set up: the library closes one that
    /// is still on its way between two event loops when the listening channel closes.
    private func stopAccepting() async {
        try? await channel.setOption(.autoRead, value: false).get()
        for loop in group.makeIterator() { try? await loop.submit {}.get() }
        try? await channel.eventLoop.submit {}.get()
    }

    private static func configure(
        _ channel: any Channel, service: any WireService, terms: ConnectionTerms, _ configuration: Configuration
    ) throws {
        var account: PeerAccount?
        // Before a byte of TLS is read.
        if let ledger = configuration.ledger, let address = channel.remoteAddress.flatMap({ PeerAddress($0) }) {
            guard let opened = ledger.open(address) else { throw ChannelError.eof }
            account = opened
            channel.closeFuture.whenComplete { _ in ledger.close(opened) }
        }
        var decoder = NIOHTTPDecoderLimitConfiguration()
        decoder.maxHeaderFieldSize = terms.limits.headerField
        decoder.maxHeaderListSize = terms.limits.headers
        decoder.maxHeaderFieldCount = terms.limits.headerFields
        let connection = ClientConnection(
            remoteAddress: channel.remoteAddress, localAddress: channel.localAddress, account: account,
            eventLoop: channel.eventLoop)
        let handler = ServerConnectionHandler(
            service: service, channel: channel, connection: connection, account: account,
            times: terms.times(of: connection.peer),
            droppedBody: terms.limits.droppedBody, isSecure: terms.tls != nil)
        let input = InboundBuffer(handler)
        handler.reads(input)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(SocketEnding())
        if let tls = terms.tls {
            try pipeline.addHandler(NIOSSLServerHandler(context: tls.context))
            try pipeline.addHandler(HandshakeGuard(configuration.handshakes))
        }
        try pipeline.addHandler(input)
        try pipeline.addHandler(
            ByteToMessageHandler(
                HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: decoder),
                maximumBufferSize: 64 * 1024))
        try pipeline.addHandler(handler)
    }
}
