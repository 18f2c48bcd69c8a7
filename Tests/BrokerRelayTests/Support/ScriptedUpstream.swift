import NIOCore
import NIOPosix
import Synchronization

/// A server that writes a script's raw bytes.
///
/// The server records each request in its original bytes.
final class ScriptedUpstream: Sendable {
    /// A request in its original bytes.
    struct Received: Sendable {
        /// The text from the request line to the empty line, without the empty line.
        var head: String
        var body: ByteBuffer
        /// The number of received body bytes; `body` may have fewer.
        var bodySize: Int

        var lines: [String] { head.split(separator: "\r\n").map(String.init) }
        var requestLine: String { lines.first ?? "" }
        /// The request target.
        var target: String { String(requestLine.split(separator: " ").dropFirst().first ?? "") }

        /// The values of a header field.
        ///
        /// Names are compared independent of case.
        func values(_ name: String) -> [String] {
            lines.dropFirst().compactMap { line in
                guard let colon = line.firstIndex(of: ":"), line[..<colon].lowercased() == name.lowercased() else {
                    return nil
                }
                return String(line[line.index(after: colon)...].drop { $0 == " " })
            }
        }

        /// The names of all fields, in lower case, sorted.
        var names: [String] {
            lines.dropFirst().compactMap { $0.split(separator: ":").first?.lowercased() }.sorted()
        }
    }

    private let boundPort = Mutex(0)
    private let tasks = Mutex<[Task<Void, Never>]>([])
    private let log = Mutex<[Received]>([])
    private let closings = Mutex<(closed: Int, opened: Int)>((0, 0))

    var port: Int { boundPort.withLock { $0 } }
    /// The requests so far.
    var received: [Received] { log.withLock { $0 } }
    var opened: Int { closings.withLock(\.opened) }
    var closed: Int { closings.withLock(\.closed) }
    var url: String { "http://127.0.0.1:\(port)" }

    /// Runs `body` against an upstream; `script` serves each connection.
    static func run(
        _ script: @escaping @Sendable (ScriptedConnection) async throws -> Void,
        _ body: (ScriptedUpstream) async throws -> Void
    ) async throws {
        let upstream = ScriptedUpstream()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    // Serve each connection at once. If NIO's channel object is released without having been used, the process
                    // stops with a trap.
                    let connection = try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                    upstream.tasks.withLock { $0.append(Task { await upstream.serve(connection, script) }) }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        upstream.boundPort.withLock { $0 = server.localAddress?.port ?? 0 }
        let result: Result<Void, any Error>
        do { result = .success(try await body(upstream)) } catch { result = .failure(error) }
        try await server.close()
        let tasks = upstream.tasks.withLock { $0 }
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
        try result.get()
    }

    private func serve(
        _ channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>,
        _ script: @Sendable (ScriptedConnection) async throws -> Void
    ) async {
        closings.withLock { $0.opened += 1 }
        try? await channel.executeThenClose { inbound, outbound in
            let connection = ScriptedConnection(
                self, inbound.makeAsyncIterator(), outbound, channel.channel)
            do { try await script(connection) } catch {}
        }
        closings.withLock { $0.closed += 1 }
    }

    func record(_ request: Received) { log.withLock { $0.append(request) } }
}

/// One connection to a scripted upstream.
final class ScriptedConnection {
    private let upstream: ScriptedUpstream
    private var inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator
    private let outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>
    private let channel: any Channel
    private var pending = ByteBuffer()

    init(
        _ upstream: ScriptedUpstream, _ inbound: NIOAsyncChannelInboundStream<ByteBuffer>.AsyncIterator,
        _ outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>, _ channel: any Channel
    ) {
        self.channel = channel
        self.upstream = upstream
        self.inbound = inbound
        self.outbound = outbound
    }

    /// Reads one request and its body; nil when the peer has closed.
    func request() async throws -> ScriptedUpstream.Received? {
        guard var request = try await head() else { return nil }
        if let length = request.values("content-length").first.flatMap(Int.init) {
            while request.bodySize < length {
                if pending.readableBytes == 0 { guard try await fill() else { return nil } }
                take(min(pending.readableBytes, length - request.bodySize), into: &request)
            }
        } else if request.values("transfer-encoding") == ["chunked"] {
            while true {
                guard let size = try await line().flatMap({ Int($0, radix: 16) }) else { return nil }
                if size == 0 { break }
                var left = size
                while left > 0 {
                    if pending.readableBytes == 0 { guard try await fill() else { return nil } }
                    let part = min(left, pending.readableBytes)
                    take(part, into: &request)
                    left -= part
                }
                _ = try await line()
            }
            _ = try await line()
        }
        upstream.record(request)
        return request
    }

    /// Reads one request's head only.
    func head() async throws -> ScriptedUpstream.Received? {
        var lines: [String] = []
        while let line = try await line() {
            if line.isEmpty { return .init(head: lines.joined(separator: "\r\n"), body: ByteBuffer(), bodySize: 0) }
            lines.append(line)
        }
        return nil
    }

    /// Reads and discards this number of bytes.
    func skip(_ count: Int) async throws {
        var left = count
        while left > 0 {
            if pending.readableBytes == 0 { guard try await fill() else { return } }
            let part = min(left, pending.readableBytes)
            pending.moveReaderIndex(forwardBy: part)
            left -= part
            pending.discardReadBytes()
        }
    }

    /// Closes only the sending side of the connection.
    ///
    /// The upstream can still read.
    func closeOutput() async throws { try await channel.close(mode: .output).get() }

    func write(_ text: String) async throws { try await outbound.write(ByteBuffer(string: text)) }
    func write(_ buffer: ByteBuffer) async throws { try await outbound.write(buffer) }

    /// Writes the bytes, and waits until the kernel has them.
    ///
    /// In contrast, `write` returns before the event loop has written.
    func send(_ buffer: ByteBuffer) async throws { try await channel.writeAndFlush(buffer).get() }

    /// Answers with a body of known length.
    func answer(_ status: String = "200 OK", fields: [String] = [], body: String = "ok") async throws {
        let lines = ["HTTP/1.1 \(status)", "Content-Length: \(body.utf8.count)"] + fields
        try await write(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }

    /// Waits until the peer closes.
    func waitForClose() async throws { while try await fill() { pending.clear() } }

    private func take(_ count: Int, into request: inout ScriptedUpstream.Received) {
        guard var slice = pending.readSlice(length: count) else { return }
        request.bodySize += count
        if request.body.readableBytes < 1 << 17 { request.body.writeBuffer(&slice) }
        pending.discardReadBytes()
    }

    private func fill() async throws -> Bool {
        guard var chunk = try await inbound.next() else { return false }
        pending.writeBuffer(&chunk)
        return true
    }

    private func line() async throws -> String? {
        while true {
            if let end = pending.readableBytesView.firstIndex(of: 0x0A) {
                let length = end - pending.readerIndex + 1
                return pending.readString(length: length).map { String($0.dropLast()) }
            }
            guard try await fill() else { return nil }
        }
    }
}
