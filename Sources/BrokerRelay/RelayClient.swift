import AsyncHTTPClient
import Broker
import NIOCore
import NIOHTTP1
import NIOSSL

/// The connections to one upstream: a client and a pool of its own, so that one upstream's trouble, timeouts and
/// address policy are nobody else's.
///
/// It follows no redirect, decodes no body and remembers no credential (SEC-61). Its connections close with the last
/// call that holds it.
final class RelayClient: Sendable {
    /// An error thrown when the address behind the upstream's name is not one we call (SEC-74).
    struct AddressRefused: Error {}

    /// A client and its pool for each event loop: a call stays on the loop of the connection it came on, without a
    /// hand-over between threads at every turn (decision 10).
    private let clients: [ObjectIdentifier: HTTPClient]
    private let anywhere: HTTPClient

    init(_ outbound: RelayOutbound, policy: AddressPolicy) {
        // A proxy is for what lies outside.
        let proxy = policy == .loopbackOnly ? nil : outbound.proxy
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: outbound.tls ?? Self.defaultTLS(), redirectConfiguration: .disallow,
            timeout: .init(connect: .init(outbound.connectTimeout), read: .init(outbound.readTimeout)),
            connectionPool: .init(idleTimeout: .seconds(30), concurrentHTTP1ConnectionsPerHostSoftLimit: 1024),
            proxy: proxy, decompression: .disabled)
        configuration.httpVersion = .http1Only
        // A span for each call, which nobody would read.
        configuration.tracing.tracer = nil
        // A refused or failed connection is told at once instead of being tried until the deadline.
        configuration.connectionPool.retryConnectionEstablishment = false
        let checked = proxy == nil ? policy : .any
        configuration.http1_1ConnectionDebugInitializer = { channel in
            guard checked.allows(channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }) else {
                let refused = channel.eventLoop.makePromise(of: Void.self)
                channel.close(mode: .all).whenComplete { _ in refused.fail(AddressRefused()) }
                return refused.futureResult
            }
            return Self.prepare(channel, patience: .init(outbound.readTimeout))
        }
        let group = outbound.eventLoopGroup ?? HTTPClient.defaultEventLoopGroup
        anywhere = HTTPClient(eventLoopGroupProvider: .shared(group), configuration: configuration)
        clients = group.makeIterator().reduce(into: [:]) { clients, loop in
            clients[ObjectIdentifier(loop)] = HTTPClient(
                eventLoopGroupProvider: .shared(loop), configuration: configuration)
        }
    }

    deinit {
        let clients = [anywhere] + clients.values
        Task.detached { for client in clients { try? await client.shutdown() } }
    }

    private static func prepare(_ channel: any Channel, patience: TimeAmount) -> EventLoopFuture<Void> {
        channel.eventLoop.submit {
            // Four buffers of up to 64 KiB otherwise, for as long as the connection is pooled (decision 14).
            try channel.syncOptions?.setOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: 16_384))
            try channel.syncOptions?.setOption(.maxMessagesPerRead, value: 2)
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
            try pipeline.addHandler(EarlyAnswer(patience: patience), position: .after(decoder))
        }
    }

    private static func defaultTLS() -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        return configuration
    }

    /// Returns the loop that a call lives on which came on `loop`.
    func eventLoop(near loop: (any EventLoop)?) -> any EventLoop { client(on: loop).eventLoopGroup.any() }

    private func client(on loop: (any EventLoop)?) -> HTTPClient {
        loop.flatMap { clients[ObjectIdentifier($0)] } ?? anywhere
    }

    /// Sends a request whose body, if any, is at hand, and returns the response once its head is there.
    ///
    /// An idempotent one is sent again when a pooled connection turned out to be closed before any answer.
    func execute(
        _ request: HTTPClient.Request, on loop: (any EventLoop)?, isIdempotent: Bool, within timeout: Duration
    ) async throws(BrokerProblem) -> UpstreamResponse {
        let client = client(on: loop)
        let deadline = NIODeadline.now() + .init(timeout)
        do {
            return try await Self.begin(request, with: client, before: deadline)
        } catch {
            guard isIdempotent, Self.isLostConnection(error), !Task.isCancelled else { throw Self.problem(error) }
        }
        do { return try await Self.begin(request, with: client, before: deadline) } catch { throw Self.problem(error) }
    }

    private static func begin(
        _ request: HTTPClient.Request, with client: HTTPClient, before deadline: NIODeadline?, gate: BodyGate? = nil
    ) async throws -> UpstreamResponse {
        let exchange = UpstreamExchange(gate)
        let head = try await exchange.begin(request, with: client, before: deadline)
        return UpstreamResponse(head, exchange)
    }

    /// Sends a request with a streamed body.
    ///
    /// The time counts from when the upstream last took a piece of it.
    func executeStreaming(
        _ request: HTTPClient.Request, on loop: (any EventLoop)?, gate: BodyGate, within timeout: Duration
    ) async throws(BrokerProblem) -> UpstreamResponse {
        let client = client(on: loop)
        do {
            return try await withThrowingTaskGroup(of: UpstreamResponse?.self) { group in
                group.addTask { try await Self.begin(request, with: client, before: nil, gate: gate) }
                group.addTask {
                    try await gate.watch(timeout)
                    return nil
                }
                defer { group.cancelAll() }
                guard case .some(.some(let response)) = try await group.next() else { throw BodyGate.Stalled() }
                return response
            }
        } catch {
            await gate.close()
            throw Self.problem(error)
        }
    }

    /// Closes every connection; calls under way fail.
    func shutdown() async {
        for client in [anywhere] + clients.values { try? await client.shutdown() }
    }

    /// Says whether the connection went away before an answer, as one from the pool can at any moment.
    private static func isLostConnection(_ error: any Error) -> Bool {
        switch error {
        case let error as HTTPClientError: error == .remoteConnectionClosed
        case is ChannelError, is IOError: true
        default: false
        }
    }

    /// Names a failure.
    ///
    /// The error itself is never printed: some of the client's hold field values, and so the token.
    static func problem(_ error: any Error) -> BrokerProblem {
        switch error {
        case let problem as BrokerProblem: return problem
        case is AddressRefused:
            return BrokerProblem(.upstreamError, privateDetail: "the upstream's address is not public")
        case is BodyGate.Stalled: return BrokerProblem(.upstreamTimeout, privateDetail: "no progress and no head")
        case is CancellationError: return BrokerProblem(.upstreamError, privateDetail: "the caller went away")
        case let error as HTTPClientError:
            switch error {
            case .deadlineExceeded, .readTimeout, .writeTimeout, .connectTimeout, .tlsHandshakeTimeout,
                .getConnectionFromPoolTimeout, .httpProxyHandshakeTimeout, .socksHandshakeTimeout:
                return BrokerProblem(.upstreamTimeout, privateDetail: error.shortDescription)
            default: return BrokerProblem(.upstreamError, privateDetail: error.shortDescription)
            }
        default: return BrokerProblem(.upstreamError, privateDetail: String(describing: type(of: error)))
        }
    }
}
