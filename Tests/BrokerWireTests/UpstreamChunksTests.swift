import NIOCore
import NIOHTTP1
import NIOPosix
import Testing

@testable import BrokerWire

/// Chunked answers of upstreams: the number of pieces that the relay gets, and the ends of the answers.
@Suite("Chunks of upstreams (SEC-79, SEC-105)", .timeLimit(.minutes(1)))
struct UpstreamChunksTests {
    /// Answers each request with the parts of one answer.
    ///
    /// Each part is sent after the part before has been written.
    private final class Answering: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let parts: [String]

        init(_ parts: [String]) { self.parts = parts }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard String(buffer: unwrapInboundIn(data)).hasSuffix("\r\n\r\n") else { return }
            send(parts[...], context)
        }

        private func send(_ parts: ArraySlice<String>, _ context: ChannelHandlerContext) {
            guard let part = parts.first else { return }
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: part))).whenSuccess {
                bound.value.0.send(parts.dropFirst(), bound.value.1)
            }
        }
    }

    /// Runs an upstream whose answer consists of `parts`, and calls `body` with a client for it.
    private static func run<Value: Sendable>(
        _ parts: [String], _ body: (UpstreamClient) async throws -> Value
    ) async throws -> Value {
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answering(parts))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let target = UpstreamTarget(host: "127.0.0.1", port: server.localAddress?.port ?? 0) { _ in true }
        let client = UpstreamClient(target, UpstreamLimits(), on: MultiThreadedEventLoopGroup.singleton)
        let result: Result<Value, any Error>
        do { result = .success(try await body(client)) } catch { result = .failure(error) }
        await client.shutDown()
        try await server.close()
        return try result.get()
    }

    private static func ask(_ client: UpstreamClient, _ method: HTTPMethod = .GET) async throws -> UpstreamResponse {
        try await client.send(UpstreamRequest(method, "/x", ["Host": "a"], within: .seconds(20)))
    }

    private static let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    @Test("An upstream's answer has 11,000 chunks of one byte → at most 100 pieces, in at most 64 KiB of memory")
    func small() async throws {
        let answer = Self.head + String(repeating: "1\r\nx\r\n", count: 11_000) + "0\r\n\r\n"
        try await Self.run([answer]) { client in
            let response = try await Self.ask(client)
            var (pieces, bytes, memory) = (0, 0, 0)
            while let piece = try await response.next() {
                pieces += 1
                bytes += piece.readableBytes
                memory += piece.storageCapacity
            }
            #expect(bytes == 11_000)
            #expect(pieces <= 100, "\(pieces) pieces")
            #expect(memory <= 64 * 1024, "\(memory) bytes are held")
        }
    }

    @Test(
        "20,000 one-byte pieces of an upstream's answer wait for their reader → they are merged into at most four pieces"
    )
    func waiting() {
        let exchange = UpstreamExchange(UpstreamRequest(.GET, "/x", [:], within: .seconds(1)))
        var memory = 0
        for number in 0..<20_000 {
            // The piece has one byte in a buffer of 16 KiB, like a short read from a socket.
            var piece = ByteBufferAllocator().buffer(capacity: 16_384)
            piece.writeInteger(UInt8(truncatingIfNeeded: number))
            #expect(exchange.receive(piece))
        }
        var bytes: [UInt8] = []
        var pieces = 0
        while case .success(let piece?) = exchange.take() {
            pieces += 1
            memory += piece.storageCapacity
            bytes += piece.readableBytesView
        }
        #expect(bytes == (0..<20_000).map { UInt8(truncatingIfNeeded: $0) })
        #expect(pieces <= 4, "\(pieces) pieces")
        #expect(memory <= 64 * 1024, "\(memory) bytes are held")
    }

    @Test(
        "An upstream's chunked answer comes in two parts, split at any byte → the body is the same, and the connection is kept"
    )
    func cuts() async throws {
        let text =
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + Self.head
            + "1\r\na\r\n4;x=\"y\"\r\n\r\n\r\n\r\n0\r\nTrailer: x\r\n\r\n"
        let bytes = Array(text.utf8)
        for cut in stride(from: 1, to: bytes.count, by: 2) {
            let parts = [
                String(decoding: bytes[..<cut], as: UTF8.self), String(decoding: bytes[cut...], as: UTF8.self),
            ]
            try await Self.run(parts) { client in
                for _ in 0..<2 {
                    let body = try await Self.ask(client).collect(upTo: 100)
                    #expect(String(buffer: body) == "a\r\n\r\n", "cut at \(cut)")
                }
            }
        }
    }

    @Test(
        "An upstream's chunked coding is malformed → the answer is invalid (SEC-79)",
        arguments: [
            "zz\r\n", "2\n{}\r\n0\r\n\r\n", "2\r\n{}x\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\n\n", "2\r\n{}\r\n0 \r\n\r\n",
        ])
    func refusals(body: String) async throws {
        try await Self.run([Self.head + body]) { client in
            await #expect(throws: UpstreamFailure.self) { _ = try await Self.ask(client).collect(upTo: 100) }
            return
        }
    }

    @Test("An upstream's answer to HEAD has Transfer-Encoding → the answer has no body")
    func head() async throws {
        try await Self.run([Self.head]) { client in
            let response = try await Self.ask(client, .HEAD)
            #expect(try await response.collect(upTo: 0).readableBytes == 0)
        }
    }
}
