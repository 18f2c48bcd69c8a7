import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Testing

@testable import BrokerWire

/// The local ports that connections to an upstream occupy after their end.
@Suite("Local ports of connections to upstreams", .timeLimit(.minutes(1)))
struct UpstreamPortTests {
    /// Answers HEAD and sends TLS's closing message.
    private final class Answering: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let answer = ByteBuffer(string: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
            context.close(mode: .output, promise: nil)
        }
    }

    /// A handler below TLS that holds back the FIN after TLS's closing message.
    private final class WithoutFIN: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            if mode == .all { context.close(promise: promise) } else { promise?.succeed(()) }
        }
    }

    @Test(
        "An upstream sends TLS's closing message, and its FIN only after the broker's FIN → no local port stays occupied"
    )
    func goodbye() async throws {
        let served = try TestCertificate.served()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handlers: [any ChannelHandler] = [
                        WithoutFIN(), NIOSSLServerHandler(context: served.context), Answering(),
                    ]
                    try channel.pipeline.syncOperations.addHandlers(handlers)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = server.localAddress?.port ?? 0
        // Another test's listener may have used this port within the last minute, so its closed connections may be listed.
        let before = Set(try Self.connections(to: port).keys)
        func states() throws -> [Substring] {
            try Self.connections(to: port).filter { !before.contains($0.key) }.map(\.value)
        }
        var target = UpstreamTarget(host: "127.0.0.1", port: port) { _ in true }
        target.tls = .success(try TestCertificate.client())
        let client = UpstreamClient(target, UpstreamLimits(), on: MultiThreadedEventLoopGroup.singleton)
        for _ in 0..<10 {
            let request = UpstreamRequest(.HEAD, "/x", ["Host": "a"], within: .seconds(20))
            _ = try await client.send(request).collect(upTo: 100)
        }
        // 06 is TIME_WAIT, which lasts for a minute.
        while try states().contains(where: { $0 != "06" }) { try await Task.sleep(for: .milliseconds(10)) }
        #expect(try states().isEmpty)
        await client.shutDown()
        try await server.close()
    }

    /// Returns the states of the connections to a port, by their local ports.
    private static func connections(to port: Int) throws -> [Substring: Substring] {
        let suffix = ":" + String(port + 0x10000, radix: 16, uppercase: true).dropFirst()
        // Read the table as bytes, because a read as a string ends with the first page.
        let table = try FileHandle(forReadingFrom: URL(filePath: "/proc/net/tcp")).readToEnd() ?? Data()
        var states: [Substring: Substring] = [:]
        for line in String(decoding: table, as: UTF8.self).split(separator: "\n") {
            let columns = line.split(separator: " ")
            if columns.count > 3, columns[2].hasSuffix(suffix) { states[columns[1]] = columns[3] }
        }
        return states
    }
}
