import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// The endings of sessions.
///
/// An ending is completed despite failures of the store, and the listeners, the cache and the metrics learn of it.
@Suite(.timeLimit(.minutes(2))) struct EndingTests {
    @Test(
        "The store fails at any step of handling a logout token → the token, sent again, ends the sessions (SEC-66, SEC-67)",
        .timeLimit(.minutes(1)), arguments: 0..<6)
    func interruptedLogoutToken(_ step: Int) async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let sessions = [try await broker.signIn(code: "c1"), try await broker.signIn(code: "c2")]
        let name = ProviderName(unchecked: "as")
        store.refuse(after: step)
        let first = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        store.refuse(after: nil)
        if let first {
            #expect(first.code == .storeUnavailable)
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        for session in sessions {
            #expect(
                await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason
                    == .providerLogout)
        }
        let again = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        #expect(again?.code == .invalidRequest)
    }

    @Test("A logout token's `aud` names two clients → the user's sessions of both end (SEC-66)")
    func twoClients() async throws {
        let broker = try TestBroker(
            script: .init(
                logout: ("user-1", nil, [ClientName(unchecked: "ios"), ClientName(unchecked: "strict")])))
        let first = try await broker.signIn(code: "c1")
        let login = try await broker.start("strict")
        let callback = broker.callback(login, code: "c2")
            .replacing(TestBroker.redirect, with: "com.example.strict:/cb")
        let second = try await broker.forward(callback, login.loginToken)
        try await broker.useCases.backchannelLogout.receive(
            provider: ProviderName(unchecked: "as"), token: Secret("jti-1"))
        for session in [first, second] {
            #expect(
                await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason
                    == .providerLogout)
        }
    }

    @Test(
        "The store's answer to an ending is lost → the write is retried, and the cache does not serve the ended session",
        .timeLimit(.minutes(1)))
    func lostAnswer() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let other = try await broker.signIn(code: "c1")
        let own = try await broker.useCases.resumeSession.resume(try await broker.signIn(code: "c2").token)
        // Both sessions of the user are now in the session cache.
        _ = try await broker.useCases.resumeSession.resume(other.token)
        store.loseNextEnding()
        try await broker.useCases.endSession.endOthers(of: own)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(other.token) }?.reason == .loggedOutElsewhere
        )
    }

    @Test(
        "The store's answer to a logout token is lost → the token is accepted, and not treated as a replay of itself (SEC-67)",
        .timeLimit(.minutes(1)))
    func lostLogoutToken() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let session = try await broker.signIn(code: "c1")
        _ = try await broker.useCases.resumeSession.resume(session.token)
        let name = ProviderName(unchecked: "as")
        store.loseNextEnding()
        try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .providerLogout)
        let again = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        #expect(again?.code == .invalidRequest)
    }

    @Test(
        "Two copies of a logout token arrive, and the second ends the last sessions → both copies are accepted (SEC-67)"
    )
    func twins() async throws {
        let store = InMemoryStore()
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = 1000
        let broker = try TestBroker(store: store, settings: settings)
        let name = ProviderName(unchecked: "as")
        // The user has one session more than one call of the store can end.
        var last: SignedIn?
        for number in 0...EndSession.batch { last = try await broker.signIn(code: "c\(number)") }
        store.beforeNextLogoutAnswer {
            let twin = await problem {
                try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
            }
            #expect(twin == nil)
        }
        try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        let token = try #require(last).token
        #expect(await problem { try await broker.useCases.resumeSession.resume(token) }?.reason == .providerLogout)
        // Both calls with the logout token have ended. If the token arrives again, it counts as a replay.
        let again = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        #expect(again?.code == .invalidRequest)
    }

    @Test(
        "A logout token comes while the provider's keys cannot be fetched → 503, no session ends; later, the token is accepted",
        arguments: [
            ProviderFailure.notSent(detail: ""), .retryable(status: 503, retryAfter: .seconds(9), detail: ""),
            .lost(detail: ""),
        ])
    func keysAway(_ failure: ProviderFailure) async throws {
        let broker = try TestBroker(script: .init(logoutFailure: failure))
        let session = try await broker.signIn()
        let name = ProviderName(unchecked: "as")
        let refused = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        #expect(refused?.code == .providerUnavailable && refused?.retryAfter != nil)
        _ = try await broker.useCases.resumeSession.resume(session.token)
        broker.provider.script.withLock { $0.logoutFailure = nil }
        try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(session.token) }?.reason == .providerLogout)
    }

    @Test("A sign-in's `sid` cannot be stored → the user is signed in, and operators get one `sidUnusable` event")
    func unusableSID() async throws {
        let broker = try TestBroker(script: .init(sidIsUnusable: true))
        let session = try await broker.signIn()
        broker.provider.script.withLock { $0.sidIsUnusable = false }
        _ = try await broker.signIn(code: "c2")
        let told = broker.events.all.compactMap { event in
            if case .sidUnusable(_, _, let handle) = event { handle.text } else { nil as String? }
        }
        #expect(told == [session.session.handle.text])
    }

    @Test("A logout token has a `sid` → it ends only the sessions of that sign-in (SEC-68)")
    func sid() async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"))
        let one = try await broker.signIn(code: "c1")
        broker.provider.script.withLock { $0.sid = "sid-2" }
        let two = try await broker.signIn(code: "c2")
        try await broker.useCases.backchannelLogout.receive(
            provider: ProviderName(unchecked: "as"), token: Secret("sid-1"))
        let ended = await problem { try await broker.useCases.resumeSession.resume(one.token) }
        #expect(ended?.reason == .providerLogout)
        _ = try await broker.useCases.resumeSession.resume(two.token)
    }

    @Test(
        "Two providers send logout tokens with the same id → both are accepted; the second does not count as a replay (SEC-67)"
    )
    func sameTokenIDElsewhere() async throws {
        let clock = TestClock()
        let other = ScriptedProvider(
            profile: ProviderProfile(
                name: ProviderName(unchecked: "other"), kind: .oidc, displayName: "Other",
                issuer: "https://other.example",
                clients: [
                    ClientProfile(
                        name: ClientName(unchecked: "ios"),
                        redirectURIs: [RedirectURI("com.example.other:/cb")].compactMap { $0 })
                ]), clock: clock)
        let broker = try TestBroker(also: [other])
        for name in ["as", "other"] {
            try await broker.useCases.backchannelLogout.receive(
                provider: ProviderName(unchecked: name), token: Secret("jti-1"))
        }
    }

    @Test("One sweeper has the lease → another sweeper does nothing until the lease has ended")
    func oneSweeper() async throws {
        let broker = try TestBroker()
        _ = try await broker.start()
        broker.clock.advance(.seconds(200_000))
        #expect(try await Sweeper(broker.context, owner: "one").sweep(limit: 0) == 0)
        #expect(try await Sweeper(broker.context, owner: "two").sweep() == nil)
        // The lease lasts 90 s, and its owner renews it at least once a minute. A broker on a copy of the store also waits
        // until this lease ends.
        broker.clock.advance(.seconds(75))
        #expect(try await Sweeper(broker.context, owner: "two").sweep() == nil)
        broker.clock.advance(.seconds(16))
        #expect(try await Sweeper(broker.context, owner: "two").sweep() == 1)
    }

    @Test("A sweeper stops normally → the next process's sweeper gets the lease and sweeps at once")
    func stoppedSweeper() async throws {
        let broker = try TestBroker()
        _ = try await broker.start()
        broker.clock.advance(.seconds(200_000))
        let (one, two) = (Sweeper(broker.context, owner: "one"), Sweeper(broker.context, owner: "two"))
        #expect(try await one.sweep(limit: 0) == 0)
        try await two.stop()
        #expect(try await two.sweep() == nil, "the second sweeper cannot give up the first one's lease")
        try await one.stop()
        #expect(try await two.sweep() == 1)
        #expect(try await one.sweep() == nil)
    }

    @Test("An operator ends more sessions than one step can end → all of them end")
    func moreThanOneStep() async throws {
        let broker = try TestBroker()
        for number in 0...EndSession.batch {
            broker.provider.script.withLock { $0.subject = "user-\(number)" }
            _ = try await broker.signIn(code: "c\(number)")
        }
        let filter = AdminSessions.Filter(provider: ProviderName(unchecked: "as"))
        #expect(try await broker.useCases.adminSessions.end(filter, actor: "ops") == EndSession.batch + 1)
    }

    @Test(
        "Endings are committed, but still wait for the disk → the sessions have ended, but the call gets 503 (SEC-123)"
    )
    func unwritten() async throws {
        let broker = try TestBroker(store: UnwrittenEndings())
        let other = try await broker.signIn(code: "c1")
        let own = try await broker.useCases.resumeSession.resume(try await broker.signIn(code: "c2").token)
        let unwritten = await problem { try await broker.useCases.endSession.endOthers(of: own) }
        #expect(unwritten?.code == .storeUnavailable && unwritten?.retryAfter == .seconds(2))
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(other.token) }?.reason == .loggedOutElsewhere
        )
    }

    @Test("An operator ends a user's sessions → the audit record names the subject only by a tag (SEC-99)")
    func audit() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        _ = try await broker.signIn()
        let filter = AdminSessions.Filter(provider: ProviderName(unchecked: "as"), subject: "user-1")
        #expect(try await broker.useCases.adminSessions.end(filter, actor: "ops") == 1)
        let targets = store.auditRecords.map(\.target)
        #expect(targets.count == 1 && !targets.contains { $0.contains("user-1") })
    }

    @Test(
        "The sweeper finds a lapsed session → its event stream is notified, the cache drops it, and an event is reported",
        .timeLimit(.minutes(1))
    )
    func swept() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: nil))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        #expect(broker.context.cache.count == 1)
        let sweeper = Sweeper(broker.context, owner: "one")
        broker.clock.advance(.seconds(31 * 86_400))
        _ = try await sweeper.sweep()
        #expect(heard.withLock { $0 } == [.ended(.idleExpired)])
        #expect(broker.context.cache.count == 0)
        let counted = broker.events.all.contains {
            if case .sessionEnded(.idleExpired, 1, _) = $0 { true } else { false }
        }
        #expect(counted)
        withExtendedLifetime(subscription) {}
    }

    @Test(
        "A second sweeper takes over → it announces only sessions that lapsed after the last sweep, so each is announced once",
        .timeLimit(.minutes(1)))
    func nextSweeper() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: nil))
        _ = try await broker.signIn()
        func announced() -> Int {
            broker.events.all.count { if case .sessionEnded(.idleExpired, _, _) = $0 { true } else { false } }
        }
        let (one, two) = (Sweeper(broker.context, owner: "one"), Sweeper(broker.context, owner: "two"))
        broker.clock.advance(.seconds(30 * 86_400 + 1))
        _ = try await one.sweep()
        #expect(announced() == 1)
        #expect(try await two.sweep() == nil)
        try await one.stop()
        #expect(try await two.sweep() != nil)
        #expect(announced() == 1)
    }

    @Test(
        "The access token of a session without a refresh token expires → the sweep and a later use report `token_expired`",
        .timeLimit(.minutes(1)))
    func tokenExpired() async throws {
        let broker = try TestBroker(script: .init(tokenLifetime: .seconds(3600), refreshToken: false))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(live) { notice in
            heard.withLock { $0.append(notice) }
        }
        let sweeper = Sweeper(broker.context, owner: "one")
        broker.clock.advance(.seconds(3600))
        _ = try await sweeper.sweep()
        #expect(heard.withLock { $0 } == [.ended(.tokenExpired)])
        let counted = broker.events.all.contains {
            if case .sessionEnded(.tokenExpired, 1, _) = $0 { true } else { false }
        }
        #expect(counted)
        broker.clock.advance(.seconds(86_400))
        _ = try await sweeper.sweep()
        let late = await problem { try await broker.useCases.resumeSession.resume(session.token) }
        #expect(late?.reason == .tokenExpired)
        withExtendedLifetime(subscription) {}
    }
}

/// A store that ends sessions in two steps.
///
/// After the first step, the endings are not on the disk yet.
private final class UnwrittenEndings: AroundStore {
    let base: any BrokerStore = InMemoryStore()
    private let steps = Mutex(0)

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        let value = try await work(base)
        guard operation == .endSessions, var batch = value as? EndedBatch else { return value }
        let isFirst = steps.withLock { steps in
            steps += 1
            return steps == 1
        }
        (batch.more, batch.isWritten) = (isFirst, !isFirst)
        return batch as? Value ?? value
    }
}
