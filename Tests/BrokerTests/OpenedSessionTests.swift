import BrokerTestSupport
import Testing

@testable import Broker

@Suite("How often a session's records are opened (decision 39)", .timeLimit(.minutes(1)))
struct OpenedSessionTests {
    @Test(
        "A cached session is used ten times → its records are decrypted once, and again after an ending, a refresh or 5 s"
    )
    func once() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let (context, vault) = (broker.context, CountingVault(broker.vault))
        let cache = SessionCache()
        let counted = BrokerContext(
            clock: context.clock, spawner: context.spawner, events: context.events, vault: vault, store: context.store,
            providers: context.providers, cache: cache, notices: context.notices, settings: context.settings,
            watch: context.watch)
        let (sessions, tokens) = (ResumeSession(context: counted), RefreshTokens(counted))
        func use() async throws -> Int64 {
            let session = try await sessions.use(signedIn.token)
            _ = try await tokens.accessToken(for: session)
            return try await tokens.accessToken(for: session).version
        }
        for _ in 0..<10 { #expect(try await use() == 1) }
        #expect(vault.opened(.session) == 1 && vault.opened(.tokens) == 1)
        cache.remove([vault.digest(signedIn.token.bytes())])
        for _ in 0..<10 { #expect(try await use() == 1) }
        #expect(vault.opened(.session) == 2 && vault.opened(.tokens) == 2)
        _ = try await tokens.refreshNow(try await sessions.resume(signedIn.token))
        #expect(try await use() == 2)
        broker.clock.advance(.seconds(6))
        let before = vault.opened(.session)
        #expect(try await use() == 2)
        #expect(vault.opened(.session) == before + 1)
    }

    @Test(
        "A session is cached, and its provider leaves the configuration → the session is not served, even from the cache"
    )
    func configuration() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        _ = try await broker.useCases.resumeSession.resume(signedIn.token)
        let later = ResumeSession(context: broker.context.with(ProviderDirectory([]), broker.context.settings))
        #expect(broker.context.cache.count == 1)
        #expect(await problem { try await later.resume(signedIn.token) }?.code == .providerUnavailable)
    }
}
