import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerWire
import HTTPTypes
import NIOCore
import Synchronization
import Testing

/// Answers that arrive before the client has finished its request.
@Suite("Uploads and early answers (SEC-79, SEC-81)", .serialized, .timeLimit(.minutes(2)))
struct RelayUploadTests {
    @Test(
        "An upstream answers before an upload's end → the app gets the answer, and the connection serves the next call",
        arguments: [
            "200 OK\r\nContent-Length: 2\r\n\r\nok", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "204 No Content\r\n\r\n",
        ])
    func overtaken(_ answer: String) async throws {
        try await ScriptedUpstream.run({ connection in
            while try await connection.request() != nil { try await connection.write("HTTP/1.1 \(answer)") }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for _ in 0..<3 {
                    let source = LateEnd(chunk: ByteBuffer(repeating: 0x61, count: 100_000))
                    let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 100_000)
                    let response = try await fixture.call(.post, "/x", body: body)
                    source.end.finish()
                    #expect(try await response.body.text() == (answer.hasPrefix("200") ? "ok" : ""))
                }
                _ = try await fixture.call(.get, "/x").body.text()
                #expect(upstream.received.count == 4)
                #expect(upstream.opened == 1)
            }
        }
    }

    @Test(
        "An upstream answers an upload that never ends → the app gets the answer; after the read timeout, the connection closes"
    )
    func neverEnded() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.answer()
            try await connection.waitForClose()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url, readTimeout: .milliseconds(200)) { (fixture) async throws in
                let source = LateEnd(chunk: ByteBuffer(repeating: 0x61, count: 100_000))
                let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 100_000)
                async let text = fixture.call(.post, "/x", body: body).body.text()
                #expect(try await eventually { upstream.closed == 1 })
                source.end.finish()
                #expect(try await text == "ok")
            }
        }
    }

    @Test(
        "An upstream answers completely and closes the connection before an upload's end → the app gets the whole answer",
        arguments: [
            "200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "204 No Content\r\nConnection: close\r\n\r\n",
        ])
    func closed(_ answer: String) async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.write("HTTP/1.1 \(answer)")
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let source = LateEnd(chunk: ByteBuffer(repeating: 0x61, count: 100_000))
                let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 100_000)
                async let text = fixture.call(.post, "/x", body: body).body.text()
                #expect(try await eventually { upstream.closed == 1 })
                // During this pause, the broker usually notices that the upstream has closed the connection. The test also
                // passes if the broker notices the close later.
                try await Task.sleep(for: .milliseconds(50))
                source.end.finish()
                #expect(try await text == (answer.hasPrefix("200") ? "ok" : ""))
            }
        }
    }

    /// Answers in each kind of framing, with statuses of success and of refusal.
    static let answers = [
        "200 OK\r\nContent-Length: 2\r\n\r\nok", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "200 OK\r\nConnection: close\r\n\r\nok", "200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "403 Forbidden\r\nContent-Length: 2\r\n\r\nok", "403 Forbidden\r\nConnection: close\r\n\r\nok",
        "409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: a\r\n\r\n",
    ]

    /// The ways of an early answer.
    ///
    /// The upstream answers before or within the body, and then closes the connection or only its own side of it.
    enum Manner: String, CaseIterable { case hangsUp, closesItsSide, hangsUpWithinBody, closesItsSideWithinBody }

    @Test(
        "An upstream answers an unfinished upload, then closes the connection or only its side → the app gets the whole answer",
        arguments: answers,
        Manner.allCases)
    func early(_ answer: String, _ manner: Manner) async throws {
        let isWithinBody = manner == .hangsUpWithinBody || manner == .closesItsSideWithinBody
        let isHalf = manner == .closesItsSide || manner == .closesItsSideWithinBody
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.head()
            if isWithinBody { try await connection.skip(100_000) }
            try await connection.write("HTTP/1.1 \(answer)")
            if isHalf { try await connection.closeOutput() }
            // Wait until the broker closes the connection. If the upstream closed it with unread bytes, the connection would be
            // reset, and a reset may destroy the answer.
            if isHalf { try await connection.waitForClose() }
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let source = LateEnd(chunk: isWithinBody ? ByteBuffer(repeating: 0x61, count: 100_000) : ByteBuffer())
                let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 200_000)
                // The end of the app's body comes only after the answer has been read.
                let response = try await fixture.call(.post, "/x", body: body)
                #expect(response.status.code == Int(answer.prefix(3)))
                #expect(try await response.body.text() == "ok")
                source.end.finish()
                #expect(try await eventually { upstream.closed == 1 })
            }
        }
    }

    @Test(
        "An upstream's answer breaks off before the upload's end → the app's answer breaks off",
        arguments: ["Content-Length: 3\r\n\r\nok", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"])
    func earlyAndCut(_ answer: String) async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.head()
            try await connection.skip(100_000)
            try await connection.write("HTTP/1.1 200 OK\r\n\(answer)")
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let source = LateEnd(chunk: ByteBuffer(repeating: 0x61, count: 100_000))
                let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 200_000)
                let response = try await fixture.call(.post, "/x", body: body)
                await #expect(throws: (any Error).self) { try await response.body.text() }
                source.end.finish()
            }
        }
    }

    @Test(
        "An upstream begins its answer before the upload's end → the upload continues, and the rest of the answer comes after it"
    )
    func bothWays() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.head()
            try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
            try await connection.skip(200_000)
            try await connection.write("4\r\ndone\r\n0\r\n\r\n")
            _ = try await connection.request()
            try await connection.answer()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let source = ChunkSource(chunk: ByteBuffer(repeating: 0x61, count: 10_000), count: 20)
                let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: 200_000)
                #expect(try await fixture.call(.post, "/x", body: body).body.text() == "okdone")
                #expect(try await fixture.call(.get, "/x").body.text() == "ok")
            }
            #expect(upstream.opened == 1)
        }
    }

    @Test("A relayed body is longer or shorter than its length → refused, and the connection to the upstream is closed")
    func wrongLength() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.request()
            try await connection.waitForClose()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let chunk = ByteBuffer(repeating: 0x61, count: 50_000)
                for (count, code) in [(3, ProblemCode.tooLarge), (1, .invalidRequest)] {
                    let stream = UpstreamRequest.Stream(ChunkSource(chunk: chunk, count: count))
                    let body = UpstreamRequest.Body.stream(stream, length: 100_000)
                    #expect(try await fixture.problem(.post, "/x", body: body).code == code)
                }
                #expect(try await eventually { upstream.closed == 2 })
            }
            #expect(upstream.received.allSatisfy { $0.bodySize == 100_000 })
        }
    }

    @Test(
        "An app's upload stalls, and the upstream refuses it → the app gets the whole refusal, and the relay stops reading",
        arguments: [
            "Content-Length: 9\r\n\r\ntoo large", "Transfer-Encoding: chunked\r\n\r\n9\r\ntoo large\r\n0\r\n\r\n",
        ])
    func refused(_ answer: String) async throws {
        let (signal, go) = AsyncStream<Never>.makeStream()
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.head()
            for await _ in signal {}
            try await connection.write("HTTP/1.1 413 Content Too Large\r\n\(answer)")
            try await Task.sleep(for: .seconds(60))
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                weak var token: Endless.Token?
                do {
                    let source = Endless()
                    token = source.token
                    let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: nil)
                    async let answered = fixture.call(.post, "/x", body: body)
                    #expect(try await source.token.isHeldUp())
                    go.finish()
                    let response = try await answered
                    #expect(response.status.code == 413)
                    #expect(try await response.body.text() == "too large")
                }
                #expect(try await eventually { token == nil })
            }
        }
    }

    @Test(
        "An app's upload stalls, and the upstream closes the connection → the call fails, and the relay stops reading the upload"
    )
    func upstreamGone() async throws {
        let (signal, go) = AsyncStream<Never>.makeStream()
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.head()
            for await _ in signal {}
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                weak var token: Endless.Token?
                do {
                    let source = Endless()
                    token = source.token
                    let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: nil)
                    async let problem = fixture.problem(.post, "/x", body: body)
                    #expect(try await source.token.isHeldUp())
                    go.finish()
                    #expect(try await problem.code == .upstreamError)
                }
                #expect(try await eventually { token == nil })
            }
        }
    }

    @Test("An app's upload stalls, and the app hangs up → the relay stops reading the upload")
    func heldUp() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.head()
            try await Task.sleep(for: .seconds(60))
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                weak var token: Endless.Token?
                await withTaskGroup(of: Void.self) { group in
                    let source = Endless()
                    token = source.token
                    group.addTask {
                        let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: nil)
                        _ = try? await fixture.call(.post, "/x", body: body)
                    }
                    #expect((try? await source.token.isHeldUp()) == true)
                    group.cancelAll()
                }
                #expect(try await eventually { token == nil })
            }
        }
    }
}

