import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
import NIOSSL

/// How connections to one upstream are made: addresses in a happy race, the address policy, the proxy, TLS.
struct UpstreamConnector: Sendable {
    /// An error thrown when the upstream's address is not one that is called (SEC-74).
    private struct AddressRefused: Error {}

    let target: UpstreamTarget

    /// Connects a channel that leads to the upstream and to no other address; nothing was sent to it yet.
    func open(on eventLoop: any EventLoop, before deadline: NIODeadline) -> EventLoopFuture<any Channel> {
        // The proxy connects for us: a literal address is checked here, a name is the proxy's to resolve and to refuse.
        if target.proxy != nil, let address = target.address, !target.allows(address) {
            return eventLoop.makeFailedFuture(AddressRefused())
        }
        return ClientBootstrap(group: eventLoop)
            .connectTimeout(deadline - .now())
            // Nothing is read, and none of it lost, before somebody is there to read it.
            .channelOption(.autoRead, value: false)
            // Four buffers of up to 64 KiB otherwise, for as long as the connection is kept (decision 14).
            .channelOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: 16_384)
            )
            .channelOption(.maxMessagesPerRead, value: 2)
            .connect(host: target.proxy?.host ?? target.host, port: target.proxy?.port ?? target.port)
            .flatMap { channel in
                if let proxy = target.proxy { return tunnel(channel, through: proxy, before: deadline) }
                guard target.allows(channel.remoteAddress) else {
                    channel.close(promise: nil)
                    return channel.eventLoop.makeFailedFuture(AddressRefused())
                }
                return channel.eventLoop.makeSucceededFuture(channel)
            }
    }

    private func tunnel(
        _ channel: any Channel, through proxy: UpstreamTarget.Proxy, before deadline: NIODeadline
    ) -> EventLoopFuture<any Channel> {
        let established = channel.eventLoop.makePromise(of: Void.self)
        let host = target.host.contains(":") ? "[\(target.host)]" : target.host
        var headers = HTTPHeaders([("Host", "\(host):\(target.port)")])
        if let credentials = proxy.credentials { headers.add(name: "Proxy-Authorization", value: credentials) }
        do {
            let pipeline = channel.pipeline.syncOperations
            let (encoder, decoder) = (HTTPRequestEncoder(), ByteToMessageHandler(HTTPResponseDecoder()))
            try pipeline.addHandlers([
                encoder, decoder,
                NIOHTTP1ProxyConnectHandler(
                    targetHost: host, targetPort: target.port, headers: headers, deadline: deadline,
                    promise: established),
            ])
            try channel.syncOptions?.setOption(.autoRead, value: true)
            let loop = channel.eventLoop
            let (boundEncoder, boundDecoder) = (
                NIOLoopBound(encoder, eventLoop: loop), NIOLoopBound(decoder, eventLoop: loop)
            )
            let tunnel = established.futureResult
                .flatMap { channel.pipeline.syncOperations.removeHandler(boundDecoder.value) }
                .flatMap { channel.pipeline.syncOperations.removeHandler(boundEncoder.value) }
                .map { channel }
            tunnel.whenFailure { _ in channel.close(promise: nil) }
            return tunnel
        } catch {
            established.fail(error)
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(error)
        }
    }

    /// Sets a connected channel up; `connection` becomes ready when TLS stands.
    func configure(_ channel: any Channel, _ connection: UpstreamConnectionHandler) throws {
        do {
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(SocketEnding(), position: .first)
            if let tls = target.tls {
                let name = target.address == nil ? target.host : nil
                try pipeline.addHandler(NIOSSLClientHandler(context: tls.get(), serverHostname: name))
            }
            try pipeline.addHandler(
                ByteToMessageHandler(UpstreamDecoder(connection), maximumBufferSize: AnswerLimits.head))
            try pipeline.addHandler(connection)
            try channel.syncOptions?.setOption(.autoRead, value: true)
            if target.tls == nil { connection.becomeReady() }
        } catch {
            channel.close(promise: nil)
            throw error
        }
    }

    /// Names a failure to connect.
    static func failure(_ error: any Error) -> UpstreamFailure {
        switch error {
        case is AddressRefused: .refusedAddress
        case ChannelError.connectTimeout: .connectionTimedOut
        case let error as NIOHTTP1ProxyConnectHandler.Error where error == .httpProxyHandshakeTimeout():
            .connectionTimedOut
        default: .connection(String(describing: type(of: error)))
        }
    }
}
