import Dispatch
import FoundationEssentials
import HTTPTypes
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import Testing

@testable import BrokerWire

/// Properties of a listener's connections that need a real socket.
@Suite("A listener's connections", .timeLimit(.minutes(2)))
struct HTTPServerTests {
    private static func get(_ path: String, _ fields: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
    }

    // MARK: TLS

    @Test(
        "A client offers a single cipher of TLS 1.2 → served if it has forward secrecy and authenticated encryption",
        arguments: [
            ("ECDHE-ECDSA-AES128-SHA", false), ("ECDHE-ECDSA-AES256-SHA", false), ("AES128-SHA", false),
            ("AES256-GCM-SHA384", false), ("ECDHE-ECDSA-AES128-GCM-SHA256", true),
            ("ECDHE-ECDSA-AES256-GCM-SHA384", true), ("ECDHE-ECDSA-CHACHA20-POLY1305", true),
        ])
    func ciphers(suite: String, isServed: Bool) async throws {
        let context = try TestCertificate.client {
            $0.maximumTLSVersion = .tlsv12
            $0.cipherSuites = suite
        }
        try await TestService { _, _, _ in .text("ok") }.run(isSecure: true) { (port) async throws in
            let client = try await WireClient.connect(port, context)
            try? await client.send(Self.get("/", "Connection: close\r\n"))
            #expect(try await client.ended() == (isServed ? .orderly : .broken))
            #expect(client.text.hasSuffix("ok") == isServed)
        }
    }

    @Test("Pipelined requests for bodies of up to 300,000 bytes over TLS → all answers arrive complete and in order")
    func slices() async throws {
        let bodies = [0, 4096, 4097, 16_000, 16_001, 48_000, 300_000].map { count in
            ByteBuffer(bytes: (0..<count).map { UInt8(0x61 + $0 % 23) })
        }
        let service = TestService { request, _, _ in
            let index = Int(request.path?.dropFirst() ?? "") ?? 0
            return Answer(.ok, [], body: .whole(bodies[index]))
        }
        try await service.run(isSecure: true) { (port) async throws in
            let client = try await WireClient.connect(port, TestCertificate.client())
            let order = [6, 0, 5, 1, 4, 2, 3, 6]
            for (place, index) in order.enumerated() {
                try await client.send(Self.get("/\(index)", place == order.count - 1 ? "Connection: close\r\n" : ""))
            }
            #expect(try await client.ended() == .orderly)
            let expected = order.enumerated().map { place, index in
                let close = place == order.count - 1 ? "Connection: close\r\n" : ""
                let body = bodies[index]
                return "HTTP/1.1 200 OK\r\nContent-Length: \(body.readableBytes)\r\n\(close)\r\n" + String(buffer: body)
            }
            #expect(client.text == expected.joined())
        }
    }

    @Test("24 TLS clients do not read a body of 32 MiB → the broker holds only a part for each client (SEC-105)")
    func sliceMemory() async throws {
        let body = ByteBuffer(repeating: 0x78, count: 32 << 20)
        let service = TestService { _, _, _ in Answer(.ok, [], body: .whole(body)) }
        try await service.run(isSecure: true) { (port) async throws in
            let context = try TestCertificate.client()
            let before = try residentBytes()
            var clients: [WireClient] = []
            for _ in 0..<24 {
                let client = try await WireClient.connect(port, context, pausesAtFirst: true)
                try await client.send(Self.get("/"))
                _ = try await client.received { !$0.isEmpty }
                clients.append(client)
            }
            // If the server held the whole answer for each client, it would need 768 megabytes. The limit leaves room for other
            // tests.
            #expect(try residentBytes() - before < 256 << 20)
            for client in clients { try await client.reset() }
        }
    }

    private func residentBytes() throws -> Int {
        let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ").dropFirst()
            .first
        return (pages.flatMap { Int($0) } ?? 0) * 4096
    }

    // MARK: Requests and the end of the input

    @Test("A client sends 60 complete requests, half of another and a FIN → the 60 are answered (RFC 9112 section 9.6)")
    func pipelinedFIN() async throws {
        let served = Mutex(0)
        let service = TestService { request, _, _ in
            served.withLock { $0 += 1 }
            // The first request waits 300 ms, so that all further bytes and the FIN arrive meanwhile.
            try? await Task.sleep(for: .milliseconds(served.withLock { $0 } == 1 ? 300 : 1))
            return .text(request.path ?? "")
        }
        try await service.run { (port) async throws in
            let client = try await WireClient.connect(port)
            let padding = "X-Padding: " + String(repeating: "x", count: 400) + "\r\n"
            let whole = (0..<60).map { Self.get("/\($0)", padding) }.joined()
            // The unfinished request at the end is dropped, and does not delay the complete requests.
            try await client.send(whole + "GET /half HTTP/1.1\r\nHo")
            try await client.finish()
            #expect(try await client.ended() == .orderly)
            #expect(count(of: "HTTP/1.1 200 OK", in: client.text) == 60)
            #expect(count(of: "Connection: close", in: client.text) <= 1)
            #expect(served.withLock { $0 } == 60)
        }
    }