/// A body of one chunk whose end the test controls.
private struct LateEnd: AsyncSequence, Sendable {
    let chunk: ByteBuffer
    private let stream: AsyncStream<Never>
    let end: AsyncStream<Never>.Continuation

    init(chunk: ByteBuffer) {
        self.chunk = chunk
        (stream, end) = AsyncStream<Never>.makeStream()
    }

    struct AsyncIterator: AsyncIteratorProtocol {
        let stream: AsyncStream<Never>
        var chunk: ByteBuffer?

        mutating func next() async throws -> ByteBuffer? {
            if let chunk {
                self.chunk = nil
                return chunk
            }
            for await _ in stream {}
            return nil
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: stream, chunk: chunk) }
}

/// An endless body.
///
/// `token` lives as long as a reader of the body exists.
private struct Endless: AsyncSequence, Sendable {
    final class Token: Sendable {
        private let count = Atomic(0)
        var asked: Int { count.load(ordering: .relaxed) }
        func ask() { count.add(1, ordering: .relaxed) }

        /// Waits until the buffers of the sockets are full and the relay stops reading the body.
        func isHeldUp() async throws -> Bool {
            var (last, looks) = (0, 0)
            return try await eventually {
                try await Task.sleep(for: .milliseconds(100))
                looks = last > 0 && last == asked ? looks + 1 : 0
                last = asked
                return looks == 5
            }
        }
    }

    let token = Token()

    struct AsyncIterator: AsyncIteratorProtocol {
        let token: Token

        mutating func next() async throws -> ByteBuffer? {
            token.ask()
            return ByteBuffer(repeating: 0x61, count: 65_536)
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(token: token) }
}
