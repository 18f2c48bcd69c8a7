import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

@Suite("Sealing again under a new key", .timeLimit(.minutes(1)))
struct ResealingTests {
    private func rotate(_ ring: KeyRing) throws -> KeyRing {
        try ring.rotated(now: WallTime(seconds: 1_795_000_000), random: SystemRandom.bytes)
    }

    /// Calls `step` until all values are checked.
    private func finish(_ resealing: Resealing) async throws {
        while try await resealing.step() {}
    }

    @Test("Resealing is requested in two processes → only the process with the lease works")
    func lease() async throws {
        let broker = try TestBroker()
        let store = try #require(broker.store as? InMemoryStore)
        let (first, second) = (
            Resealing(broker.context, store, owner: "a"), Resealing(broker.context, store, owner: "b")
        )
        #expect(try await first.step() == false)
        #expect(first.progress.state == .idle)
        #expect(try await first.begin().state == .running)
        #expect(try await second.begin().state == .elsewhere)
        #expect(try await second.step() == false)
        // Another request during the work lets the same work go on.
        #expect(try await first.begin().state == .running)
        try await finish(first)
        #expect(first.progress.state == .done)
        broker.clock.advance(.seconds(31))
        #expect(try await second.begin().state == .running)
        // If a process stops normally, it releases its own lease, so that the next process can begin. Another process's lease
        // stays.
        try await first.stop()
        #expect(try await first.begin().state == .elsewhere)
        try await second.stop()
        #expect(try await first.begin().state == .running)
    }

    @Test(
        "All values are sealed again under a new key → their contents are unchanged, and the old key may be removed (SEC-49)"
    )
    func everything() async throws {
        let ring = try KeyRing.generate(now: WallTime(seconds: 1_795_000_000), random: SystemRandom.bytes)
        let vault = try OpenSSLVault(ring: ring)
        let broker = try TestBroker(vault: vault)
        let store = try #require(broker.store as? InMemoryStore)
        var sessions: [SignedIn] = []
        for number in 0..<7 { sessions.append(try await broker.signIn(code: "code-\(number)")) }
        _ = try await broker.start()
        let old = vault.currentKeyID
        let since = broker.clock.now
        let before = try await store.keyUse(exchangesSince: since)
        #expect(before.keys.sorted() == [old])
        let newer = try rotate(ring)
        try vault.replace(ring: newer)
        let resealing = Resealing(broker.context, store, owner: "a")
        let begun = try await resealing.begin()
        #expect(begun.total > 0 && begun.key == vault.currentKeyID && begun.key != old)
        try await finish(resealing)
        let done = resealing.progress
        #expect(done.state == .done && done.unopened == 0 && done.resealed == done.seen && done.resealed >= 15)
        let after = try await store.keyUse(exchangesSince: since.advanced(by: .seconds(1)))
        #expect(after == [vault.currentKeyID: done.resealed])
        // An operator may remove the old key as soon as the broker no longer repeats an answer that this key has sealed.
        try vault.replace(ring: try newer.removing(old, now: WallTime(milliseconds: .max)))
        broker.context.cache.reset(open: true)
        for session in sessions {
            let view = try await broker.useCases.resumeSession.resume(session.token).view
            #expect(view.handle == session.session.handle)
        }
        // All values already have the newest key.
        _ = try await resealing.begin()
        try await finish(resealing)
        #expect(resealing.progress.resealed == 0)
    }

    @Test("A record does not open during resealing → it is left as it is, and counted")
    func unopened() async throws {
        let broker = try TestBroker()
        let store = try #require(broker.store as? InMemoryStore)
        let row = Digest(Array(repeating: 7, count: 32)) ?? broker.vault.digest([])
        let foreign = OutboxRow(
            id: row, boundTo: row, tokens: Sealed(keyID: "kElsewhere", envelope: [1, 2, 3]),
            createdAt: broker.clock.now, nextAttemptAt: broker.clock.now)
        try await store.addOutbox([foreign])
        let resealing = Resealing(broker.context, store, owner: "a")
        _ = try await resealing.begin()
        try await finish(resealing)
        #expect(resealing.progress.unopened == 1 && resealing.progress.resealed == 0)
        #expect(try await store.keyUse(exchangesSince: broker.clock.now) == ["kElsewhere": 1])
    }

    @Test(
        "The key is rotated during resealing → resealing begins again, and at its end the newest key has sealed all values"
    )
    func rotatedAmid() async throws {
        let ring = try KeyRing.generate(now: WallTime(seconds: 1_795_000_000), random: SystemRandom.bytes)
        let vault = try OpenSSLVault(ring: ring)
        let broker = try TestBroker(vault: vault)
        let store = try #require(broker.store as? InMemoryStore)
        for number in 0..<3 { _ = try await broker.signIn(code: "code-\(number)") }
        let newer = try rotate(ring)
        try vault.replace(ring: newer)
        let resealing = Resealing(broker.context, store, owner: "a")
        _ = try await resealing.begin()
        #expect(try await resealing.step())
        #expect(resealing.progress.resealed > 0)
        let newest = try rotate(newer)
        try vault.replace(ring: newest)
        try await finish(resealing)
        #expect(resealing.progress.state == .done && resealing.progress.key == vault.currentKeyID)
        let since = broker.clock.now.advanced(by: .seconds(1))
        #expect(try await store.keyUse(exchangesSince: since).keys.sorted() == [vault.currentKeyID])
    }

    @Test("Another process takes over the lapsed lease for resealing → the process that had the lease stops resealing")
    func leaseLost() async throws {
        let broker = try TestBroker()
        let store = try #require(broker.store as? InMemoryStore)
        _ = try await broker.signIn()
        let (first, second) = (
            Resealing(broker.context, store, owner: "a"), Resealing(broker.context, store, owner: "b")
        )
        _ = try await first.begin()
        #expect(try await first.step())
        broker.clock.advance(.seconds(31))
        #expect(try await second.begin().state == .running)
        #expect(try await first.step() == false)
        #expect(first.progress.state == .elsewhere)
        try await finish(second)
        #expect(second.progress.state == .done)
    }
}
