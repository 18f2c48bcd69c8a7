import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Forced refreshes, which an upstream's 401 or an app asks for.
///
/// Their limits keep the provider's capacity free for other users (guarantee 2).
@Suite("Forced refreshes", .timeLimit(.minutes(1))) struct ForcedRefreshTests {
    private func live(_ broker: TestBroker, _ session: SignedIn) async throws -> LiveSession {
        try await broker.useCases.resumeSession.resume(session.token)
    }

    /// Gets an access token, lets the upstream refuse it, and asks for a newer one, as the relay does.
    ///
    /// Returns the newer token; nil if the broker refuses to refresh.
    private func refusedCall(
        _ broker: TestBroker, _ session: SignedIn, at upstream: String = "api"
    ) async throws -> AccessToken? {
        let tokens = broker.useCases.refreshTokens
        // The call may have begun a refresh in the background. Wait for its end, because a newer token would make the forced
        // refresh unnecessary.
        _ = try await tokens.accessToken(for: live(broker, session))
        let digest = broker.vault.digest(session.token)
        try await eventually("the refresh in the background has ended") {
            broker.context.memory.flights.underWay(digest) == nil
        }
        let live = try await live(broker, session)
        let first = try await tokens.accessToken(for: live)
        do throws(BrokerProblem) {
            return try await tokens.accessToken(for: live, insteadOf: first, at: upstream)
        } catch {
            #expect(error.code == .notRefreshable)
            return nil
        }
    }

    @Test(
        "An upstream refuses twenty calls of a session within a minute → one forced refresh; a minute later, another one"
    )
    func refusingUpstream() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        for number in 0..<20 { #expect(try await refusedCall(broker, session) != nil || number > 0) }
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(59))
        #expect(try await refusedCall(broker, session) == nil)
        broker.clock.advance(.seconds(1))
        #expect(try await refusedCall(broker, session) != nil)
        #expect(broker.provider.refreshes == 2)
    }

    @Test("A token comes from a forced refresh → for a minute, no other upstream can force a refresh of this session")
    func otherUpstream() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        #expect(try await refusedCall(broker, session, at: "one") != nil)
        #expect(try await refusedCall(broker, session, at: "two") == nil)
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(60))
        #expect(try await refusedCall(broker, session, at: "two") != nil)
    }

    @Test(
        "An upstream refuses each new token → the pause between forced refreshes doubles up to 1 h, even if tokens live 10 min"
    )
    func doubling() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(600)))
        let session = try await broker.signIn()
        var forced: [Int] = []
        for second in stride(from: 0, to: 5 * 3600, by: 60) {
            if try await refusedCall(broker, session) != nil { forced.append(second) }
            broker.clock.advance(.seconds(60))
        }
        let pauses = zip(forced.dropFirst(), forced).map { $0 - $1 }
        #expect(pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600])
        let told = broker.events.all.compactMap { event -> Duration? in
            if case .upstreamKeepsRefusing(_, _, _, "api", let pause) = event { pause } else { nil }
        }
        #expect(told == pauses.map { .seconds($0) }.dropFirst() + [.seconds(3600)])
        // The limit applies only to this upstream. Calls to another upstream can still force a refresh.
        #expect(try await refusedCall(broker, session, at: "other") != nil)
    }

    @Test(
        "An upstream accepts each token from a forced refresh until it expires → the pause between forced refreshes does not grow"
    )
    func accepting() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(600)))
        let session = try await broker.signIn()
        for _ in 0..<10 {
            #expect(try await refusedCall(broker, session) != nil)
            broker.clock.advance(.seconds(600))
            // The access token has expired, so this refresh does not count as forced.
            _ = try await broker.useCases.refreshTokens.accessToken(for: try await live(broker, session))
        }
    }

    @Test(
        "An upstream refuses a token from an ordinary refresh → a forced refresh at once; it refuses this token, too → no refresh"
    )
    func ordinary() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(100)))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(101))
        _ = try await broker.useCases.refreshTokens.accessToken(for: try await live(broker, session))
        #expect(try await refusedCall(broker, session) != nil)
        #expect(broker.provider.refreshes == 2)
        #expect(try await refusedCall(broker, session) == nil)
    }

    @Test("Upstreams refuse forty calls of a session at two replicas → at most two refreshes")
    func replicas() async throws {
        let one = try TestBroker()
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider, clock: one.clock)
        let session = try await one.signIn()
        for _ in 0..<20 {
            _ = try await refusedCall(one, session)
            two.context.cache.clear()
            _ = try await refusedCall(two, session)
            one.context.cache.clear()
        }
        #expect(one.provider.refreshes <= 2)
    }

    @Test(
        "An app refreshes its session in a loop → one provider call a minute; the other calls return the stored session"
    )
    func loop() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        for second in 0..<300 {
            let view = try await broker.useCases.refreshTokens.refreshNow(try await live(broker, session))
            #expect(view.handle == session.session.handle)
            #expect(broker.provider.refreshes == second / 60 + 1)
            broker.clock.advance(.seconds(1))
        }
    }

    @Test("Six sessions refresh in a loop, while twelve other users sign in → at most twenty provider calls altogether")
    func twentyCallsASecond() async throws {
        let broker = try TestBroker()
        var sessions: [SignedIn] = []
        for number in 0..<6 { sessions.append(try await broker.signIn(code: "s\(number)")) }
        broker.clock.advance(.seconds(1))
        let before = broker.provider.grants + broker.provider.refreshes
        for round in 0..<12 {
            for session in sessions {
                _ = try await broker.useCases.refreshTokens.refreshNow(try await live(broker, session))
                _ = try await refusedCall(broker, session)
            }
            _ = try await broker.signIn(code: "other-\(round)")
        }
        #expect(broker.provider.grants + broker.provider.refreshes - before <= 20)
    }

    @Test(
        "Eight sessions of one user refresh, with room for twelve calls → three at a time; another user's refresh goes out, too"
    )
    func share() async throws {
        let broker = try TestBroker(script: .init(places: 12))
        var sessions: [LiveSession] = []
        for number in 0..<8 {
            sessions.append(try await live(broker, try await broker.signIn(code: "c\(number)")))
        }
        broker.provider.script.withLock { $0.subject = "user-2" }
        let other = try await live(broker, try await broker.signIn(code: "other"))
        broker.provider.gate.close()
        let refreshes = broker.useCases.refreshTokens
        let answers = sessions.map { session in Task { try await refreshes.refreshNow(session) } }
        try await eventually("the first user has three calls at the provider") { broker.provider.gate.waiting == 3 }
        let others = Task { try await refreshes.refreshNow(other) }
        try await eventually("the second user's call is at the provider") { broker.provider.gate.waiting == 4 }
        await broker.settled()
        #expect(broker.provider.gate.waiting == 4)
        broker.provider.gate.open()
        for answer in answers + [others] { _ = try await answer.value }
        #expect(broker.provider.refreshes == 9)
    }

    @Test(
        "A thousand sessions force refreshes → the table of forced refreshes stays bounded, and keeps the last used session"
    )
    func bounded() throws {
        let (forced, vault) = (ForcedRefreshes(capacity: 50), try TestBroker().vault)
        let (kept, pause) = (vault.digest([0]), Duration.seconds(60))
        for number in 0..<1_000 {
            let session = vault.digest(Array("\(number)".utf8) + [1])
            _ = forced.forced(session, nil, bringing: 2, for: .app, at: .zero, pause: pause)
            _ = forced.forced(kept, nil, bringing: 2, for: .app, at: .zero, pause: pause)
            #expect(forced.count <= 100)
        }
        #expect(!forced.mayForce(kept, nil, insteadOf: 2, for: .app, at: .seconds(59), pause: pause))
        // A question about an unknown session leaves the register unchanged.
        let before = forced.count
        #expect(forced.mayForce(vault.digest([9]), nil, insteadOf: 1, for: .upstream("api"), at: .zero, pause: pause))
        #expect(forced.count == before)
    }

    // MARK: Tokens that another replica has stored

    @Test(
        "A refresh finds another replica's newer tokens → they are returned at once, without a call, also to later callers"
    )
    func storedElsewhere() async throws {
        let one = try TestBroker()
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider, clock: one.clock)
        let session = try await one.signIn()
        let known = try await live(two, session)
        #expect(try await two.useCases.refreshTokens.accessToken(for: known).token.reveal() == "at-1")
        _ = try await one.useCases.refreshTokens.refreshNow(try await live(one, session))
        let view = try await two.useCases.refreshTokens.refreshNow(known)
        #expect(one.provider.refreshes == 1)
        let row = try #require(try await one.store.session(handle: session.session.handle))
        #expect(view.tokensExpireAt == row.tokenExpiresAt)
        let next = try await live(two, session)
        #expect(try await two.useCases.refreshTokens.accessToken(for: next).token.reveal() == "at-r1")
    }

    @Test(
        "A call's token was refused, and another replica has stored a newer one → this call and later ones get the newer token"
    )
    func refusedElsewhere() async throws {
        let one = try TestBroker()
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider, clock: one.clock)
        let session = try await one.signIn()
        _ = try await live(two, session)
        _ = try await one.useCases.refreshTokens.refreshNow(try await live(one, session))
        #expect(try await refusedCall(two, session)?.token.reveal() == "at-r1")
        let next = try await live(two, session)
        #expect(try await two.useCases.refreshTokens.accessToken(for: next).token.reveal() == "at-r1")
        #expect(one.provider.refreshes == 1)
    }

    @Test(
        "A forced refresh's token is refused within a minute, and another replica has a newer one → all calls get the newer one"
    )
    func refusedWithinThePause() async throws {
        let one = try TestBroker()
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider, clock: one.clock)
        let session = try await one.signIn()
        #expect(try await refusedCall(two, session)?.token.reveal() == "at-r1")
        let (known, tokens) = (try await live(two, session), two.useCases.refreshTokens)
        let refused = try await tokens.accessToken(for: known)
        one.context.cache.clear()
        _ = try await one.useCases.refreshTokens.refreshNow(try await live(one, session))
        let newer = try await tokens.accessToken(for: known, insteadOf: refused, at: "api")
        #expect(newer.token.reveal() == "at-r2" && one.provider.refreshes == 2)
        #expect(try await tokens.accessToken(for: try await live(two, session)).token.reveal() == "at-r2")
    }

    @Test(
        "A token is refused, and another replica's newer token has an unchecked user → calls get it only after a check (SEC-59)"
    )
    func uncheckedElsewhere() async throws {
        let one = try TestBroker()
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider, clock: one.clock)
        let session = try await one.signIn()
        #expect(try await refusedCall(two, session)?.token.reveal() == "at-r1")
        let (known, tokens) = (try await live(two, session), two.useCases.refreshTokens)
        let refused = try await tokens.accessToken(for: known)
        // Another replica has committed a refresh, but has not checked its id_token yet.
        let row = try await one.row(of: session)
        let commit = RefreshCommit(
            tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion, tokens: try #require(row.tokens), facts: nil,
            tokenExpiresAt: row.tokenExpiresAt, refreshable: true, expiresAt: nil, subjectUnchecked: true)
        #expect(try await one.store.commitRefresh(commit) == .committed)
        let refusal = await problem { try await tokens.accessToken(for: known, insteadOf: refused, at: "api") }
        #expect(refusal?.code == .notRefreshable && one.provider.refreshes == 1)
        try await one.store.markSubjectChecked(tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion + 1)
        let newer = try await tokens.accessToken(for: known, insteadOf: refused, at: "api")
        #expect(newer.version == refused.version + 1)
    }

    @Test(
        "An app refreshes again within a minute → no call; the stored session is returned, with another replica's step-up"
    )
    func withinThePause() async throws {
        let one = try TestBroker()
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider, clock: one.clock)
        let session = try await one.signIn()
        _ = try await two.useCases.refreshTokens.refreshNow(try await live(two, session))
        let known = try await live(two, session)
        let row = try #require(try await one.store.session(handle: session.session.handle))
        var facts = try SessionFacts.open(row, one.vault)
        facts.signIn = SignInFacts(contextClass: "mfa")
        _ = try await one.store.commitRefresh(
            RefreshCommit(
                tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion, tokens: try #require(row.tokens),
                facts: try one.vault.seal(facts.record, as: .session, row: row.tokenDigest),
                formerFacts: row.facts, tokenExpiresAt: row.tokenExpiresAt, refreshable: true, expiresAt: nil))
        #expect(try await two.useCases.refreshTokens.refreshNow(known).signIn.contextClass == "mfa")
        #expect(one.provider.refreshes == 1)
    }
}
