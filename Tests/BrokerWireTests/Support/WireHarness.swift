import HTTPTypes
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

@testable import BrokerWire

/// A service whose answers come from a closure.
struct TestService: WireService {
    let answer: @Sendable (HTTPRequest, RequestBody, ClientConnection) async -> Answer

    init(_ answer: @escaping @Sendable (HTTPRequest, RequestBody, ClientConnection) async -> Answer) {
        self.answer = answer
    }

    func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer {
        await answer(request, body, connection)
    }

    func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer {
        Answer(.init(code: refusal == .overLimit ? 429 : 400), [])
    }

    func answersWithoutHost(_ target: String) -> Bool { false }

    /// Runs a listener with this service, and passes its port to `body`.
    func run<Value: Sendable>(
        isSecure: Bool = false, limits: ConnectionLimits = ConnectionLimits(), heldBytes: Int? = nil,
        on group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton, _ body: (Int) async throws -> Value
    ) async throws -> Value {
        var configuration = HTTPServer.Configuration()
        let terms = ConnectionTerms(limits, tls: isSecure ? try TestCertificate.served() : nil)
        configuration.terms = { terms }
        configuration.ledger = PeerLedger { address in
            var policy = PeerPolicy(key: PeerPolicy.Key(address))
            policy.heldBytes = heldBytes
            return [policy]
        }
        let server = try await HTTPServer.start(
            self, configuration, on: ListeningSocket(host: "127.0.0.1", port: 0), group: group)
        let result: Result<Value, any Error>
        do { result = .success(try await body(server.port)) } catch { result = .failure(error) }
        await server.drain()
        return try result.get()
    }
}

extension Answer {
    static func text(_ text: String) -> Answer { Answer(.ok, [], body: .whole(ByteBuffer(string: text))) }
}

/// A client that keeps every received byte, and records whether the connection had an orderly end.
final class WireClient: Sendable {
    /// The way in which a connection ended: in order, or broken off.
    ///
    /// TLS and TCP each have their own signs of an orderly end.
    enum End: Sendable, Equatable { case orderly, broken }

    private struct State {
        var bytes = ByteBuffer()
        var isBroken = false
    }

    private final class Handler: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let state = Mutex(State())
        private let pausesAtFirst: Bool

        init(pausesAtFirst: Bool) { self.pausesAtFirst = pausesAtFirst }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var buffer = unwrapInboundIn(data)
            state.withLock { _ = $0.bytes.writeBuffer(&buffer) }
            if pausesAtFirst { try? context.channel.syncOptions?.setOption(.autoRead, value: false) }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            state.withLock { $0.isBroken = true }
            context.close(promise: nil)
        }
    }

    let channel: any Channel
    private let handler: Handler

    private init(_ channel: any Channel, _ handler: Handler) {
        self.channel = channel
        self.handler = handler
    }

    /// Connects to `port`, with TLS if `tls` is given.
    ///
    /// With `pausesAtFirst`, the client reads only the first bytes of an answer.
    static func connect(
        _ port: Int, _ tls: NIOSSLContext? = nil, pausesAtFirst: Bool = false
    ) async throws -> WireClient {
        let handler = Handler(pausesAtFirst: pausesAtFirst)
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: false)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(SocketEnding())
                    if let tls { try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: nil)) }
                    try pipeline.addHandler(handler)
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return WireClient(channel, handler)
    }

    /// Continues to read.
    func read() async throws { try await channel.setOption(.autoRead, value: true).get() }

    func send(_ text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)).get() }

    /// Ends the output.
    func finish() async throws { try await channel.close(mode: .output).get() }

    /// Resets the connection, without TLS's closing message.
    func reset() async throws { try await channel.triggerUserOutboundEvent(SocketEnding.Wanted.reset).get() }

    /// The bytes so far.
    var text: String { handler.state.withLock { String(buffer: $0.bytes) } }
    var count: Int { handler.state.withLock { $0.bytes.readableBytes } }

    /// Waits for the connection's end.
    func ended() async throws -> End {
        try await channel.closeFuture.get()
        return handler.state.withLock { $0.isBroken } ? .broken : .orderly
    }

    /// Waits until `isEnough` accepts the text so far, for at most thirty seconds.
    func received(_ isEnough: (String) -> Bool) async throws -> String {
        for _ in 0..<3000 {
            let text = text
            if isEnough(text) { return text }
            try await Task.sleep(for: .milliseconds(10))
        }
        return text
    }
}

/// The number of times that a mark occurs in a text.
func count(of mark: String, in text: String) -> Int { text.ranges(of: mark).count }