    @Test("60 pipelined requests and a FIN arrive while the first request is being served → all are answered")
    func pipelinedFINAtOnce() async throws {
        let served = Mutex(0)
        let service = TestService { request, _, _ in
            let place = served.withLock { served in
                served += 1
                return served
            }
            // The first request waits 300 ms, so that all further bytes and the FIN arrive meanwhile.
            if place == 1 { try? await Task.sleep(for: .milliseconds(300)) }
            return .text(request.path ?? "")
        }
        try await service.run { (port) async throws in
            let client = try await WireClient.connect(port)
            let padding = "X-Padding: " + String(repeating: "x", count: 400) + "\r\n"
            try await client.send((0..<60).map { Self.get("/\($0)", padding) }.joined())
            try await client.finish()
            #expect(try await client.ended() == .orderly)
            #expect(count(of: "HTTP/1.1 200 OK", in: client.text) == 60)
            #expect(served.withLock { $0 } == 60)
        }
    }

    @Test(
        "A client ends its side after an upload, and the service reads slowly → the service still gets the whole body")
    func slowUploadFIN() async throws {
        let service = TestService { _, body, _ in
            try? await Task.sleep(for: .milliseconds(500))
            do {
                var count = 0
                for try await piece in body {
                    count += piece.readableBytes
                    try await Task.sleep(for: .milliseconds(5))
                }
                return .text("took \(count)")
            } catch {
                return .text("\(error)")
            }
        }
        try await service.run { (port) async throws in
            let client = try await WireClient.connect(port)
            let body = String(repeating: "x", count: 400_000)
            try await client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n" + body)
            try await client.finish()
            #expect(try await client.ended() == .orderly)
            #expect(client.text.hasSuffix("took 400000"))
        }
    }

    @Test("A client pipelines 500 requests → after at most 64 of them, the event loop does other work (SEC-105)")
    func turns() async throws {
        let served = Mutex(0)
        let servedBefore = Mutex<Int?>(nil)
        let service = TestService { _, _, connection in
            // At the first request, schedule other work on the event loop.
            if served.withLock({ count in
                count += 1
                return count == 1
            }) {
                connection.eventLoop.scheduleTask(in: .zero) {
                    servedBefore.withLock { $0 = served.withLock { $0 } }
                }
            }
            return .text("ok")
        }
        try await service.run { (port) async throws in
            let client = try await WireClient.connect(port)
            try await client.send(String(repeating: Self.get("/"), count: 500))
            _ = try await client.received { count(of: "HTTP/1.1 200", in: $0) == 500 }
        }
        let before = try #require(servedBefore.withLock { $0 })
        #expect(before <= 64, "\(before) requests were served in one turn")
    }

    @Test(
        "A client closes its side within a request body → the service gets `incomplete`; a chunk is malformed → `malformed`"
    )
    func brokenBody() async throws {
        let service = TestService { _, body, _ in
            do throws(BodyFault) {
                return .text("took \(try await body.collect(upTo: 100, within: .seconds(30)).count)")
            } catch {
                return .text("\(error)")
            }
        }
        try await service.run { (port) async throws in
            for (body, expected) in [
                ("Content-Length: 10\r\n\r\nabc", "incomplete"),
                ("Transfer-Encoding: chunked\r\n\r\n3\r\nab", "incomplete"),
                ("Transfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed"), ("Content-Length: 3\r\n\r\nabc", "took 3"),
            ] {
                let client = try await WireClient.connect(port)
                try await client.send("POST / HTTP/1.1\r\nHost: a\r\n" + body)
                // After a malformed body, the server may already have answered and closed.
                try? await client.finish()
                #expect(try await client.ended() == .orderly)
                #expect(client.text.hasSuffix("\r\n\r\n" + expected), "\(body)")
            }
        }
    }

    // MARK: Charges to the address

    @Test(
        "A client may hold 16 KiB, and sends 50 requests of 6 KB in turn → all are answered, as each answer frees bytes (SEC-105)"
    )
    func answeredBytes() async throws {
        try await TestService { _, _, _ in .text("ok") }.run(heldBytes: 16 * 1024) { (port) async throws in
            let client = try await WireClient.connect(port)
            let padding = "X-Padding: " + String(repeating: "x", count: 6000) + "\r\n"
            for number in 1...50 {
                try await client.send(Self.get("/", padding))
                let text = try await client.received { count(of: "HTTP/1.1 ", in: $0) == number }
                #expect(count(of: "HTTP/1.1 200", in: text) == number)
            }
            try await client.channel.close().get()
        }
    }

