import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// The broker's answer about a session that has just ended, and the effect of a clock's jump on a session in use.
@Suite(.timeLimit(.minutes(1))) struct ResumeSessionTests {
    private static let idle = Duration.seconds(60)

    /// A broker whose sessions end a minute after their last use.
    private func broker() throws -> TestBroker {
        try TestBroker(
            clients: [
                ClientProfile(
                    name: ClientName(unchecked: "ios"), login: .both,
                    redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 },
                    lifetimes: SessionLifetimes(idle: Self.idle))
            ])
    }

    @Test(
        "A cached session reaches its idle end → its next call is refused despite the cache, and its event streams are notified"
    )
    func cachedLapse() async throws {
        let broker = try broker()
        let token = try await broker.signIn().token
        broker.clock.advance(Self.idle - .seconds(2))
        let live = try await broker.useCases.resumeSession.resume(token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        broker.clock.advance(.seconds(1))
        _ = try await broker.useCases.resumeSession.resume(token)
        #expect(heard.withLock { $0.isEmpty } && broker.context.cache.count == 1)
        broker.clock.advance(.seconds(1))
        #expect(await problem { try await broker.useCases.resumeSession.resume(token) }?.reason == .idleExpired)
        #expect(heard.withLock { $0 } == [.ended(.idleExpired)])
        #expect(broker.context.cache.count == 0)
        withExtendedLifetime(subscription) {}
    }

    @Test(
        "A replica has cached a session, and another replica extends its idle end → the session still lives on the first replica"
    )
    func movedElsewhere() async throws {
        let first = try broker()
        let second = try TestBroker(
            store: first.store, vault: first.vault, clients: first.provider.profile.clients, clock: first.clock)
        let token = try await first.signIn().token
        first.clock.advance(Self.idle - .seconds(3))
        let cached = try await first.useCases.resumeSession.resume(token)
        _ = try await second.useCases.resumeSession.use(token)
        await second.settled()
        // The session in the cache has passed its idle end, but its cache entry is still younger than five seconds.
        first.clock.advance(.seconds(4))
        try await first.useCases.resumeSession.checkLives(cached.tokenDigest)
        let again = try await first.useCases.resumeSession.use(token)
        #expect(again.row.idleExpiresAt > cached.row.idleExpiresAt)
    }

    @Test("A session is used while the clock is in doubt → its idle end does not move (SEC-128)")
    func doubtedSlide() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let handle = signedIn.session.handle
        let before = try #require(try await broker.store.session(handle: handle))
        // The jump is shorter than the session's remaining time, so the session still seems to be alive.
        let jump = Duration.seconds(2 * 86_400)
        broker.clock.jump(jump)
        _ = try await broker.useCases.resumeSession.use(signedIn.token)
        await broker.settled()
        #expect(try await broker.store.session(handle: handle)?.idleExpiresAt == before.idleExpiresAt)
        #expect(try await broker.useCases.resumeSession.resume(signedIn.token).row.lastUsedAt == before.lastUsedAt)
        try await believedSlide()
    }

    /// Checks the opposite: while the clock is trusted, the same use moves the idle end.
    private func believedSlide() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let handle = signedIn.session.handle
        let before = try #require(try await broker.store.session(handle: handle))
        broker.clock.advance(.seconds(86_400))
        _ = try await broker.useCases.resumeSession.use(signedIn.token)
        await broker.settled()
        let after = try #require(try await broker.store.session(handle: handle))
        #expect(after.idleExpiresAt == before.idleExpiresAt.advanced(by: .seconds(86_400)))
    }
}
