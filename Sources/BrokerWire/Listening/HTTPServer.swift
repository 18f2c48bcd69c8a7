package import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
import NIOSSL

/// One listener, which accepts connections, serves their requests, and drains at its end.
package final class HTTPServer: Sendable {
    /// The settings of a listener.
    package struct Configuration: Sendable {
        /// Returns the terms (limits and certificate) of a new connection.
        package var terms: @Sendable () -> ConnectionTerms
        /// The ledger of each address's use of connections; nil means unlimited.
        package var ledger: PeerLedger?
        /// The cap on the open connections of all listeners; nil means unlimited.
        package var cap: ConnectionCap?
        /// The handshakes in progress on all listeners.
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

    /// Begins to accept connections from a socket, which still belongs to the caller.
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
            // The default would be four buffers of up to 64 KiB for as long as the connection is open (decision 14).
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
        // The library has set the backlog to its default of 128.
        socket.restoreBacklog()
        return HTTPServer(channel: channel, quiescing: quiescing, group: group)
    }

    /// The port of the listener.
    package var port: Int { channel.localAddress?.port ?? 0 }

    /// Stops accepting, notifies every connection, and waits until the last one has ended or the task is cancelled.
    ///
    /// Connections that arrive after this call wait in the socket's queue for the next server.
    package func drain() async {
        await stopAccepting()
        let closed = channel.eventLoop.makePromise(of: Void.self)
        quiescing.initiateShutdown(promise: closed)
        await withTaskCancellationHandler {
            try? await closed.futureResult.get()
        } onCancel: {
            // End the wait for the future here, because `get()` ignores cancellation, and a slow client must not delay a
            // shutdown whose time is over.
            closed.succeed(())
        }
    }

    /// Stops accepting, and returns when every accepted connection is set up.
    ///
    /// Call this method before the listening channel closes. At that moment, the library closes accepted connections that are
    /// still on their way to their event loop.
    private func stopAccepting() async {
        try? await channel.setOption(.autoRead, value: false).get()
        for loop in group.makeIterator() { try? await loop.submit {}.get() }
        try? await channel.eventLoop.submit {}.get()
    }

    private static func configure(
        _ channel: any Channel, service: any WireService, terms: ConnectionTerms, _ configuration: Configuration
    ) throws {
        var account: PeerAccount?
        // Check the address before a byte of TLS is read.
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
