import NIOCore
import NIOPosix
import Synchronization

/// A client that sends any bytes, well formed or malformed.
struct RawClient: Sendable {
    let port: Int

    struct Timeout: Error {}

    /// Sends the bytes, and returns the server's bytes until the server closes the connection.
    ///
    /// Throws `Timeout` if the server keeps the connection open.
    func exchange(_ text: String, within limit: Duration = .seconds(30)) async throws -> String {
        try await exchange(pieces: [text], within: limit)
    }

    /// Sends pieces one after the other.
    ///
    /// Returns the server's bytes until the server closes.
    func exchange(pieces: [String], within limit: Duration = .seconds(30)) async throws -> String {
        try await withThrowingTaskGroup(of: String.self) { group in
            group.addTask { try await converse(pieces) }
            group.addTask {
                try await Task.sleep(for: limit)
                throw Timeout()
            }
            defer { group.cancelAll() }
            return try await group.next() ?? ""
        }
    }

    /// Sends the bytes, and returns the answer as soon as `isEnough` accepts it.
    ///
    /// The client then closes the connection.
    func answer(
        to text: String, within limit: Duration = .seconds(30), isEnough: @escaping @Sendable (String) -> Bool
    ) async throws -> String {
        try await withThrowingTaskGroup(of: String.self) { group in
            group.addTask { try await converse([text], isEnough: isEnough) }
            group.addTask {
                try await Task.sleep(for: limit)
                throw Timeout()
            }
            defer { group.cancelAll() }
            return try await group.next() ?? ""
        }
    }

    /// Sends the text, and then a further byte after each pause.
    ///
    /// Returns the server's bytes until the server closes the connection.
    func trickle(_ text: String, every pause: Duration, within limit: Duration = .seconds(30)) async throws -> String {
        try await withThrowingTaskGroup(of: String.self) { group in
            group.addTask {
                try await converse(
                    [text],
                    meanwhile: { outbound in
                        while true {
                            try await outbound.write(ByteBuffer(string: "x"))
                            try await Task.sleep(for: pause)
                        }
                    })
            }
            group.addTask {
                try await Task.sleep(for: limit)
                throw Timeout()
            }
            defer { group.cancelAll() }
            return try await group.next() ?? ""
        }
    }

    /// Sends the bytes and does not read while `meanwhile` runs.
    ///
    /// Returns the number of bytes that arrive afterwards, until the server closes.
    func received(after text: String, meanwhile: @Sendable () async throws -> Void) async throws -> Int {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .connect(host: "127.0.0.1", port: port).get()
        let count = ByteCount()
        try await channel.pipeline.addHandler(count).get()
        try await channel.writeAndFlush(ByteBuffer(string: text)).get()
        try await meanwhile()
        // The server may have closed the connection meanwhile.
        try? await channel.setOption(.autoRead, value: true).get()
        try? await channel.closeFuture.get()
        return count.total.withLock { $0 }
    }

    private func converse(
        _ pieces: [String], isEnough: @escaping @Sendable (String) -> Bool = { _ in false },
        meanwhile: @escaping @Sendable (NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> Void = { _ in }
    ) async throws -> String {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            for piece in pieces { try? await outbound.write(ByteBuffer(string: piece)) }
            // The closure `meanwhile` ends when one of its writes fails because the connection has closed.
            async let others: Void = meanwhile(outbound)
            var answer = ""
            do {
                for try await buffer in inbound {
                    answer += String(buffer: buffer)
                    if isEnough(answer) { break }
                }
            } catch is IOError {
                // The server closed the connection before it had read all bytes. So the connection was reset after the answer.
            }
            _ = try? await others
            return answer
        }
    }
}

/// Counts the bytes that come in.
private final class ByteCount: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    let total = Mutex(0)

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let count = unwrapInboundIn(data).readableBytes
        total.withLock { $0 += count }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// The number of responses in a text.
func responses(in text: String) -> Int {
    count(of: "HTTP/1.1 ", in: text) + count(of: "HTTP/1.0 ", in: text)
}

/// The number of times that a mark occurs in a text.
func count(of mark: String, in text: String) -> Int { text.components(separated: mark) }

extension String {
    fileprivate func components(separated mark: String) -> Int {
        var count = 0
        var rest = self[...]
        while let range = rest.firstRange(of: mark) {
            count += 1
            rest = rest[range.upperBound...]
        }
        return count
    }
}
