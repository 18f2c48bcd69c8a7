import Broker
import Testing

@testable import BrokerProviders

extension TransportTests {
    @Test("One call more than the limit is refused unsent (SEC-120)")
    func limit() async throws {
        let server = try RawServer { _ in .hang }
        try await with { original in
            var fixture = original
            fixture.limiter = CallLimiter(limits: CallLimits(concurrent: 1), clock: Support.clock)
            let calls = fixture
            let first = Task { await Support.failure { try await calls.post(server.base, total: .seconds(60)) } }
            while server.received.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
            let second = await Support.failure { try await calls.post(server.base) }
            #expect(isNotSent(second))
            first.cancel()
            #expect(isLost(await first.value))
        }
    }

    @Test("A dead provider opens its breaker, and calls fail at once without being sent (SEC-120)")
    func breaker() async throws {
        let server = try RawServer { _ in .http(503, [], []) }
        try await with { original in
            var fixture = original
            fixture.limiter = CallLimiter(limits: CallLimits(failuresToOpen: 3), clock: Support.clock)
            for _ in 0..<3 { _ = try await fixture.post(server.base) }
            let calls = fixture
            let failure = await Support.failure { try await calls.post(server.base) }
            #expect(isNotSent(failure))
            #expect(server.received.count == 3)
        }
    }

    @Test("Status 500 and 400 do not open the breaker: they are about one request")
    func answersKeepTheBreakerClosed() async throws {
        let server = try RawServer { _ in .http(500, [], []) }
        try await with { original in
            var fixture = original
            fixture.limiter = CallLimiter(limits: CallLimits(failuresToOpen: 2), clock: Support.clock)
            for _ in 0..<5 { _ = try await fixture.post(server.base) }
            #expect(server.received.count == 5)
        }
    }

    @Test("A cancelled caller does not count against the provider")
    func cancelled() async throws {
        let server = try RawServer { _ in .hang }
        try await with { original in
            var fixture = original
            fixture.limiter = CallLimiter(limits: CallLimits(failuresToOpen: 1), clock: Support.clock)
            let calls = fixture
            let task = Task { await Support.failure { try await calls.post(server.base) } }
            while server.received.isEmpty { try await Task.sleep(for: .milliseconds(1)) }
            task.cancel()
            #expect(isLost(await task.value))
            #expect(calls.limiter.breaker == .closed(failures: 0))
        }
    }
}
