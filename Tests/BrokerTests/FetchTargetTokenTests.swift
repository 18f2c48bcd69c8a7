import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Tokens for other APIs, with the in-memory store (guarantees 2 and 3).
@Suite("Tokens for other APIs", .timeLimit(.minutes(1))) struct FetchTargetTokenTests {
    private static func target(_ name: String) -> TokenTarget { TokenTarget(audience: name) }
    private static let exchange = TokenTarget(grant: .exchange, audience: "x")
    private static let invalidGrant = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_grant"))

    private func live(_ broker: TestBroker, _ session: SignedIn) async throws -> LiveSession {
        try await broker.useCases.resumeSession.resume(session.token)
    }

    private func row(_ broker: TestBroker, _ session: SignedIn) async throws -> SessionRow {
        try #require(try await broker.store.session(tokenDigest: broker.vault.digest(session.token)))
    }

    private func rows(_ broker: TestBroker) throws -> [TargetTokenRow] {
        try #require(broker.store as? InMemoryStore).targetTokenRows
    }

    private func ask(
        _ broker: TestBroker, _ session: SignedIn, _ target: TokenTarget, insteadOf refused: AccessToken? = nil,
        by upstream: String = ""
    ) async throws -> AccessToken {
        try await broker.useCases.fetchTargetToken.accessToken(
            for: try await live(broker, session), at: target, insteadOf: refused, by: upstream)
    }

    /// Waits until two things are true: the provider has received `calls` refreshes in total; and the session's flight in the
    /// background has ended.
    private func quiet(_ broker: TestBroker, _ session: SignedIn, after calls: Int) async throws {
        let digest = broker.vault.digest(session.token)
        try await eventually("the flight in the background has ended") {
            broker.provider.refreshes == calls && broker.context.memory.flights.underWay(digest) == nil
        }
    }

    @Test(
        "The provider refuses a new token for a target, and the old one is still valid → the old one is served without a call",
        arguments: [("invalid_target", 2), ("invalid_grant", 3)])
    func refusedWhileLiving(_ code: String, _ calls: Int) async throws {
        let refusal = ProviderFailure.rejected(OAuthError(status: 400, code: code))
        let broker = try TestBroker(script: .init(targeted: [nil, refusal, refusal, refusal]))
        let session = try await broker.signIn()
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-1")
        broker.clock.advance(.seconds(3550))
        for _ in 0..<4 {
            #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-1")
            try await quiet(broker, session, after: calls)
            broker.clock.advance(.seconds(6))
        }
        #expect(await problem { try await ask(broker, session, Self.target("b")) }?.code == .providerError)
    }

    @Test("A target's token expires soon → the token is served at once, and the next one is fetched in the background")
    func beside() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-1")
        broker.clock.advance(.seconds(3590))
        broker.provider.gate.close()
        for _ in 0..<3 { #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-1") }
        try await eventually("the call is made") { broker.provider.gate.waiting == 1 }
        broker.provider.gate.open()
        try await quiet(broker, session, after: 2)
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-2")
    }

    @Test(
        "A target's new access token is unusable → the new refresh token is stored, and no call for the target for 30 s (SEC-57)"
    )
    func ofNoUse() async throws {
        let broker = try TestBroker(script: .init(isOfNoUse: "not a Bearer token"))
        let session = try await broker.signIn()
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
        let told = broker.events.all.compactMap {
            if case .tokenOfNoUse(_, _, _, let detail) = $0 { detail } else { nil }
        }
        #expect(try told == ["not a Bearer token"] && rows(broker).isEmpty)
        broker.clock.advance(.seconds(29))
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
        let live = try await live(broker, session)
        #expect(try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal() == "at-1")
        broker.provider.script.withLock { $0.isOfNoUse = nil }
        broker.clock.advance(.seconds(2))
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-2")
        #expect(broker.provider.script.withLock { $0.refreshes.last?.refreshToken.reveal() } == "rt-r1")
    }

    @Test(
        "A new id_token with a wrong `at_hash` names another user → the session ends; it names the same user → it stays (SEC-59)"
    )
    func strangers() async throws {
        let script = ScriptedProvider.Script(refreshedSubject: .unverifiable("at_hash", subject: "user-2"))
        let broker = try TestBroker(script: script)
        let session = try await broker.signIn()
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.reason == .subjectChanged)
        #expect(try await row(broker, session).endReason == .subjectChanged && rows(broker).isEmpty)
        // If the id_token names the session's own user, the broker only reports the fault of the id_token.
        let own = try TestBroker(script: .init(refreshedSubject: .unverifiable("at_hash", subject: "user-1")))
        let same = try await own.signIn()
        #expect(try await ask(own, same, Self.target("a")).token.reveal() == "a-1")
    }

    @Test(
        "The store fails to record that a new token's user was checked → 503, but no further refresh; later checks omit `at_hash`"
    )
    func unmarked() async throws {
        let broker = try TestBroker(script: .init(refreshedSubject: .subject("user-1")))
        let session = try await broker.signIn()
        let store = try #require(broker.store as? InMemoryStore)
        store.fail(.markSubjectChecked, [.refused, .refused])
        for _ in 0..<2 {
            #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
            broker.clock.advance(.seconds(3))
        }
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-1")
        #expect(broker.provider.refreshes == 1)
        #expect(broker.provider.script.withLock { $0.lookedAt } == ["a-1", "", ""])
    }

    @Test(
        "The answer for a target is unusable → no call for this target for two seconds; the session's other calls go out at once",
        arguments: [nil, "temporarily_unavailable", "slow_down"])
    func rests(_ code: String?) async throws {
        let failure =
            code.map { ProviderFailure.rejected(OAuthError(status: 400, code: $0)) }
            ?? ProviderFailure.unusable(detail: "no object")
        // After an unclear refusal, the broker makes a second call to confirm it.
        let calls = code == nil ? 1 : 2
        let failures: [ProviderFailure?] = Array(repeating: failure, count: calls)
        let broker = try TestBroker(script: .init(targeted: failures + [nil, nil]))
        let session = try await broker.signIn()
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
        _ = try await broker.useCases.refreshTokens.refreshNow(try await live(broker, session))
        #expect(try await ask(broker, session, Self.target("b")).token.reveal() == "b-\(calls + 2)")
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == calls + 2)
        broker.clock.advance(.seconds(2))
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-\(calls + 3)")
    }

    @Test(
        "The provider answers a target's call with `Retry-After: 20` → the session's next call for the target waits 20 s"
    )
    func restsForAsLong() async throws {
        let busy = ProviderFailure.retryable(status: 429, retryAfter: .seconds(20), detail: "")
        let broker = try TestBroker(script: .init(targeted: [busy, nil]))
        let session = try await broker.signIn()
        for seconds in [19, 1] {
            let refusal = await problem { try await ask(broker, session, Self.target("a")) }
            #expect(refusal?.code == .providerUnavailable && broker.provider.refreshes == 1)
            broker.clock.advance(.seconds(seconds))
        }
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-2")
    }

    @Test(
        "The provider refuses a token exchange with `invalid_client` → 502, and no further token exchange for a minute")
    func mayNotExchange() async throws {
        let refusal = ProviderFailure.rejected(OAuthError(status: 401, code: "invalid_client"))
        let broker = try TestBroker(script: .init(targeted: [refusal, refusal]))
        let session = try await broker.signIn()
        for _ in 0..<3 {
            #expect(await problem { try await ask(broker, session, Self.exchange) }?.code == .providerError)
            broker.clock.advance(.seconds(15))
        }
        #expect(broker.provider.script.withLock { $0.exchanges.count } == 1)
        _ = try await broker.useCases.refreshTokens.refreshNow(try await live(broker, session))
    }

    @Test(
        "A target's refusal concerns only one user, or is ten seconds old → two other sessions can request the target at once",
        arguments: ["access_denied", "consent_required", "interaction_required", "invalid_target"])
    func hindersNobody(_ code: String) async throws {
        let refusal = ProviderFailure.rejected(OAuthError(status: 400, code: code))
        let broker = try TestBroker(script: .init(targeted: [refusal]))
        let (first, second) = (try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2"))
        let third = try await broker.signIn(code: "c3")
        #expect(await problem { try await ask(broker, first, Self.target("a")) }?.code == .providerError)
        if code == "invalid_target" { broker.clock.advance(.seconds(10)) }
        broker.provider.gate.close()
        async let waiting = ask(broker, second, Self.target("a"))
        try await eventually("a call waits") { broker.provider.gate.waiting == 1 }
        broker.provider.gate.passNewcomers()
        #expect(try await ask(broker, third, Self.target("a")).token.reveal() == "a-3")
        broker.provider.gate.open()
        _ = try await waiting
    }

    @Test(
        "A session's tokens are unbound → the session's call for a target has no DPoP proof, so the refresh token stays unbound"
    )
    func bindsNothing() async throws {
        let before = try TestBroker()
        let session = try await before.signIn()
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, nonce: true)
        client.senderConstraint = .dpop
        let broker = try TestBroker(
            store: before.store, vault: before.vault, clients: [client], script: .init(binds: false),
            clock: before.clock)
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-2")
        let proofs = broker.provider.script.withLock { $0.refreshes.map { $0.proof != nil } }
        #expect(proofs == [true, false])
    }

    @Test(
        "The provider refuses a target → 502, and no call for it for a minute; the session and its other targets are unaffected",
        arguments: [
            "invalid_target", "invalid_scope", "unauthorized_client", "unsupported_grant_type", "consent_required",
        ])
    func refusedTarget(_ code: String) async throws {
        let refusal = ProviderFailure.rejected(OAuthError(status: 400, code: code))
        let broker = try TestBroker(script: .init(targeted: [refusal, nil, refusal, nil]))
        let session = try await broker.signIn()
        let before = try await row(broker, session)
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerError)
        #expect(try await row(broker, session).tokenVersion == before.tokenVersion)
        broker.clock.advance(.seconds(59))
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerError)
        #expect(broker.provider.refreshes == 1)
        #expect(try await ask(broker, session, Self.target("b")).token.reveal() == "b-2")
        broker.clock.advance(.seconds(2))
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerError)
        #expect(broker.provider.refreshes == 3)
        broker.clock.advance(.seconds(61))
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-4")
        #expect(try await row(broker, session).endedAt == nil)
    }

    @Test("The provider has voided the access token that an exchange needs → one plain refresh, then one more exchange")
    func voidedSubject() async throws {
        let broker = try TestBroker(script: .init(targeted: [Self.invalidGrant, nil]))
        let session = try await broker.signIn()
        #expect(try await ask(broker, session, Self.exchange).token.reveal() == "exchanged-2")
        let shown = broker.provider.script.withLock { $0.exchanges.map { $0.subjectToken.reveal() } }
        #expect(shown == ["at-1", "at-r1"])
        #expect(broker.provider.refreshes == 1)
    }

    @Test(
        "A target is refused for the client, and 5 s later for one user → a third user's call is made at once")
    func oneUsersRefusal() async throws {
        let ofClient = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_target"))
        let ofUser = ProviderFailure.rejected(OAuthError(status: 400, code: "consent_required"))
        let broker = try TestBroker(script: .init(targeted: [ofClient, ofUser, nil]))
        let (first, second) = (try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2"))
        let third = try await broker.signIn(code: "c3")
        #expect(await problem { try await ask(broker, first, Self.target("a")) }?.code == .providerError)
        broker.clock.advance(.seconds(5))
        #expect(await problem { try await ask(broker, second, Self.target("a")) }?.code == .providerError)
        #expect(try await ask(broker, third, Self.target("a")).token.reveal() == "a-3")
    }

    @Test(
        "A target is refused with `invalid_target` → for five seconds, the client's other sessions get 502 for it, without a call"
    )
    func refusedElsewhere() async throws {
        let refusal = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_target"))
        let broker = try TestBroker(script: .init(targeted: [refusal, nil]))
        let (first, second) = (try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2"))
        #expect(await problem { try await ask(broker, first, Self.target("a")) }?.code == .providerError)
        #expect(await problem { try await ask(broker, second, Self.target("a")) }?.code == .providerError)
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(5))
        #expect(try await ask(broker, second, Self.target("a")).token.reveal() == "a-2")
        // After the provider has granted a token for this target, other sessions may request the target again.
        broker.clock.advance(.seconds(56))
        #expect(try await ask(broker, first, Self.target("a")).token.reveal() == "a-3")
    }

    @Test(
        "A target gets `invalid_grant` → a plain refresh with the same refresh token follows; only its refusal ends the session",
        arguments: [Self.target("a"), Self.exchange])
    func invalidGrant(_ target: TokenTarget) async throws {
        // After a refused token exchange, the session's own token is refreshed, and the exchange is repeated once with the new
        // access token.
        let broker = try TestBroker(script: .init(targeted: [Self.invalidGrant, Self.invalidGrant]))
        let session = try await broker.signIn()
        let refused = await problem { try await ask(broker, session, target) }
        #expect(refused?.code == .providerError && refused?.providerError == "invalid_grant")
        let calls = broker.provider.script.withLock { $0.refreshes }
        #expect(calls.last?.target == nil && calls.last?.refreshToken.reveal() == "rt-1")
        #expect(Set(calls.map(\.idempotencyKey)).count == calls.count)
        let after = try await row(broker, session)
        #expect(after.endedAt == nil && after.tokenVersion == 2)
        #expect(broker.provider.script.withLock { $0.exchanges.count } == (target == Self.exchange ? 2 : 0))
        // If the grant is dead, the provider also refuses the refresh of the session's own token.
        let other = try TestBroker(script: .init(refresh: [Self.invalidGrant], targeted: [Self.invalidGrant]))
        let dead = try await other.signIn()
        #expect(await problem { try await ask(other, dead, target) }?.reason == .grantRevoked)
        #expect(try await row(other, dead).endReason == .grantRevoked)
    }

    @Test(
        "The provider refuses a target eight times → the refusals do not count against the grant, and the session stays"
    )
    func notCounted() async throws {
        let empty = ProviderFailure.rejected(OAuthError(status: 401, code: ""))
        let away = ProviderFailure.retryable(status: 503, retryAfter: nil, detail: "")
        let broker = try TestBroker(
            script: .init(
                refresh: Array(repeating: away, count: 8), targeted: Array(repeating: empty, count: 8)))
        let session = try await broker.signIn()
        for number in 0..<8 {
            broker.clock.advance(.seconds(120))
            if number == 2 { _ = try await broker.signIn(code: "c2") }
            #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
        }
        #expect(broker.provider.refreshes == 16)
        #expect(try await row(broker, session).endedAt == nil)
    }

    @Test(
        "The answer for a target is lost → one repeat with the same idempotency key; a later `invalid_grant` gives `refresh_lost`"
    )
    func lost() async throws {
        let lost = ProviderFailure.lost(detail: "")
        let broker = try TestBroker(script: .init(refresh: [Self.invalidGrant], targeted: [lost, lost]))
        let session = try await broker.signIn()
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
        let calls = broker.provider.script.withLock { $0.refreshes }
        #expect(calls.map(\.recovering) == [false, true] && calls.allSatisfy { $0.target == Self.target("a") })
        #expect(calls[0].idempotencyKey == calls[1].idempotencyKey)
        broker.clock.advance(.seconds(3601))
        let live = try await live(broker, session)
        #expect(
            await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }?.reason == .refreshLost)
    }

    @Test(
        "An upstream refuses a target's token with 401 → this target gets a newer token; the session's other tokens stay"
    )
    func versions() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let own = try await broker.useCases.refreshTokens.accessToken(for: try await live(broker, session))
        let (first, other) = (
            try await ask(broker, session, Self.target("a")), try await ask(broker, session, Self.target("b"))
        )
        // The session's own token and its version stay unchanged, although the row's version has risen.
        let still = try await broker.useCases.refreshTokens.accessToken(for: try await live(broker, session))
        #expect(still.token.reveal() == own.token.reveal() && still.version == own.version)
        #expect(try await row(broker, session).tokenVersion == 3)
        let newer = try await ask(broker, session, Self.target("a"), insteadOf: first)
        #expect(newer.token.reveal() == "a-3" && newer.version > first.version)
        // A second caller's upstream refused the same token. Its replacement is already stored, so the second caller gets this
        // newer token.
        #expect(try await ask(broker, session, Self.target("a"), insteadOf: first).token.reveal() == "a-3")
        #expect(try await ask(broker, session, Self.target("b")).token.reveal() == other.token.reveal())
        let forced = try await broker.useCases.refreshTokens.accessToken(
            for: try await live(broker, session), insteadOf: own)
        #expect(forced.token.reveal() == "at-r4" && forced.version > own.version)
        let again = try await broker.useCases.refreshTokens.accessToken(
            for: try await live(broker, session), insteadOf: own)
        #expect(again.token.reveal() == "at-r4")
        #expect(broker.provider.refreshes == 4)
        broker.clock.advance(.seconds(60))
        _ = try await broker.useCases.refreshTokens.refreshNow(try await live(broker, session))
        #expect(broker.provider.refreshes == 5)
    }

    @Test(
        "640 callers want eight targets → one call for each target, one after the other; each refresh token is sent once"
    )
    func many() async throws {
        let broker = try TestBroker(
            settings: {
                var settings = BrokerSettings(); settings.waiterPatience = .seconds(60); return settings
            }())
        let session = try await broker.signIn()
        let live = try await live(broker, session)
        let tokens = try await withThrowingTaskGroup(of: (String, String).self) { group in
            for number in 0..<640 {
                group.addTask {
                    let name = "api\(number % 8)"
                    let token = try await broker.useCases.fetchTargetToken.accessToken(for: live, at: Self.target(name))
                    return (name, token.token.reveal())
                }
            }
            return try await group.reduce(into: [String: Set<String>]()) { $0[$1.0, default: []].insert($1.1) }
        }
        #expect(tokens.count == 8 && tokens.values.allSatisfy { $0.count == 1 })
        let sent = broker.provider.script.withLock { $0.refreshes.map { $0.refreshToken.reveal() } }
        #expect(sent == ["rt-1"] + (1...7).map { "rt-r\($0)" })
    }

    @Test(
        "A token exchange brings a refresh token → it is dropped, and the row stays; the session's expired token is renewed first"
    )
    func exchanged() async throws {
        let broker = try TestBroker(script: .init(refreshTokenLifetime: .seconds(86_400)))
        let session = try await broker.signIn()
        let before = try await row(broker, session)
        let first = try await ask(broker, session, Self.exchange)
        #expect(first.token.reveal() == "exchanged-1")
        #expect(broker.provider.script.withLock { $0.exchanges.first?.subjectToken.reveal() } == "at-1")
        let after = try await row(broker, session)
        #expect(after.tokenVersion == before.tokenVersion && after.tokens == before.tokens)
        let kept = try #require(try rows(broker).first)
        let record = try StoredTokens(record: try broker.vault.open(kept.tokens, as: .targetToken, row: kept.key))
        #expect(record.tokens.refreshToken == nil && record.tokens.idToken == nil)
        #expect(record.tokens.refreshExpiresAt == nil)
        #expect(try await ask(broker, session, Self.exchange).token.reveal() == "exchanged-1")
        #expect(try await ask(broker, session, Self.exchange, insteadOf: first).token.reveal() == "exchanged-2")
        // The session's own token has expired. So it is refreshed before the token exchange.
        broker.clock.advance(.seconds(3601))
        #expect(try await ask(broker, session, Self.exchange).token.reveal() == "exchanged-3")
        #expect(broker.provider.script.withLock { $0.exchanges.last?.subjectToken.reveal() } == "at-r1")
        #expect(try await row(broker, session).tokenVersion == before.tokenVersion + 1)
    }

    @Test("The upstreams of two targets refuse each new token → one forced refresh for each target in a minute")
    func alternating() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        var (a, b) = (
            try await ask(broker, session, Self.target("a")), try await ask(broker, session, Self.target("b"))
        )
        a = try await ask(broker, session, Self.target("a"), insteadOf: a, by: "one")
        b = try await ask(broker, session, Self.target("b"), insteadOf: b, by: "two")
        #expect(broker.provider.refreshes == 4)
        for _ in 0..<5 {
            let first = await problem { try await ask(broker, session, Self.target("a"), insteadOf: a, by: "one") }
            let second = await problem { try await ask(broker, session, Self.target("b"), insteadOf: b, by: "two") }
            #expect(first?.code == .notRefreshable && second?.code == .notRefreshable)
        }
        // An ordinary call, which accepts any valid token, gets the stored token.
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == a.token.reveal())
        #expect(broker.provider.refreshes == 4)
        broker.clock.advance(.seconds(120))
        #expect(
            try await ask(broker, session, Self.target("a"), insteadOf: a, by: "one").token.reveal()
                != a.token.reveal())
    }

    @Test(
        "Fetching a target's next token fails → the old one is served while it lives; a stored one does not open → fetched again"
    )
    func living() async throws {
        let away = ProviderFailure.retryable(status: 503, retryAfter: nil, detail: "")
        let broker = try TestBroker(script: .init(targeted: [nil, away, away, nil]))
        let session = try await broker.signIn()
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-1")
        broker.clock.advance(.seconds(3590))
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-1")
        try await quiet(broker, session, after: 2)
        broker.clock.advance(.seconds(20))
        #expect(await problem { try await ask(broker, session, Self.target("a")) }?.code == .providerUnavailable)
        broker.clock.advance(.seconds(3))
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-4")
        // If an attacker moves a row to another session or target, the row's sealed value cannot be opened.
        let kept = try #require(try rows(broker).first)
        #expect(throws: VaultFailure.doesNotOpen) {
            try broker.vault.open(kept.tokens, as: .targetToken, row: broker.vault.digest([1]))
        }
        #expect(throws: VaultFailure.doesNotOpen) {
            try broker.vault.open(kept.tokens, as: .tokens, row: kept.key)
        }
        let administered = try #require(broker.store as? InMemoryStore)
        let damaged = Sealed(keyID: kept.tokens.keyID, envelope: kept.tokens.envelope.reversed())
        let old = SealedRow(place: .targetTokens, key: kept.key, boundTo: kept.key, sealed: kept.tokens)
        #expect(try await administered.reseal([ResealedRow(old, new: damaged)]) == 1)
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() == "a-5")
        let isTold = broker.events.all.contains {
            if case .rowDidNotOpen(.targetToken, unknownKey: false) = $0 { true } else { false }
        }
        #expect(isTold)
        #expect(try await row(broker, session).endedAt == nil)
    }

    @Test(
        "A target's new token is not bound to the session's key → withheld and fetched again later; the refresh token is stored",
        arguments: [Self.target("a"), Self.exchange])
    func notBound(_ target: TokenTarget) async throws {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
        client.senderConstraint = .dpop
        let broker = try TestBroker(clients: [client])
        let session = try await broker.signIn()
        broker.provider.script.withLock { ($0.binds, $0.exchangeBinds) = (false, false) }
        let refused = await problem { try await ask(broker, session, target) }
        #expect(refused?.code == .providerUnavailable)
        #expect(try rows(broker).isEmpty)
        #expect(broker.events.all.count { if case .tokenNotBound = $0 { true } else { false } } == 1)
        let calls = broker.provider.script.withLock { $0.refreshes.count + $0.exchanges.count }
        broker.clock.advance(.seconds(10))
        #expect(await problem { try await ask(broker, session, target) }?.code == .providerUnavailable)
        #expect(broker.provider.script.withLock { $0.refreshes.count + $0.exchanges.count } == calls)
        broker.provider.script.withLock { ($0.binds, $0.exchangeBinds) = (true, true) }
        broker.clock.advance(.seconds(30))
        let token = try await ask(broker, session, target)
        #expect(token.credential == .dpop && token.key != nil)
        let own = try await broker.useCases.refreshTokens.accessToken(for: try await live(broker, session))
        #expect(own.token.reveal() == "at-1" && own.key?.publicKey == token.key?.publicKey)
        if target.grant == .refresh {
            #expect(broker.provider.script.withLock { $0.refreshes.last?.refreshToken.reveal() } == "rt-r1")
        }
    }

    @Test(
        "A step-up begins a new grant → the old grant's target tokens are dropped and fetched again, even for a call in progress"
    )
    func steppedUp() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let old = try await ask(broker, session, Self.target("a"))
        var input = StartLoginInput(provider: nil)
        input.demand = StepUpDemand(contextClasses: ["mfa"])
        input.steppingUp = try await live(broker, session)
        let login = try await broker.useCases.startLogin.start(input)
        let at = broker.clock.now.since(WallTime(seconds: 0)).wholeSeconds
        broker.provider.script.withLock { $0.signIn = SignInFacts(contextClass: "mfa", authenticatedAt: at) }
        // A call that uses the old grant is still at the provider when the step-up is committed.
        let before = try await live(broker, session)
        broker.provider.gate.close()
        async let late = problem {
            try await broker.useCases.fetchTargetToken.accessToken(for: before, at: Self.target("b"))
        }
        try await eventually("a call waits at the provider") { broker.provider.gate.waiting > 0 }
        broker.provider.gate.passNewcomers()
        var forward = ForwardCodeInput()
        forward.callbackURL = broker.callback(login, code: "code-2")
        forward.loginToken = login.loginToken
        forward.presentedSession = session.token
        _ = try await broker.useCases.forwardCode.forward(forward)
        #expect(try rows(broker).isEmpty)
        broker.provider.gate.open()
        // The token is requested again with the new grant's refresh token, which is used for the first time.
        #expect(await late == nil)
        #expect(broker.provider.script.withLock { $0.refreshes.last?.refreshToken.reveal() } == "rt-2")
        #expect(try rows(broker).count == 1)
        // The outbox has the old grant's token pair, which will be revoked.
        #expect(try await broker.store.outboxCount() == 2)
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() != old.token.reveal())
    }

    @Test(
        "A step-up keeps the grant → target tokens go, even those of calls in progress; the step-up's access token stays",
        arguments: [false, true])
    func lent(_ isExchange: Bool) async throws {
        let broker = try TestBroker(script: .init(onlyRefreshToken: "rt"))
        let session = try await broker.signIn()
        let target = isExchange ? Self.exchange : Self.target("b")
        let old = try await ask(broker, session, Self.target("a"))
        let refusal = ProviderFailure.rejected(OAuthError(status: 400, code: "consent_required"))
        broker.provider.script.withLock { $0.targeted = [refusal] }
        #expect(await problem { try await ask(broker, session, Self.target("c")) }?.code == .providerError)
        var input = StartLoginInput(provider: nil)
        input.demand = StepUpDemand(contextClasses: ["mfa"])
        input.steppingUp = try await live(broker, session)
        let login = try await broker.useCases.startLogin.start(input)
        broker.provider.script.withLock { $0.signIn = SignInFacts(contextClass: "mfa") }
        let before = try await live(broker, session)
        broker.provider.gate.close()
        async let late = broker.useCases.fetchTargetToken.accessToken(for: before, at: target)
        try await eventually("a call waits at the provider") { broker.provider.gate.waiting > 0 }
        broker.provider.gate.passNewcomers()
        var forward = ForwardCodeInput()
        forward.callbackURL = broker.callback(login, code: "code-2")
        forward.loginToken = login.loginToken
        forward.presentedSession = session.token
        _ = try await broker.useCases.forwardCode.forward(forward)
        #expect(try rows(broker).isEmpty)
        broker.provider.gate.open()
        _ = try await late
        let calls = broker.provider.script.withLock { $0.refreshes.count + $0.exchanges.count }
        #expect(try calls == 4 && rows(broker).count == 1)
        if isExchange {
            #expect(broker.provider.script.withLock { $0.exchanges.last?.subjectToken.reveal() } == "at-2")
        }
        // The session's own access token is still the one from the step-up's sign-in.
        let own = try await broker.useCases.refreshTokens.accessToken(for: try await live(broker, session))
        #expect(own.token.reveal() == "at-2")
        #expect(try await ask(broker, session, Self.target("a")).token.reveal() != old.token.reveal())
        // The target was refused before. But the user has signed in again and may have consented to it, so it is requested
        // again.
        _ = try await ask(broker, session, Self.target("c"))
    }

    @Test(
        "A child session asks for a target's token → it gets its parent's, and can force a newer one at most once a minute"
    )
    func child() async throws {
        let (broker, parent, child) = try await family()
        let tokens = broker.useCases.fetchTargetToken
        let first = try await tokens.accessToken(for: child, at: Self.target("a"))
        #expect(try await ask(broker, parent, Self.target("a")).token.reveal() == first.token.reveal())
        let refused = await problem {
            try await tokens.accessToken(for: child, at: Self.target("a"), insteadOf: first)
        }
        #expect(refused?.code == .notRefreshable && broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(60))
        let second = try await tokens.accessToken(for: child, at: Self.target("a"), insteadOf: first)
        #expect(second.version != first.version && broker.provider.refreshes == 2)
    }

    @Test(
        "An upstream refused a newer token than the stored one → its session gets a new token, a child `not_refreshable`"
    )
    func olderThanRefused() async throws {
        let (broker, parent, child) = try await family()
        let tokens = broker.useCases.fetchTargetToken
        let stored = try await tokens.accessToken(for: child, at: Self.target("a"))
        let refused = stored.successor
        let problem = await problem {
            try await tokens.accessToken(for: child, at: Self.target("a"), insteadOf: refused)
        }
        #expect(problem?.code == .notRefreshable && broker.provider.refreshes == 1)
        // The fetch for another API gets the number that the refused token has.
        _ = try await ask(broker, parent, Self.target("b"))
        let newer = try await ask(broker, parent, Self.target("a"), insteadOf: refused)
        #expect(newer.version > refused.version && broker.provider.refreshes == 3)
    }

    private func family() async throws -> (TestBroker, parent: SignedIn, child: LiveSession) {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
        client.children = [ChildKind(unchecked: "widget"): ChildPolicy()]
        let broker = try TestBroker(clients: [client])
        let parent = try await broker.signIn()
        let made = try await broker.useCases.makeChild.make(
            ChildOrder(kind: ChildKind(unchecked: "widget"), name: "home"), of: try await live(broker, parent))
        return (broker, parent, try await broker.useCases.resumeSession.resume(made.token))
    }

    @Test(
        "A stored record has the new member `accessVersion` → an older release reads all members that it knows (SEC-130)"
    )
    func releaseBefore() throws {
        let broker = try TestBroker()
        let (subject, sid) = (broker.vault.digest([1]), broker.vault.digest([2]))
        var stored = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
            tokens: TokenSet(accessToken: Secret("at"), refreshToken: Secret("rt")), issuedAt: broker.clock.now,
            origin: SignInOrigin(subject: subject, sid: sid))
        stored.accessVersion = 7
        let read = try StoredTokens(record: stored.record)
        #expect(read.accessVersion == 7 && read.access(version: 9).version == 7 && read.uncheckedIDToken == nil)
        stored.accessVersion = nil
        #expect(try StoredTokens(record: stored.record).access(version: 9).version == 9)
        stored.accessVersion = 7
        // An older release ignores all bytes after the members that it knows.
        var reader = try RecordReader(stored.record, format: 1)
        #expect(try [reader.string(), reader.string(), reader.string()] == ["as", "ios", "bearer"])
        #expect(try reader.secret().reveal() == "at")
        #expect(try reader.optionalSecret()?.reveal() == "rt" && reader.optionalSecret() == nil)
        #expect(try !reader.flag() && reader.optionalTime() == nil && reader.optionalTime() == nil)
        #expect(try reader.integer() == broker.clock.now.milliseconds && reader.optionalSecret() == nil)
        #expect(try Base64URL.decode(reader.string()).flatMap(Digest.init) == subject)
        #expect(try Base64URL.decode(reader.string()).flatMap(Digest.init) == sid)
        #expect(!reader.isAtEnd)
    }
}