    @Test(
        "A large body with a session is served, and then one without a session comes on this connection → refused (SEC-105)"
    )
    func sessionOfOneRequest() async throws {
        let service = TestService { request, body, connection in
            if request.path == "/session" { connection.carriesSession() }
            do throws(BodyFault) {
                return .text("took \(try await body.collect(upTo: 1 << 20, within: .seconds(60)).count)")
            } catch {
                return .text("\(error)")
            }
        }
        try await service.run(heldBytes: 64 * 1024) { (port) async throws in
            let client = try await WireClient.connect(port)
            let body = String(repeating: "x", count: 600_000)
            let fields = "Host: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
            try await client.send("POST /session HTTP/1.1\r\n\(fields)" + body)
            _ = try await client.received { $0.hasSuffix("took 600000") }
            try await client.send("POST /nobody HTTP/1.1\r\n\(fields)" + body)
            _ = try? await client.ended()
            #expect(count(of: "took 600000", in: client.text) == 1)
            #expect(client.text.hasSuffix("overLimit"), "\(client.text.suffix(200))")
        }
    }

    // MARK: Small chunks

    /// Counts the pieces in which a body arrives.
    private static func counting() -> TestService {
        TestService { request, body, _ in
            var (pieces, bytes, memory) = (0, 0, 0)
            do {
                for try await piece in body {
                    pieces += 1
                    bytes += piece.readableBytes
                    memory += piece.storageCapacity
                }
            } catch { return .text("[\(request.path ?? "") \(error)]") }
            return .text("[\(request.path ?? "") \(bytes) \(pieces) \(memory)]")
        }
    }

    private static func chunked(_ path: String, _ body: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\(body)"
    }

    @Test(
        "A request's body has 11,000 one-byte chunks → the service gets at most 100 pieces, in 64 KiB of memory (SEC-105)",
        arguments: [false, true])
    func smallChunks(isSecure: Bool) async throws {
        try await Self.counting().run(isSecure: isSecure) { (port) async throws in
            let client = try await WireClient.connect(port, isSecure ? try TestCertificate.client() : nil)
            try await client.send(Self.chunked("/small", String(repeating: "1\r\nx\r\n", count: 11_000) + "0\r\n\r\n"))
            let text = try await client.received { $0.contains("]") }
            let figures = text.split(separator: "[").last?.dropLast().split(separator: " ").compactMap { Int($0) } ?? []
            #expect(figures.first == 11_000, "\(text)")
            #expect(figures.dropFirst().first ?? .max <= 100, "\(text)")
            #expect(figures.last ?? .max <= 64 * 1024, "\(text)")
            try await client.channel.close().get()
        }
    }

    @Test(
        "A client pipelines requests with chunked bodies and trailers, split at any byte → all are answered in order (SEC-101)"
    )
    func chunkedPipelines() async throws {
        let requests = [
            Self.chunked("/a", "1\r\nx\r\n2;e=f\r\n\r\n\r\n0\r\n\r\n"), Self.get("/b"),
            "POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n0\r\n\r\n0\r\n\r\nab",
            Self.chunked("/d", "0\r\nTrailer: x\r\nOther: y\r\n\r\n"), "\r\n",
            Self.chunked("/e", "3\r\nGET\r\n0\r\nTrailer: x\r\n\r\n"), Self.get("/f", "Connection: close\r\n"),
        ].joined()
        let bytes = Array(requests.utf8)
        try await Self.counting().run { (port) async throws in
            for cut in stride(from: 1, through: bytes.count, by: 3) {
                let client = try await WireClient.connect(port)
                try await client.send(String(decoding: bytes[..<cut], as: UTF8.self))
                try await client.send(String(decoding: bytes[cut...], as: UTF8.self))
                _ = try await client.ended()
                let answers = client.text.split(separator: "[").dropFirst().map {
                    $0.split(separator: " ").prefix(2).joined(separator: " ")
                }
                #expect(answers == ["/a 3", "/b 0", "/c 12", "/d 0", "/e 3", "/f 0"], "cut at \(cut): \(client.text)")
            }
        }
    }

    @Test(
        "A request's head ends with LF instead of CRLF → refused, and no request within its chunked body is served (SEC-101)",
        arguments: ["\n\n", "\r\n\n", "\n\r\n"])
    func bareLineFeeds(end: String) async throws {
        try await Self.counting().run { (port) async throws in
            let client = try await WireClient.connect(port)
            try await client.send(
                "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\(end)0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
            )
            try? await client.finish()
            _ = try await client.ended()
            #expect(!client.text.contains("smuggled"))
            #expect(client.text.hasPrefix("HTTP/1.1 400"), "\(client.text)")
        }
    }
}
