import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Step-ups during which a refresh, an ending or a call with another session happens.
@Suite(.timeLimit(.minutes(1))) struct StepUpSeamTests {
    /// Finishes the login of a step-up.
    ///
    /// The sign-in has the `acr` `mfa`.
    private func finish(
        _ broker: TestBroker, _ login: StartedLogin, presenting token: Secret?
    ) async throws -> SteppedUp {
        broker.signsIn("mfa")
        return try await broker.finishStepUp(login, presenting: token)
    }

    private func contextClass(_ broker: TestBroker, _ session: SignedIn) async throws -> String? {
        try SessionFacts.open(try await broker.row(of: session), broker.vault).signIn.contextClass
    }

    // MARK: Another session

    @Test(
        "A step-up is finished with another session's token → `login_not_yours`, and the login is burned",
        arguments: ["user-1", "user-2"])
    func otherSession(subject: String) async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        broker.provider.script.withLock { $0.subject = subject }
        let other = try await broker.signIn(code: "code-other")
        broker.provider.script.withLock { $0.subject = "user-1" }
        let login = try await broker.startStepUp(session)
        let (before, grants) = (try await broker.row(of: session), broker.provider.grants)
        let refusal = await problem { try await finish(broker, login, presenting: other.token) }
        #expect(refusal?.code == .loginNotYours && broker.burned == 1)
        #expect(await problem { try await finish(broker, login, presenting: session.token) } != nil)
        #expect(broker.provider.grants == grants)
        #expect(try await broker.row(of: session) == before)
        #expect(try await contextClass(broker, other) == nil)
    }

    @Test("A step-up is finished without a session token → `session_required`, and its code can be sent again")
    func noSession() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let login = try await broker.startStepUp(session)
        let refusal = await problem { try await finish(broker, login, presenting: nil) }
        #expect(refusal?.code == .sessionRequired && broker.provider.grants == 1)
        _ = try await finish(broker, login, presenting: session.token)
        #expect(try await contextClass(broker, session) == "mfa")
    }

    // MARK: An ending

    enum Ending: CaseIterable { case atTheProvider, beforeTheCommit }

    @Test(
        "A session ends during its step-up → the step-up's tokens are revoked together with the session's tokens",
        arguments: Ending.allCases)
    func ended(_ ending: Ending) async throws {
        let clock = TestClock()
        let memory = InMemoryStore(monotonic: clock.clock.monotonic)
        let store = EndsBeforeCommit(memory, clock, isOn: ending == .beforeTheCommit)
        let broker = try TestBroker(store: store, clock: clock)
        let session = try await broker.signIn()
        let login = try await broker.startStepUp(session)
        if ending == .atTheProvider { broker.provider.redeeming.close() }
        async let answer = problem { try await finish(broker, login, presenting: session.token) }
        if ending == .atTheProvider {
            try await eventually("the code is at the provider") { broker.provider.redeeming.waiting == 1 }
            try await broker.useCases.endSession.logOut(session.token)
            broker.provider.redeeming.open()
        }
        let refusal = await answer
        #expect(refusal?.code == .sessionEnded && refusal?.reason == .loggedOut)
        // The outbox has two token pairs: that of the session, and that of the step-up.
        #expect(try await memory.outboxCount() == 2)
        broker.clock.advance(.seconds(1))
        #expect(try await Revocations(broker.context).work() == 2)
        #expect(broker.provider.script.withLock { $0.revoked } == 2)
    }

    // MARK: A lost answer

    @Test("The store's answer to a step-up's write is lost → the retry finds the step-up done, and its tokens stay")
    func lostAnswer() async throws {
        let clock = TestClock()
        let memory = InMemoryStore(monotonic: clock.clock.monotonic)
        let store = LosesFirstAnswer(memory)
        let broker = try TestBroker(store: store, clock: clock)
        let session = try await broker.signIn()
        let login = try await broker.startStepUp(session)
        let stepped = try await finish(broker, login, presenting: session.token)
        #expect(store.answers.withLock { $0 } == [.committed, .takenAway])
        #expect(stepped.session.signIn.contextClass == "mfa")
        #expect(try await contextClass(broker, session) == "mfa")
        // The outbox has only the tokens of the former grant.
        broker.clock.advance(.seconds(1))
        #expect(try await Revocations(broker.context).work() == 1)
        let live = try await broker.useCases.resumeSession.resume(session.token)
        #expect(try await broker.useCases.refreshTokens.accessToken(for: live).token.reveal() == "at-2")
    }

    // MARK: A refresh

    enum Sealing: CaseIterable { case scopeShrank, newKey }

    @Test(
        "A refresh in progress writes a session's facts after a step-up with the same grant → the facts of the step-up stay",
        arguments: Sealing.allCases)
    func factsStay(_ sealing: Sealing) async throws {
        let ring = try KeyRing.generate(now: TestClock.start, random: SystemRandom.bytes)
        let broker = try TestBroker(
            vault: try OpenSSLVault(ring: ring), script: .init(scope: ["openid", "email"], onlyRefreshToken: "rt-only"))
        let session = try await broker.signIn()
        if sealing == .scopeShrank { broker.provider.script.withLock { $0.refreshedScope = ["openid"] } }
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.provider.gate.close()
        async let refreshed = broker.useCases.refreshTokens.refreshNow(live)
        try await eventually("the refresh is at the provider") { broker.provider.gate.waiting == 1 }
        broker.provider.gate.passNewcomers()
        _ = try await finish(broker, broker.startStepUp(session), presenting: session.token)
        if sealing == .newKey {
            try broker.vault.replace(ring: ring.rotated(now: TestClock.start, random: SystemRandom.bytes))
        }
        broker.provider.gate.open()
        _ = try await refreshed
        let after = try await broker.row(of: session)
        #expect(after.tokenVersion == 2 && after.version == 2)
        #expect(try await contextClass(broker, session) == "mfa")
    }

    @Test(
        "A refresh brings another user's id_token while a step-up replaces the refreshed grant → the session stays (SEC-59)"
    )
    func strangerOfTheOldGrant() async throws {
        let broker = try TestBroker()
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        broker.provider.script.withLock { $0.refreshedSubject = .subject("user-2") }
        broker.provider.looking.close()
        async let refreshed = problem { try await broker.useCases.refreshTokens.refreshNow(live) }
        try await eventually("the check of the subject has begun") { broker.provider.looking.waiting == 1 }
        broker.provider.script.withLock { $0.refreshedSubject = .absent }
        _ = try await finish(broker, broker.startStepUp(session), presenting: session.token)
        broker.provider.looking.open()
        #expect(await refreshed?.code == .providerUnavailable)
        let after = try await broker.row(of: session)
        #expect(after.endedAt == nil && after.tokenVersion == 3 && !after.subjectUnchecked)
        let stepped = try await broker.useCases.resumeSession.resume(session.token)
        #expect(stepped.facts.signIn.contextClass == "mfa")
        #expect(try await broker.useCases.refreshTokens.accessToken(for: stepped).token.reveal() == "at-2")
    }
}

/// A store that ends a session immediately before it commits the session's step-up.
private final class EndsBeforeCommit: AroundStore {
    let base: any BrokerStore
    private let clock: TestClock
    private let isOn: Bool

    init(_ base: any BrokerStore, _ clock: TestClock, isOn: Bool) {
        self.base = base
        self.clock = clock
        self.isOn = isOn
    }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await work(base)
    }

    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        if isOn {
            _ = try await base.endSessions(
                .token(commit.tokenDigest), reason: .loggedOut, now: clock.now, limit: 1)
        }
        return try await base.completeStepUp(commit)
    }
}

/// A store that commits a step-up, but whose first answer about the commit is lost.
private final class LosesFirstAnswer: AroundStore {
    let base: any BrokerStore
    let answers = Mutex<[StepUpCommitResult]>([])

    init(_ base: any BrokerStore) { self.base = base }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await work(base)
    }

    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        let result = try await base.completeStepUp(commit)
        let isFirst = answers.withLock { answers in
            answers.append(result)
            return answers.count == 1
        }
        if isFirst { throw .inDoubt("the answer was lost") }
        return result
    }
}
