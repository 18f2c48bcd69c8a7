import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerWire
import FoundationEssentials
import HTTPTypes
import NIOCore
import Synchronization
import Testing

@Suite("Streaming (SEC-81)", .serialized, .timeLimit(.minutes(2)))
struct RelayStreamTests {
    private static let chunk = ByteBuffer(repeating: 0x61, count: 65_536)
    private static let count = 1600
    /// A number of chunks that exceeds the kernel's buffers, which hold up to about 50 MiB for each pair of sockets.
    private static let endless = 6400

    /// Answers every request with `count` chunks, and counts the sent chunks in `written`.
    @Sendable private static func sending(
        _ count: Int, _ written: ChunkSource.Counter, _ connection: ScriptedConnection
    ) async throws {
        while try await connection.request() != nil {
            try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(65_536 * count)\r\n\r\n")
            for _ in 0..<count {
                try await connection.send(chunk)
                written.increment()
            }
        }
    }

    /// Relays an answer of `count` chunks from one upstream, and lets `check` send its body through the relay to another
    /// upstream.
    private static func pipe(
        _ count: Int, into sink: @escaping @Sendable (ScriptedConnection) async throws -> Void, timeout: Duration,
        _ check: (_ fixture: RelayFixture, _ body: RelayBody, _ written: ChunkSource.Counter) async throws -> Void
    ) async throws {
        let written = ChunkSource.Counter()
        try await ScriptedUpstream.run({ try await sending(count, written, $0) }) { source in
            try await ScriptedUpstream.run(sink) { sink in
                try await RelayFixture.run(at: source.url) { down in
                    try await RelayFixture.run(at: sink.url, timeout: timeout) { up in
                        let response = try await down.call(.get, "/x")
                        guard case .stream(let body) = response.body else { throw Unexpected(status: 0) }
                        try await check(up, body, written)
                    }
                }
            }
        }
    }

    // Memory use is measured on the release binary, alone in its process (Tests/scenarios/relay/relay.sh).
    @Test(
        "An upstream's answer of 100 MiB is uploaded to another upstream through the relay → all of it arrives",
        arguments: [65_536 * count, nil])
    func flat(length: Int?) async throws {
        try await Self.pipe(Self.count, into: answeringSize, timeout: .seconds(10)) { fixture, body, _ in
            let response = try await fixture.call(
                .put, "/x", body: .stream(UpstreamRequest.Stream(body), length: length))
            #expect(try await response.body.text() == "\(65_536 * Self.count)")
        }
    }

    @Test("An upstream stops reading an upload → the relay stops reading the app's body")
    func backPressureUp() async throws {
        try await Self.pipe(
            Self.endless,
            into: { connection in
                _ = try await connection.head()
                try await Task.sleep(for: .seconds(60))
            }, timeout: .milliseconds(500)
        ) { fixture, body, written in
            let request = UpstreamRequest.Body.stream(UpstreamRequest.Stream(body), length: nil)
            let problem = try await fixture.problem(.post, "/x", body: request)
            #expect(problem.code == .upstreamTimeout)
            #expect(written.count < Self.endless / 2)
        }
    }

    @Test("An app stops reading an answer → the relay stops reading from the upstream")
    func backPressure() async throws {
        let written = ChunkSource.Counter()
        try await ScriptedUpstream.run({ try await Self.sending(Self.endless, written, $0) }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                let response = try await fixture.call(.get, "/x")
                guard case .stream(let body) = response.body else { throw Unexpected(status: 0) }
                var iterator = body.makeAsyncIterator()
                _ = try await iterator.next()
                var last = -1
                // Wait until the buffers of the sockets are full and the upstream cannot write any more.
                #expect(
                    try await eventually {
                        try await Task.sleep(for: .milliseconds(100))
                        defer { last = written.count }
                        return last == written.count
                    })
                #expect(written.count < Self.endless / 2)
                for _ in 0..<Self.count { _ = try await iterator.next() }
                #expect(try await eventually { written.count > last })
            }
        }
    }

    @Test(
        "An app hangs up before the head of a relayed answer, or within the body → the connection to the upstream closes"
    )
    func cancellation() async throws {
        try await ScriptedUpstream.run({ connection in
            guard let request = try await connection.request() else { return }
            if request.target == "/body" {
                try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            }
            try await connection.waitForClose()
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for (index, path) in ["/head", "/body"].enumerated() {
                    await withTaskGroup(of: Void.self) { group in
                        group.addTask {
                            let response = try? await fixture.call(.get, path)
                            _ = try? await response?.body.text()
                        }
                        #expect((try? await eventually { upstream.received.count == index + 1 }) == true)
                        group.cancelAll()
                    }
                    #expect(try await eventually { upstream.closed == index + 1 })
                }
                #expect(try await eventually { fixture.relay.underWay(UpstreamName(unchecked: "api")) == 0 })
            }
        }
    }

    @Test(
        "An upstream answers an unfinished upload and closes the connection → the relay stops reading the upload from the app"
    )
    func earlyAnswer() async throws {
        try await ScriptedUpstream.run({ connection in
            _ = try await connection.head()
            try await connection.answer("413 Content Too Large", fields: ["Connection: close"], body: "too large")
        }) { upstream in
            try await RelayFixture.run(at: upstream.url) { (fixture) async throws in
                for _ in 0..<20 {
                    let source = WatchedBody()
                    let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(source), length: nil)
                    do {
                        let response = try await fixture.call(.post, "/x", body: body)
                        #expect(response.status.code == 413)
                        _ = try? await response.body.text()
                    } catch {
                        // The connection ended before the answer arrived, so the result is a 502. In this case, too,
                        // the body must no longer be read.
                        #expect((error as? BrokerProblem)?.code == .upstreamError)
                    }
                    #expect(!source.state.isReading)
                    let asked = source.state.asked
                    try await Task.sleep(for: .milliseconds(20))
                    #expect(source.state.asked == asked)
                }
            }
        }
    }
}

/// Answers with the size of the received body.
@Sendable private func answeringSize(_ connection: ScriptedConnection) async throws {
    while let request = try await connection.request() { try await connection.answer(body: "\(request.bodySize)") }
}

/// An endless slow body that records whether it is being read.
private struct WatchedBody: AsyncSequence, Sendable {
    final class State: Sendable {
        private let value = Mutex<(isReading: Bool, asked: Int)>((false, 0))
        var isReading: Bool { value.withLock(\.isReading) }
        var asked: Int { value.withLock(\.asked) }
        func begin() {
            value.withLock {
                precondition(!$0.isReading, "two readers")
                $0.isReading = true
                $0.asked += 1
            }
        }
        func end() { value.withLock { $0.isReading = false } }
    }

    let state = State()

    struct AsyncIterator: AsyncIteratorProtocol {
        let state: State
        mutating func next() async throws -> ByteBuffer? {
            state.begin()
            defer { state.end() }
            try await Task.sleep(for: .milliseconds(3))
            return ByteBuffer(repeating: 0x61, count: 1000)
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(state: state) }
}
