import Broker
import BrokerTestSupport
import Synchronization
import Testing

@testable import BrokerProviders

extension TransportTests {
    @Test("The limit of concurrent calls to a provider is reached → one more call fails without being sent (SEC-120)")
    func limit() async throws {
        let server = try RawServer { _ in .hang }
        try await with { original in
            var fixture = original
            fixture.limiter = CallLimiter(limits: CallLimits(concurrent: 1), clock: Support.clock)
            let calls = fixture
            let first = Task { await Support.failure { try await calls.post(server.base, total: .seconds(60)) } }
            try await eventually("the first call is at the server") { !server.received.isEmpty }
            let second = await Support.failure { try await calls.post(server.base) }
            #expect(isNotSent(second))
            first.cancel()
            #expect(isLost(await first.value))
        }
    }

    @Test(
        "A provider answers 503 to three calls → its breaker opens, and the next calls fail without being sent (SEC-120)"
    )
    func breaker() async throws {
        let server = try RawServer { _ in .http(503, [], []) }
        try await with { original in
            var fixture = original
            let turns = Mutex<[Bool]>([])
            fixture.limiter = CallLimiter(limits: CallLimits(failuresToOpen: 3), clock: Support.clock) { isOpen in
                turns.withLock { $0.append(isOpen) }
            }
            for _ in 0..<3 {
                #expect(turns.withLock { $0.isEmpty })
                _ = try await fixture.post(server.base)
            }
            // All refused calls together cause one event: the breaker is open. When a call is answered, a second event
            // follows.
            defer {
                #expect(turns.withLock { $0 } == [true])
                fixture.limiter.end(.alive, failed: false)
                #expect(turns.withLock { $0 } == [true, false])
            }
            let calls = fixture
            let failure = await Support.failure { try await calls.post(server.base) }
            #expect(isNotSent(failure))
            #expect(server.received.count == 3)
        }
    }

    @Test("Five answers with status 500 → the breaker stays closed, because the status concerns only one request")
    func answersKeepTheBreakerClosed() async throws {
        let server = try RawServer { _ in .http(500, [], []) }
        try await with { original in
            var fixture = original
            fixture.limiter = CallLimiter(limits: CallLimits(failuresToOpen: 2), clock: Support.clock)
            for _ in 0..<5 { _ = try await fixture.post(server.base) }
            #expect(server.received.count == 5)
        }
    }

    @Test("A call is cancelled → the breaker does not count a failure")
    func cancelled() async throws {
        let server = try RawServer { _ in .hang }
        try await with { original in
            var fixture = original
            fixture.limiter = CallLimiter(limits: CallLimits(failuresToOpen: 1), clock: Support.clock)
            let calls = fixture
            let task = Task { await Support.failure { try await calls.post(server.base) } }
            try await eventually("the first call is at the server") { !server.received.isEmpty }
            task.cancel()
            #expect(isLost(await task.value))
            #expect(calls.limiter.breaker == .closed(failures: 0))
        }
    }

    private static func fields(_ count: Int, of size: Int) -> String {
        (0..<count).map { index in "X-\(index): \(String(repeating: "v", count: size))\r\n" }.joined()
    }

    @Test(
        "An answer's head or trailer has over 64 KiB, 128 fields or 16 KiB a field → lost long before the time limit (SEC-120)",
        arguments: [
            fields(6, of: 12_000), fields(1, of: 16 * 1024 + 1), fields(129, of: 1),
            "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + fields(6, of: 12_000),
        ])
    func largeHead(fields: String) async throws {
        let server = try RawServer { _ in .rawThenHang(Array("HTTP/1.1 200 OK\r\n\(fields)".utf8)) }
        try await with { fixture in
            for call in [
                { () async throws in try await fixture.post(server.base, total: .seconds(8)) },
                { () async throws in try await fixture.get(server.base, total: .seconds(8)) },
            ] {
                guard case .lost(let detail) = await Support.failure(call) else {
                    Issue.record("the answer does not count as lost")
                    continue
                }
                #expect(detail == "HTTPParserError", "\(detail)")
            }
        }
    }

    @Test("An answer's head with 121 fields, or with four fields of 15,000 bytes → accepted")
    func ordinaryHead() async throws {
        let server = try RawServer { request in
            let fields = request.method == "POST" ? Self.fields(120, of: 400) : Self.fields(4, of: 15_000)
            return .raw(Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\(fields)\r\n{}".utf8))
        }
        try await with { fixture in
            let (posted, got) = (try await fixture.post(server.base), try await fixture.get(server.base))
            #expect(posted.headers.count == 121)
            #expect(got.headers.count == 5)
        }
    }
}
