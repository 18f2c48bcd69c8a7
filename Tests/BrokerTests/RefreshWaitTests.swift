import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Two kinds of mistakes that the broker must avoid in a refresh: calls during a pause that the provider asked for, and
/// condemning a session too early.
@Suite(.timeLimit(.minutes(2))) struct RefreshWaitTests {
    private func expired(
        _ script: ScriptedProvider.Script
    ) async throws -> (broker: TestBroker, session: SignedIn, live: LiveSession) {
        let broker = try TestBroker(script: script)
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(3601))
        return (broker, session, try await broker.useCases.resumeSession.resume(session.token))
    }

    private func ask(
        _ broker: TestBroker, _ live: LiveSession, _ target: TokenTarget? = nil
    ) async -> BrokerProblem? {
        await problem {
            guard let target else { return try await broker.useCases.refreshTokens.accessToken(for: live) }
            return try await broker.useCases.fetchTargetToken.accessToken(for: live, at: target)
        }
    }

    @Test(
        "The provider answers a refresh with `Retry-After` → no process refreshes this session before that time",
        .timeLimit(.minutes(1))
    )
    func retryAfter() async throws {
        let busy = ProviderFailure.retryable(status: 429, retryAfter: .seconds(9), detail: "")
        let (broker, _, live) = try await expired(.init(refresh: [busy]))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
        for _ in 0..<3 {
            let problem = await ask(broker, live)
            #expect(problem?.code == .providerUnavailable && problem?.retryAfter != nil)
        }
        broker.clock.advance(.seconds(3))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
        // The provider has asked for a pause. Another process reads the end of this pause in the row.
        let other = try TestBroker(store: broker.store, vault: broker.vault, provider: broker.provider)
        other.clock.advance(.seconds(3604))
        #expect(await ask(other, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(7))
        #expect(await ask(broker, live) == nil)
        #expect(broker.provider.refreshes == 2)
    }

    @Test(
        "A token expires while its refresh fails → the callers that wait for the refresh get 503",
        arguments: [nil, TokenTarget(audience: "a")])
    func expiresMeanwhile(_ target: TokenTarget?) async throws {
        let away = ProviderFailure.retryable(status: 503, retryAfter: nil, detail: "")
        let broker = try TestBroker(script: .init(refresh: [away], targeted: [nil, away]))
        let live = try await broker.useCases.resumeSession.resume(broker.signIn().token)
        @Sendable func give() async throws -> AccessToken {
            guard let target else { return try await broker.useCases.refreshTokens.accessToken(for: live) }
            return try await broker.useCases.fetchTargetToken.accessToken(for: live, at: target)
        }
        let first = try await give()
        let calls = broker.provider.refreshes
        broker.clock.advance(.seconds(3590))
        broker.provider.gate.close()
        // The access token is valid for ten more seconds. So its refresh happens in the background.
        #expect(try await give().token.reveal() == first.token.reveal())
        try await eventually("the refresh is at the provider") { broker.provider.gate.waiting == 1 }
        broker.clock.advance(.seconds(11))
        async let late = problem { try await give() }
        try await eventually("a caller waits") {
            broker.events.all.contains { if case .refreshWaited = $0 { true } else { false } }
        }
        broker.provider.gate.open()
        #expect(await late?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == calls + 1)
    }

    @Test(
        "A refresh takes over a dead owner's claim and gets `invalid_grant` → a minute later, the session is condemned (SEC-55)",
        .timeLimit(.minutes(1))
    )
    func takeOver() async throws {
        let refused = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_grant"))
        let (broker, _, live) = try await expired(.init(refresh: [refused, refused, refused]))
        // Another process has claimed the refresh, and then died.
        let claim = RefreshClaim(
            tokenDigest: live.tokenDigest, tokenVersion: 1, name: ClaimID(random: try broker.vault.random(16)),
            lifetime: .seconds(25), now: broker.clock.now)
        guard case .claimed = try await broker.store.claimRefresh(claim) else { return #expect(Bool(false)) }
        broker.clock.advance(.seconds(86))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        #expect(try await broker.store.session(tokenDigest: live.tokenDigest)?.endedAt == nil)
        broker.clock.advance(.seconds(30))
        #expect(await ask(broker, live)?.code == .providerUnavailable)
        // In the minute after the claim has lapsed, callers that retry get their answer from the row alone.
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(31))
        #expect(await ask(broker, live)?.reason == .refreshLost)
    }

    @Test(
        "A caller waits for a refresh for another API, and then needs its own refresh → this one still has its full 20 s",
        .timeLimit(.minutes(1))
    )
    func wholeTime() async throws {
        let (broker, _, live) = try await expired(.init())
        broker.provider.gate.close()
        async let other = ask(broker, live, TokenTarget(audience: "a"))
        try await eventually("the other API's refresh is at the provider") { broker.provider.gate.waiting == 1 }
        async let own = ask(broker, live)
        try await eventually("a caller waits") {
            broker.events.all.contains { if case .refreshWaited = $0 { true } else { false } }
        }
        broker.clock.advance(.seconds(9))
        broker.provider.gate.open()
        broker.provider.gate.close()
        try await eventually("the session's own refresh is at the provider") { broker.provider.gate.waiting == 1 }
        #expect(await other == nil)
        broker.clock.advance(.seconds(13))
        // The refresh answers late callers before it renews its claim.
        let row = try #require(try await broker.store.session(tokenDigest: live.tokenDigest))
        let claim = RefreshClaim(
            tokenDigest: live.tokenDigest, tokenVersion: row.tokenVersion,
            name: ClaimID(random: try broker.vault.random(16)), lifetime: .seconds(25), now: broker.clock.now)
        try await eventually("the refresh has renewed its claim") {
            if case .busy(let rest) = try await broker.store.claimRefresh(claim) { rest > .seconds(20) } else { false }
        }
        broker.provider.gate.open()
        #expect(await own == nil)
    }

    @Test(
        "A session is cached, and then its token is refreshed → all callers get the new token at once, despite the cache",
        .timeLimit(.minutes(1)))
    func cache() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(broker.context.cache.count == 1)
        let before = live.view.tokensExpireAt
        broker.clock.advance(.seconds(2))
        let refreshed = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(refreshed.tokensExpireAt != before)
        let again = try await broker.useCases.resumeSession.resume(session.token)
        #expect(again.view.tokensExpireAt == refreshed.tokensExpireAt && again.row.tokenVersion == 2)
        let token = try await broker.useCases.refreshTokens.accessToken(for: again)
        #expect(token.token.reveal() == "at-r1")
    }

    @Test(
        "An upstream refuses a token, and another process is refreshing it → the caller waits, and never gets the refused token"
    )
    func forcedBusy() {
        let usable = MachineTable.Event.read(version: 3, live: true, fresh: true, usable: true, refreshable: true)
        MachineTable(need: .forced(fromVersion: 3), goal: OwnToken())
            .check([(usable, .claim(version: 3)), (.busy, .wait), (usable, .claim(version: 3))])
    }

    @Test("A refresh's answer names scopes → the session may lose scopes, but never gains any (SEC-57)")
    func scope() {
        var tokens = TokenSet(accessToken: Secret("a"), refreshToken: Secret("r"), scope: ["openid", "email"])
        tokens = tokens.refreshed(with: TokenSet(accessToken: Secret("b"), scope: ["openid", "email", "admin"]))
        #expect(tokens.scope == ["openid", "email"])
        tokens = tokens.refreshed(with: TokenSet(accessToken: Secret("c"), scope: ["email"]))
        #expect(tokens.scope == ["email"])
        tokens = tokens.refreshed(with: TokenSet(accessToken: Secret("d")))
        #expect(tokens.scope == ["email"] && tokens.refreshToken?.reveal() == "r")
    }

    @Test(
        "The provider limits a refresh token's life, at a login or a refresh → the session ends with its refresh token",
        .timeLimit(.minutes(1)))
    func refreshTokenEnd() async throws {
        let broker = try TestBroker(script: .init(refreshTokenLifetime: .seconds(86_400)))
        let session = try await broker.signIn()
        #expect(session.session.expiresAt == broker.clock.now.advanced(by: .seconds(86_400)))
        broker.clock.advance(.seconds(3601))
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let view = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(view.expiresAt == broker.clock.now.advanced(by: .seconds(86_400)))
    }
}
