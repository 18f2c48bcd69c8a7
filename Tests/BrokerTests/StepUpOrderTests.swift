import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

@Suite("The order of two step-ups, and refresh tokens that are not stored yet", .timeLimit(.minutes(1)))
struct StepUpOrderTests {
    private func signIn(_ broker: TestBroker, _ session: SignedIn) async throws -> SignInFacts {
        try SessionFacts.open(try await broker.row(of: session), broker.vault).signIn
    }

    private func refreshToken(_ broker: TestBroker, _ session: SignedIn) async throws -> String? {
        try StoredTokens.open(try await broker.row(of: session), broker.context).tokens.refreshToken?.reveal()
    }

    private func revoked(_ broker: TestBroker) -> Int { broker.provider.script.withLock { $0.revoked } }

    // MARK: The order of two answers

    /// Makes two replicas.
    ///
    /// The first replica has received the provider's answer to a step-up, but cannot reach the store.
    private func kept(
        _ contextClass: String, _ demand: StepUpDemand = .mfa
    ) async throws -> (
        one: TestBroker, two: TestBroker, away: AwayForStepUps, session: SignedIn,
        first: Task<Result<SteppedUp, any Error>, Never>
    ) {
        let clock = TestClock()
        let base = InMemoryStore(monotonic: clock.clock.monotonic)
        let away = AwayForStepUps(base)
        let one = try TestBroker(store: away, clock: clock)
        let two = try TestBroker(store: base, vault: one.vault, provider: one.provider, clock: clock)
        let session = try await one.signIn()
        one.signsIn(contextClass)
        away.isAway.withLock { $0 = true }
        let first = Task { () async -> Result<SteppedUp, any Error> in
            do { return .success(try await one.stepUp(session, demand)) } catch { return .failure(error) }
        }
        try await eventually("the broker has tried to store the first step-up") { away.tries.withLock { $0 } > 0 }
        clock.advance(.milliseconds(100))
        return (one, two, away, session, first)
    }

    @Test(
        "A replica cannot store a step-up, and another replica stores a later step-up → the later one and its token pair stay"
    )
    func keptOverAnOutage() async throws {
        let (one, two, away, session, first) = try await kept("mfa")
        // The step-up that answers later may report an older sign-in, because the user may have shown the second factor some
        // time ago.
        two.signsIn("mfa", secondsAgo: 60)
        let second = try await two.stepUp(session, code: "code-3").session.signIn
        away.isAway.withLock { $0 = false }
        #expect(try await first.value.get().session.signIn == second)
        #expect(try await signIn(two, session) == second)
        #expect(try await refreshToken(two, session) == "rt-3")
        // The outbox has two token pairs: that of the first sign-in, and that of the step-up that waited for the store.
        #expect(try await two.store.outboxCount() == 2)
        one.clock.advance(.seconds(1))
        #expect(try await Revocations(two.context).work() == 2)
        #expect(revoked(one) == 2)
        #expect(try await two.row(of: session).endedAt == nil)
        let live = try await one.useCases.resumeSession.resume(session.token)
        _ = try await one.useCases.refreshTokens.refreshNow(live)
        #expect(one.provider.script.withLock { $0.refreshes.last?.refreshToken.reveal() } == "rt-3")
    }

    @Test(
        "A later step-up is stored first, without the `acr` that the earlier one demands → the earlier one gets `step_up_failed`"
    )
    func laterIsWeaker() async throws {
        let (_, two, away, session, first) = try await kept("phr", StepUpDemand(contextClasses: ["phr"]))
        two.signsIn("mfa")
        _ = try await two.stepUp(session, code: "code-3")
        away.isAway.withLock { $0 = false }
        let result = await first.value
        let refusal = await problem { try result.get() }
        #expect(refusal?.code == .stepUpFailed && refusal?.shortfall?.got?.contextClass == "mfa")
        #expect(try await signIn(two, session).contextClass == "mfa")
        #expect(try await refreshToken(two, session) == "rt-3")
        #expect(try await two.store.outboxCount() == 2)
    }

    @Test(
        "A replica's clock is two minutes behind → a step-up that it begins after a stored one still counts as the later one"
    )
    func clocksApart() async throws {
        let clock = TestClock()
        let one = try TestBroker(clock: clock)
        let behind = TestClock(TestClock.start, ahead: .seconds(-120))
        let two = try TestBroker(store: one.store, vault: one.vault, provider: one.provider, clock: behind)
        let session = try await one.signIn()
        one.signsIn("phr")
        _ = try await one.stepUp(session, StepUpDemand(contextClasses: ["phr"]))
        one.signsIn("mfa", secondsAgo: 60)
        _ = try await two.stepUp(session, code: "code-3")
        #expect(try await signIn(two, session).contextClass == "mfa")
        #expect(try await refreshToken(two, session) == "rt-3")
    }

