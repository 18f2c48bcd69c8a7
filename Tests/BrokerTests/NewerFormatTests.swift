import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

/// A process that finds a value of a newer version leaves the value unchanged.
///
/// The process answers 503, and the session stays (SEC-130, guarantee 3).
@Suite("Sealed records of a newer format", .timeLimit(.minutes(2))) struct NewerFormatTests {
    /// Opens a sealed value, raises its format byte to that of a newer version, and seals it again.
    private func raised(
        _ sealed: Sealed, _ kind: SealedKind, _ row: Digest, _ broker: TestBroker
    ) throws -> Sealed {
        var record = try broker.vault.open(sealed, as: kind, row: row)
        // Raise the format by four, because the formats between are already used: for a bound record, a child or certificate, a
        // login with a key, and a step-up's login.
        record[0] += 4
        return try broker.vault.seal(record, as: kind, row: row)
    }

    /// A session whose facts or tokens a newer version has sealed.
    private func session(facts: Bool) async throws -> (broker: TestBroker, session: SignedIn, row: SessionRow) {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let row = try #require(try await broker.store.session(handle: session.session.handle))
        let tokens = try #require(row.tokens)
        let result = try await broker.store.commitRefresh(
            RefreshCommit(
                tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion,
                tokens: facts ? tokens : try raised(tokens, .tokens, row.tokenDigest, broker),
                facts: facts ? try raised(row.facts, .session, row.tokenDigest, broker) : nil,
                tokenExpiresAt: row.tokenExpiresAt, refreshable: true, expiresAt: nil))
        #expect(result == .committed)
        return (broker, session, row)
    }

    @Test("The sealed facts of a session have a newer format → 503, and the session lives", .timeLimit(.minutes(1)))
    func facts() async throws {
        let (broker, session, row) = try await session(facts: true)
        for _ in 0..<2 {
            let problem = await problem { try await broker.useCases.resumeSession.resume(session.token) }
            #expect(problem?.code == .storeUnavailable && problem?.retryAfter != nil)
        }
        await broker.settled()
        #expect(try await broker.store.session(tokenDigest: row.tokenDigest)?.endedAt == nil)
        #expect(try await broker.store.outboxCount() == 0)
    }

    @Test(
        "An operator ends all unbound sessions → sessions with unreadable records stay, and the answer gives their number",
        .timeLimit(.minutes(1))
    )
    func unbound() async throws {
        let (broker, _, row) = try await session(facts: true)
        let other = try await broker.signIn(code: "code-2")
        let filter = AdminSessions.Filter(provider: ProviderName(unchecked: "as"))
        let part = try await broker.useCases.adminSessions.endUnbound(filter, cursor: nil, actor: "ops")
        #expect(part.ended == 1 && part.unreadable == 1 && part.nextCursor == nil)
        #expect(try await broker.store.session(tokenDigest: row.tokenDigest)?.endedAt == nil)
        #expect(try await broker.store.session(handle: other.session.handle)?.endReason == .admin)
    }

    @Test("The sealed tokens of a session have a newer format → 503, and the session lives", .timeLimit(.minutes(1)))
    func tokens() async throws {
        let (broker, session, row) = try await session(facts: false)
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let problem = await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
        #expect(problem?.code == .storeUnavailable)
        await broker.settled()
        #expect(try await broker.store.session(tokenDigest: row.tokenDigest)?.endedAt == nil)
    }

    @Test(
        "A session's record was tampered with, and has no newer format → the session ends with `integrity` (SEC-48)",
        .timeLimit(.minutes(1)))
    func tampered() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let row = try #require(try await broker.store.session(handle: session.session.handle))
        let tokens = try #require(row.tokens)
        _ = try await broker.store.commitRefresh(
            RefreshCommit(
                tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion, tokens: tokens,
                facts: Sealed(keyID: row.facts.keyID, envelope: tokens.envelope), tokenExpiresAt: nil,
                refreshable: true, expiresAt: nil))
        #expect(await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .integrity)
    }

    @Test(
        "A login's record has a newer format → a forward gets 503, and the login stays pending", .timeLimit(.minutes(1))
    )
    func login() async throws {
        let broker = try TestBroker()
        let started = try await broker.start()
        let state = broker.vault.digest(started.state)
        let row = try #require(try await broker.store.login(state: state))
        let other = try TestBroker(vault: broker.vault)
        var newer = row
        newer.sealed = try raised(row.sealed, .login, state, broker)
        _ = try await other.store.insertLogin(newer, limits: LoginLimits())
        let problem = await problem { try await other.forward(other.callback(started), started.loginToken) }
        #expect(problem?.code == .storeUnavailable)
        #expect(try await other.store.login(state: state)?.status == .pending)
    }

    @Test(
        "A registration's or handoff's record has a newer format → 503; a record is invalid → treated as expired",
        .timeLimit(.minutes(1))
    )
    func registration() async throws {
        let broker = try TestBroker()
        let key = broker.vault.digest(Array("key".utf8))
        var row = RegistrationRow(
            key: key, loginTokenDigest: nil, createdAt: broker.clock.now,
            expiresAt: broker.clock.now.advanced(by: .seconds(60)),
            sealed: try broker.vault.seal([3], as: .registration, row: key))
        #expect(await problem { try RegistrationSecrets.open(row, broker.vault) }?.code == .storeUnavailable)
        row.sealed = try broker.vault.seal([0], as: .registration, row: key)
        #expect(await problem { try RegistrationSecrets.open(row, broker.vault) }?.code == .stateKeyExpired)

        for (format, code) in [(UInt8(3), ProblemCode.storeUnavailable), (1, .handoffExpired)] {
            let handoff = try broker.vault.randomToken()
            let key = broker.vault.index(.handoff, [handoff.reveal()])
            let now = broker.clock.now
            let kept = HandoffRow(
                login: key, key: key, createdAt: now, expiresAt: now.advanced(by: .seconds(60)),
                keptUntil: now.advanced(by: .seconds(60)),
                sealed: try broker.vault.seal([format], as: .outcome, row: key))
            #expect(try await broker.store.keepHandoff(kept))
            var input = ForwardCodeInput()
            input.handoff = handoff
            #expect(await problem { try await broker.forward(input) }?.code == code)
        }
    }

    @Test(
        "A revocation's record has a newer format → it stays in the outbox for a process that can read it",
        .timeLimit(.minutes(1))
    )
    func revocation() async throws {
        let broker = try TestBroker()
        let key = broker.vault.digest(Array("key".utf8))
        let now = broker.clock.now
        try await broker.store.addOutbox([
            OutboxRow(
                id: key, boundTo: key, tokens: try broker.vault.seal([255], as: .tokens, row: key), createdAt: now,
                nextAttemptAt: now)
        ])
        _ = try await Revocations(broker.context).work()
        #expect(try await broker.store.outboxCount() == 1)
    }
}

extension TestBroker {
    /// Lets spawned tasks run, by giving up the thread 200 times.
    func settled() async { for _ in 0..<200 { await Task.yield() } }
}
