import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Makes connections to one upstream, with happy eyeballs, the address policy, the proxy and TLS.
struct UpstreamConnector: Sendable {
    /// An error for an upstream address that must not be called (SEC-74).
    private struct AddressRefused: Error {}

    let target: UpstreamTarget

    /// Connects a channel to the upstream's address, or through the proxy with CONNECT.
    ///
    /// The caller sends the request later.
    func open(on eventLoop: any EventLoop, before deadline: NIODeadline) -> EventLoopFuture<any Channel> {
        // If a proxy makes the connection, check a literal address here. The proxy itself resolves a name and decides about its
        // address.
        if target.proxy != nil, let address = target.address, !target.allows(address) {
            return eventLoop.makeFailedFuture(AddressRefused())
        }
        return ClientBootstrap(group: eventLoop)
            .connectTimeout(deadline - .now())
            // Leave reading off until there is a handler to receive the bytes.
            .channelOption(.autoRead, value: false)
            // The default would be four buffers of up to 64 KiB for as long as the connection is open (decision 14).
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

    /// Sets up a connected channel.
    ///
    /// `connection` becomes ready after the TLS handshake, or at once without TLS.
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

    /// Returns the failure for an error that occurred while connecting.
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

/// The connections of one event loop to one upstream.
///
/// The most recently used connection is used first, and surplus ones close after a while. The number of calls limits the open
/// connections, and this type limits the idle ones.
final class UpstreamPool {
    let limits: UpstreamLimits
    let executor: EventLoopExecutor
    private let connector: UpstreamConnector
    private let eventLoop: any EventLoop
    /// The idle connections; the most recently used one is last.
    private var kept: [UpstreamConnectionHandler] = []
    private var open: [ObjectIdentifier: UpstreamConnectionHandler] = [:]
    /// The connections that have served their last call and wait for the upstream to close them.
    private var lingering: Set<ObjectIdentifier> = []
    /// The calls that wait for a new connection, and the number of connections being made.
    private var waiting = CircularBuffer<UpstreamExchange>()
    private var connecting = 0
    private var isShutDown = false

    init(_ connector: UpstreamConnector, _ limits: UpstreamLimits, on eventLoop: any EventLoop) {
        self.connector = connector
        self.limits = limits
        self.eventLoop = eventLoop
        executor = EventLoopExecutor(eventLoop)
    }

    /// Sends a call on a kept connection, or on a new one.
    func begin(_ exchange: UpstreamExchange) {
        if exchange.isOver { return }
        // A call that ends its connection uses a new connection, and leaves the kept connections to other calls.
        if !exchange.request.endsConnection, let connection = kept.popLast() { return connection.begin(exchange) }
        connect(for: exchange)
    }

    /// Sends a call on a new connection.
    func connect(for exchange: UpstreamExchange) {
        if isShutDown { return exchange.finish(.failure(.shutDown)) }
        exchange.connectBy = .now() + .nanoseconds(min(limits.connect.nanoseconds, exchange.request.limit))
        // If a caller has left, the connection that is being made for its call will serve this call. Thus abandoned calls cause
        // no additional connections.
        waiting.removeAll { $0.isOver }
        waiting.append(exchange)
        guard connecting < waiting.count else { return }
        open(before: exchange.connectBy)
    }

    private func open(before deadline: NIODeadline) {
        connecting += 1
        connector.open(on: eventLoop, before: deadline).assumeIsolated().whenComplete { result in
            switch result {
            case .success(let channel): self.configure(channel, before: deadline)
            case .failure(let error): self.connected(.failure(error))
            }
        }
    }

    private func configure(_ channel: any Channel, before deadline: NIODeadline) {
        let connection = UpstreamConnectionHandler(self, channel: channel, readyBy: deadline) { self.connected($0) }
        open[ObjectIdentifier(connection)] = connection
        do { try connector.configure(channel, connection) } catch {
            connection.fail(ready: error)
            forget(connection)
        }
    }

    private func connected(_ result: Result<UpstreamConnectionHandler, any Error>) {
        connecting -= 1
        var exchange = waiting.popFirst()
        while exchange?.isOver == true { exchange = waiting.popFirst() }
        switch result {
        case .success(let connection):
            if isShutDown { connection.close() }
            if let exchange { connection.begin(exchange) } else { release(connection) }
        case .failure(let error):
            guard let exchange else { return }
            let failure = UpstreamConnector.failure(error)
            if case .connectionTimedOut = failure, !isShutDown, exchange.connectBy > .now() {
                // This attempt began for a call that was abandoned, so it timed out before the deadline of the present call. Try
                // again for the present call.
                waiting.prepend(exchange)
                return open(before: exchange.connectBy)
            }
            exchange.finish(.failure(failure))
        }
    }

    /// Notes a connection that the upstream has a moment to close; returns false if too many such connections are open.
    func letLinger(_ connection: UpstreamConnectionHandler) -> Bool {
        guard !isShutDown, lingering.count < limits.lingering else { return false }
        lingering.insert(ObjectIdentifier(connection))
        return true
    }

    /// Keeps an idle connection for another call.
    func release(_ connection: UpstreamConnectionHandler) {
        guard !isShutDown, kept.count < limits.kept else { return connection.close() }
        kept.append(connection)
    }

    /// Removes a closed connection from the pool.
    func forget(_ connection: UpstreamConnectionHandler) {
        lingering.remove(ObjectIdentifier(connection))
        guard open.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        kept.removeAll { $0 === connection }
    }

    /// Closes every connection.
    ///
    /// Calls in progress fail.
    func shutDown() {
        isShutDown = true
        for connection in Array(open.values) { connection.close() }
    }
}

@available(*, unavailable)
extension UpstreamPool: Sendable {}