    @Test(
        "The code of step-up A is sent before that of step-up B, and answered after it → A counts as the later step-up"
    )
    func answeredLast() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.signsIn("mfa")
        broker.provider.redeeming.close()
        let first = Task { try await broker.stepUp(session, StepUpDemand(contextClasses: ["phr"])) }
        try await eventually("the code is at the provider") { broker.provider.redeeming.waiting == 1 }
        broker.provider.redeeming.passNewcomers()
        _ = try await broker.stepUp(session, code: "code-3")
        broker.clock.advance(.milliseconds(100))
        broker.signsIn("phr", secondsAgo: 60)
        broker.provider.script.withLock { $0.onlyRefreshToken = "rt-last" }
        broker.provider.redeeming.open()
        #expect(try await first.value.session.signIn.contextClass == "phr")
        #expect(try await signIn(broker, session).contextClass == "phr")
        #expect(try await refreshToken(broker, session) == "rt-last")
    }

    @Test(
        "Two step-ups overlap → the stored one is later if it was answered last, and stored after the other's code was sent",
        arguments: [(3, 1, true), (3, -1, false), (3, 0, false), (2, 1, false), (1, 1, false)])
    func isLater(version: Int64, seconds: Int64, isLater: Bool) {
        let answeredAt = TestClock.start
        let note = StepUpNote(version: version, answeredAt: answeredAt.advanced(by: .seconds(seconds)), grant: nil)
        #expect(note.isLater(than: answeredAt, ofCodeSentAt: 2) == isLater)
    }

    @Test("A session's facts contain its last step-up → they are read back unchanged", arguments: [nil, 7])
    func record(lentVersion: Int64?) async throws {
        let broker = try TestBroker()
        var facts = try SessionFacts.open(try await broker.row(of: broker.signIn()), broker.vault)
        #expect(try SessionFacts(record: facts.record).lastStepUp == nil)
        facts.lentVersion = lentVersion
        let digest = broker.vault.digest(Secret("rt"))
        for grant in [nil, StepUpNote.Grant(refreshToken: digest, tokenVersion: 4, former: digest)] {
            facts.lastStepUp = StepUpNote(version: 3, answeredAt: TestClock.start, grant: grant)
            let read = try SessionFacts(record: facts.record)
            #expect(read.lastStepUp == facts.lastStepUp && read.lentVersion == lentVersion)
        }
    }

    // MARK: The refresh token of a refresh in progress

    /// A session whose refresh is at the provider.
    ///
    /// The answer to the session's next step-up will have the given refresh token, or a new one if `refreshToken` is nil.
    private func refreshing(
        _ refreshToken: String?
    ) async throws -> (broker: TestBroker, session: SignedIn, refreshed: Task<BrokerProblem?, Never>) {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.signsIn("mfa")
        broker.provider.gate.close()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let refreshed = Task { await problem { try await broker.useCases.refreshTokens.refreshNow(live) } }
        try await eventually("the refresh is at the provider") { broker.provider.gate.waiting == 1 }
        broker.provider.gate.passNewcomers()
        broker.provider.script.withLock { $0.onlyRefreshToken = refreshToken }
        return (broker, session, refreshed)
    }

    @Test(
        "A step-up's answer has the refresh token of a refresh in progress → this token is stored at once, and the grant stays",
        arguments: [false, true])
    func unstored(isRefreshedBefore: Bool) async throws {
        let (broker, session, refreshed) = try await refreshing("rt-r1")
        let begun = broker.clock.monotonic
        _ = try await broker.stepUp(session)
        #expect(broker.clock.monotonic == begun)
        #expect(try await refreshToken(broker, session) == "rt-r1")
        // The refresh token may belong to an earlier sign-in. Only the access token surely belongs to this sign-in.
        #expect(try SessionFacts.open(try await broker.row(of: session), broker.vault).lentVersion == 2)
        // The token pair of before the step-up is not revoked yet. A refresh may still show that both pairs belong to the same
        // grant.
        broker.clock.advance(.seconds(1))
        #expect(try await Revocations(broker.context).work() == 0)
        if isRefreshedBefore {
            broker.provider.script.withLock { $0.onlyRefreshToken = "rt-next" }
            let other = try TestBroker(
                store: broker.store, vault: broker.vault, provider: broker.provider, clock: broker.clock)
            _ = try await other.useCases.refreshTokens.refreshNow(
                try await other.useCases.resumeSession.resume(session.token))
            broker.provider.script.withLock { $0.onlyRefreshToken = "rt-r1" }
        }
        broker.provider.gate.open()
        #expect(await refreshed.value == nil)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(revoked(broker) == 0)
        #expect(try await refreshToken(broker, session) == (isRefreshedBefore ? "rt-next" : "rt-r1"))
        #expect(try await signIn(broker, session).contextClass == "mfa")
    }

    @Test(
        "A step-up returns another grant during a refresh → the former pair and the refresh's pair are revoked after the refresh"
    )
    func anotherGrant() async throws {
        let (broker, session, refreshed) = try await refreshing(nil)
        _ = try await broker.stepUp(session)
        #expect(try await refreshToken(broker, session) == "rt-2")
        broker.clock.advance(.seconds(1))
        #expect(try await Revocations(broker.context).work() == 0)
        broker.provider.gate.open()
        #expect(await refreshed.value == nil)
        broker.clock.advance(.seconds(1))
        #expect(try await Revocations(broker.context).work() == 2)
        #expect(revoked(broker) == 2)
        #expect(try await refreshToken(broker, session) == "rt-2")
    }

    @Test(
        "A step-up replaces a grant, and a refresh's owner has died → the old pair is revoked after the refresh's claim has ended"
    )
    func deadOwner() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.signsIn("mfa")
        let result = try await broker.store.claimRefresh(
            RefreshClaim(
                tokenDigest: broker.vault.digest(session.token), tokenVersion: 1,
                name: ClaimID(random: try broker.vault.random(16)), lifetime: .seconds(25), takesOver: false,
                now: broker.clock.now))
        guard case .claimed = result else {
            Issue.record("\(result)")
            return
        }
        _ = try await broker.stepUp(session)
        broker.clock.advance(.seconds(25))
        #expect(try await Revocations(broker.context).work() == 0)
        broker.clock.advance(.seconds(6))
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(revoked(broker) == 1)
    }

    @Test(
        "A step-up gets the refresh token of a refresh in progress, and then fails → this refresh token is not revoked",
        arguments: ["weak", "refused", "unidentified"])
    func unstoredInVain(_ fault: String) async throws {
        let (broker, session, refreshed) = try await refreshing("rt-r1")
        broker.provider.script.withLock { script in
            switch fault {
            case "refused": script.refusal = "of no use"
            case "unidentified": script.identify = [.identityRejected(detail: "")]
            default: script.signIn = SignInFacts(contextClass: "pwd")
            }
        }
        #expect(await problem { try await broker.stepUp(session) } != nil)
        #expect(try await broker.store.outboxCount() == 1)
        broker.clock.advance(.seconds(1))
        #expect(try await Revocations(broker.context).work() == 0)
        broker.provider.script.withLock { $0.refusal = nil }
        broker.provider.gate.open()
        #expect(await refreshed.value == nil)
        try await eventually("the outbox is empty") { try await broker.store.outboxCount() == 0 }
        #expect(revoked(broker) == 0)
        #expect(try await refreshToken(broker, session) == "rt-r1")
    }

    @Test(
        "A step-up gets another grant during a refresh, and then fails → the new grant is revoked, and the session's own stays"
    )
    func anotherGrantInVain() async throws {
        let (broker, session, refreshed) = try await refreshing(nil)
        broker.provider.script.withLock { $0.signIn = SignInFacts(contextClass: "pwd") }
        #expect(await problem { try await broker.stepUp(session) }?.code == .stepUpFailed)
        broker.provider.gate.open()
        #expect(await refreshed.value == nil)
        broker.clock.advance(.seconds(31))
        await broker.settled()
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(revoked(broker) == 1)
        #expect(try await broker.row(of: session).endedAt == nil)
        #expect(try await refreshToken(broker, session) == "rt-r1")
    }

    @Test(
        "An outbox row has a living session's refresh token → the row is dropped; the session has ended → the token is revoked"
    )
    func held() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let row = try await broker.row(of: session)
        let work = OutboxRow(
            id: broker.vault.digest(Secret("work")), boundTo: row.tokenDigest, tokens: try #require(row.tokens),
            createdAt: broker.clock.now, nextAttemptAt: broker.clock.now)
        try await broker.store.addOutbox([work])
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(revoked(broker) == 0)
        #expect(try await broker.store.outboxCount() == 0)
        // As soon as the session has ended, the token pair in question is revoked.
        try await broker.store.addOutbox([work])
        try await broker.useCases.endSession.logOut(session.token)
        broker.clock.advance(.seconds(1))
        #expect(try await Revocations(broker.context).work() == 2)
        #expect(revoked(broker) == 2)
    }
}

/// A store that is away for each commit of a step-up, and works for all other operations.
private final class AwayForStepUps: AroundStore {
    let base: any BrokerStore
    let isAway = Mutex(false)
    let tries = Mutex(0)

    init(_ base: any BrokerStore) { self.base = base }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await work(base)
    }

    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        tries.withLock { $0 += 1 }
        if isAway.withLock({ $0 }) { throw .unavailable("away") }
        return try await base.completeStepUp(commit)
    }
}
