import Broker
import BrokerTestSupport
import Synchronization
import Testing

@testable import BrokerProviders

@Suite("Cached documents of a provider", .timeLimit(.minutes(2)))
struct CachedFetchTests {
    private final class Source: Sendable {
        let calls = Mutex(0)
        let fails = Mutex(false)
        let hangs = Mutex(false)

        func fetch() async -> Result<(value: Int, lifetime: Duration), ProviderFailure> {
            let number = calls.withLock { count in
                count += 1
                return count
            }
            for _ in 0..<20 { await Task.yield() }
            while hangs.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(1)) }
            return fails.withLock { $0 } ? .failure(.lost(detail: "test")) : .success((number, .seconds(600)))
        }
    }

    /// The time that callers wait while a fetch of a newer document runs: without end, or zero.
    ///
    /// With either of these two times, a test's result is independent of the machine's speed.
    private enum Patience { case endless, none }

    private func cache(
        _ source: Source, _ clock: TestClock, _ patience: Patience = .endless
    ) -> CachedFetch<Int> {
        let moved = clock.clock
        let waiting = BrokerClock(
            now: moved.now, monotonic: moved.monotonic,
            sleep: { _ in if patience == .endless { try await Task.sleep(for: .seconds(3600)) } })
        return CachedFetch(clock: waiting) { await source.fetch() }
    }

    @Test("50 callers need a document at the same time → one fetch serves all of them")
    func shared() async throws {
        let source = Source()
        let cache = cache(source, TestClock())
        await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<50 { group.addTask { try? await cache.current().value } }
            for await value in group { #expect(value == 1) }
        }
        #expect(source.calls.withLock { $0 } == 1)
    }

    @Test("100 callers ask for newer keys in one minute → three fetches, so strangers cannot flood a provider (SEC-27)")
    func bucket() async throws {
        let source = Source()
        let clock = TestClock()
        let cache = cache(source, clock)
        var generation = try await cache.current().generation
        var granted = 0
        for _ in 0..<100 {
            guard let newer = await cache.newer(than: generation, for: .provider) else { continue }
            generation = newer.generation
            granted += 1
        }
        #expect(granted == 3)
        clock.advance(.seconds(61))
        #expect(await cache.newer(than: generation, for: .provider) != nil)
        #expect(await cache.newer(than: generation + 1, for: .provider) == nil)
    }

    @Test(
        "Key fetches for strangers' tokens use up their share → fetches for logins still have theirs, and vice versa (SEC-27)",
        arguments: [true, false])
    func buckets(_ strangersFirst: Bool) async throws {
        let source = Source()
        let cache = cache(source, TestClock())
        let causes: [FetchCause] = strangersFirst ? [.anybody, .provider] : [.provider, .anybody]
        var generation = try await cache.current().generation
        var granted: [Int] = []
        for cause in causes {
            var count = 0
            for _ in 0..<10 {
                guard let newer = await cache.newer(than: generation, for: cause) else { continue }
                generation = newer.generation
                count += 1
            }
            granted.append(count)
        }
        #expect(granted == [3, 3])
    }

    @Test(
        "A caller needs a newer document than its own, and the cache has a newer one → the caller gets this one, without a fetch"
    )
    func older() async throws {
        let source = Source()
        let cache = cache(source, TestClock())
        let first = try await cache.current()
        _ = await cache.newer(than: first.generation, for: .provider)
        #expect(await cache.newer(than: first.generation, for: .provider)?.value == 2)
        #expect(source.calls.withLock { $0 } == 2)
    }

    @Test(
        "Every new fetch of a document fails → the cached document is used for a day, and each half minute has one more fetch"
    )
    func stale() async throws {
        let source = Source()
        let clock = TestClock()
        let cache = cache(source, clock)
        _ = try await cache.current()
        source.fails.withLock { $0 = true }
        clock.advance(.seconds(601))
        #expect(try await cache.current().value == 1)
        #expect(try await cache.current().value == 1)
        #expect(source.calls.withLock { $0 } == 2)
        clock.advance(.seconds(31))
        _ = try await cache.current()
        #expect(source.calls.withLock { $0 } == 3)
        clock.advance(.seconds(86_401))
        await #expect(throws: ProviderFailure.self) { try await cache.current() }
    }

    @Test("A fetch hangs → callers get the cached document at once; the fetch ends → callers get the new document")
    func hanging() async throws {
        let source = Source()
        let clock = TestClock()
        let cache = cache(source, clock, .none)
        _ = try await cache.current()
        source.hangs.withLock { $0 = true }
        clock.advance(.seconds(601))
        for _ in 0..<3 { #expect(try await cache.current().value == 1) }
        #expect(source.calls.withLock { $0 } == 2)
        source.hangs.withLock { $0 = false }
        try await eventually("the document of the slow fetch is in the cache") { try await cache.current().value != 1 }
        #expect(source.calls.withLock { $0 } == 2)
    }
}
