import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The effects of step-ups on listeners, answers, charges and the outbox.
@Suite(.timeLimit(.minutes(1))) struct StepUpEffectTests {
    // MARK: The session

    @Test(
        "A session ends during a step-up whose sign-in is too weak → `session_ended`, and both token pairs go to the outbox"
    )
    func endedMeanwhile() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.signsIn("pwd")
        broker.provider.redeeming.close()
        async let answer = problem { try await broker.stepUp(session) }
        try await eventually("the code is at the provider") { broker.provider.redeeming.waiting == 1 }
        try await broker.useCases.endSession.logOut(session.token)
        broker.provider.redeeming.open()
        let refusal = await answer
        #expect(refusal?.code == .sessionEnded && refusal?.reason == .loggedOut)
        #expect(try await broker.store.outboxCount() == 2)
    }

    @Test(
        "A step-up brings a new grant → the session's event stream gets one notice, even if a later check finds the new version"
    )
    func told() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let before = try await broker.row(of: session)
        let heard = Mutex<[SessionNotice]>([])
        let listening = broker.context.notices.subscribe(
            before.tokenDigest, of: before.subjectAndClient, limit: 1, version: before.tokenVersion
        ) { notice in heard.withLock { $0.append(notice) } }
        defer { withExtendedLifetime(listening) {} }
        broker.signsIn("mfa")
        _ = try await broker.stepUp(session)
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
        // A replica notices another replica's refresh because the version of the tokens is higher.
        let version = try await broker.row(of: session).tokenVersion
        broker.context.notices.refreshed(before.tokenDigest, version: version)
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
    }

    @Test("A step-up succeeds → its answer has the same idle end, token end and callback claims as the stored session")
    func answered() async throws {
        let broker = try TestBroker(script: .init(unverified: [("employee_id", .string("e-1"))]))
        let session = try await broker.signIn()
        broker.clock.advance(.seconds(1800))
        broker.signsIn("mfa")
        broker.provider.script.withLock { $0.unverified = [("employee_id", .string("e-2"))] }
        let stepped = try await broker.stepUp(session).session
        #expect(stepped.idleExpiresAt > session.session.idleExpiresAt)
        #expect(stepped.tokensExpireAt == broker.clock.now.advanced(by: .seconds(3600)))
        #expect(stepped.unverified.map(\.value.string) == ["e-2"])
        let stored = try await broker.useCases.resumeSession.resume(session.token).view
        #expect(stored.idleExpiresAt == stepped.idleExpiresAt && stored.tokensExpireAt == stepped.tokensExpireAt)
        #expect(stored.unverified.map(\.value.string) == ["e-2"])
    }

    // MARK: The outbox

    @Test(
        "A step-up replaces a grant → the former pair goes to the outbox without its ID token, which could log the user out"
    )
    func formerPair() async throws {
        let broker = try TestBroker(script: .init(refreshedSubject: .subject("user-1")))
        let session = try await broker.signIn()
        #expect(try StoredTokens.open(try await broker.row(of: session), broker.context).tokens.idToken != nil)
        broker.signsIn("mfa")
        _ = try await broker.stepUp(session)
        let now = broker.clock.now.advanced(by: .seconds(1))
        let rows = try await broker.store.takeOutbox(now: now, until: now.advanced(by: .seconds(60)), limit: 9)
        let row = try #require(rows.first)
        let former = try StoredTokens(record: try broker.vault.open(row.tokens, as: .tokens, row: row.boundTo))
        #expect(rows.count == 1 && former.tokens.refreshToken?.reveal() == "rt-1" && former.tokens.idToken == nil)
    }

    /// A failed step-up whose answer brought another refresh token, while another replica refreshes the session.
    ///
    /// So it is unknown which grant this refresh token belongs to.
    private func inQuestion() async throws -> (broker: TestBroker, session: SignedIn) {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        try await claim(broker, session, version: 1)
        broker.signsIn("pwd")
        #expect(await problem { try await broker.stepUp(session) }?.code == .stepUpFailed)
        #expect(try await broker.store.outboxCount() == 1)
        return (broker, session)
    }

    private func claim(_ broker: TestBroker, _ session: SignedIn, version: Int64) async throws {
        let result = try await broker.store.claimRefresh(
            RefreshClaim(
                tokenDigest: broker.vault.digest(session.token), tokenVersion: version,
                name: ClaimID(random: try broker.vault.random(16)), lifetime: .seconds(25), takesOver: false,
                now: broker.clock.now))
        guard case .claimed = result else { throw BrokerProblem(.internalError) }
    }

    /// Stores a new refresh token for the session, as a refresh by another replica does.
    private func refresh(_ broker: TestBroker, _ session: SignedIn, to refreshToken: String) async throws {
        let row = try await broker.row(of: session)
        var stored = try StoredTokens.open(row, broker.context)
        stored.tokens.refreshToken = Secret(refreshToken)
        _ = try await broker.store.commitRefresh(
            RefreshCommit(
                tokenDigest: row.tokenDigest, tokenVersion: row.tokenVersion,
                tokens: try broker.vault.seal(stored.record, as: .tokens, row: row.tokenDigest), facts: nil,
                formerFacts: nil, tokenExpiresAt: row.tokenExpiresAt, refreshable: true, expiresAt: nil))
    }

    @Test(
        "A step-up fails, and its refresh token may come from a refresh in progress → the session is read four times a second"
    )
    func watched() async throws {
        let (broker, _) = try await inQuestion()
        let isWatched = try await eventually(within: .seconds(10)) {
            broker.clock.asked.suffix(3) == Array(repeating: .milliseconds(250), count: 3)
        }
        #expect(isWatched)
        broker.clock.advance(.seconds(31))
    }

    @Test(
        "A step-up fails during another replica's refresh, and this refresh brings another token → the step-up's pair is revoked"
    )
    func nextRefresh() async throws {
        let (broker, session) = try await inQuestion()
        try await refresh(broker, session, to: "rt-own")
        try await claim(broker, session, version: 2)
        let asked = broker.clock.asked.count
        // While it waits for the refresh, the broker reads the session several times.
        _ = try await eventually(within: .milliseconds(200)) { broker.clock.asked.count > asked + 3 }
        try await refresh(broker, session, to: "rt-next")
        _ = try await eventually(within: .milliseconds(200)) { try await broker.store.outboxCount() == 0 }
        #expect(try await broker.store.outboxCount() == 1)
        broker.clock.advance(.seconds(31))
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(broker.provider.script.withLock { $0.revoked } == 1)
    }

    // MARK: An answer that a later one overtook

    /// Steps a session up, and charges its start to an address.
    private func stepUp(_ broker: TestBroker, _ session: SignedIn, _ charge: Charge) async throws -> SteppedUp {
        var start = StartLoginInput(provider: nil, charge: charge)
        start.demand = .mfa
        start.steppingUp = try await broker.useCases.resumeSession.resume(session.token)
        let login = try await broker.useCases.startLogin.start(start)
        var input = ForwardCodeInput()
        input.callbackURL = broker.callback(login, code: "code-2")
        input.loginToken = login.loginToken
        input.presentedSession = session.token
        input.charge = charge
        guard case .steppedUp(let stepped) = try await broker.useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return stepped
    }

    @Test(
        "A later step-up is stored before an earlier one → the earlier one's charge is released; a refresh's token is not revoked"
    )
    func overtaken() async throws {
        let clock = TestClock()
        let base = InMemoryStore(monotonic: clock.clock.monotonic)
        let store = ScriptedStore(base)
        let one = try TestBroker(store: store, clock: clock)
        let two = try TestBroker(store: base, vault: one.vault, provider: one.provider, clock: clock)
        let ledger = ChargeLedger(ChargeLimits(), monotonic: clock.clock.monotonic)
        let address = IPAddress(high: 0, low: 0xFFFF_0A00_0001)
        let session = try await one.signIn()
        one.signsIn("mfa")
        // A refresh is at the provider. The answer to the first step-up has the same refresh token as the refresh's answer.
        let live = try await one.useCases.resumeSession.resume(session.token)
        one.provider.gate.close()
        let refreshed = Task { await problem { try await one.useCases.refreshTokens.refreshNow(live) } }
        try await eventually("the refresh is at the provider") { one.provider.gate.waiting == 1 }
        one.provider.gate.passNewcomers()
        one.provider.script.withLock { $0.onlyRefreshToken = "rt-r1" }
        store.fails.withLock { $0 = { operation, _ in operation == .completeStepUp } }
        let first = Task { () async -> Result<SteppedUp, any Error> in
            do {
                return .success(try await stepUp(one, session, Charge(address, in: ledger)))
            } catch { return .failure(error) }
        }
        try await eventually("the broker has tried to store the first step-up") { store.count(.completeStepUp) > 0 }
        #expect(ledger.count(.login, of: address) == 1)
        clock.advance(.milliseconds(100))
        // The answer to the later step-up repeats the session's refresh token, so the session keeps its grant.
        one.provider.script.withLock { $0.onlyRefreshToken = "rt-1" }
        _ = try await two.stepUp(session, code: "code-3")
        one.provider.script.withLock { $0.onlyRefreshToken = nil }
        store.fails.withLock { $0 = { _, _ in false } }
        _ = try await first.value.get()
        #expect(ledger.count(.login, of: address) == 0 && ledger.count(.exchange, of: address) == 0)
        #expect(try await base.outboxCount() == 1)
        one.provider.gate.open()
        #expect(await refreshed.value == nil)
        let isEmpty = try await eventually(within: .seconds(10)) { try await base.outboxCount() == 0 }
        #expect(isEmpty)
        let stored = try StoredTokens.open(try await two.row(of: session), two.context)
        #expect(stored.tokens.refreshToken?.reveal() == "rt-r1")
    }
}
