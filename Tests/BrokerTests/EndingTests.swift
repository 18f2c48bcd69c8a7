import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// An ending is carried out completely, and all parties are notified.
@Suite(.timeLimit(.minutes(2))) struct EndingTests {
    @Test(
        "The store fails at any step of a logout token → the same token ends the sessions when it comes again (SEC-66, SEC-67)",
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

    @Test(
        "The store's answer to an ending is lost → the call is retried, and no cached entry serves an ended session",
        .timeLimit(.minutes(1)))
    func lostAnswer() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        let other = try await broker.signIn(code: "c1")
        let own = try await broker.useCases.resumeSession.resume(try await broker.signIn(code: "c2").token)
        // Both sessions are in the cache now.
        _ = try await broker.useCases.resumeSession.resume(other.token)
        store.loseNextEnding()
        try await broker.useCases.endSession.endOthers(of: own)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(other.token) }?.reason == .loggedOutElsewhere
        )
    }

    @Test(
        "The store's answer to a logout token is lost → the token is accepted, not treated as a replay (SEC-67)",
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
        "A second copy of a logout token ends the last sessions → the first copy is accepted, not treated as a replay (SEC-67)"
    )
    func twins() async throws {
        let store = InMemoryStore()
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = 1000
        let broker = try TestBroker(store: store, settings: settings)
        let name = ProviderName(unchecked: "as")
        // The user has one session more than a single step can end.
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
        // A logout token that arrives after both counts as a replay.
        let again = await problem {
            try await broker.useCases.backchannelLogout.receive(provider: name, token: Secret("jti-1"))
        }
        #expect(again?.code == .invalidRequest)
    }

    @Test(
        "The provider's keys cannot be fetched → 503 for a logout token, no session ends, and the token is good later",
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

    @Test("A sign-in's sid cannot be stored → one event for operators")
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

    @Test("A logout token with a sid → ends only the sessions of that sign-in (SEC-68)")
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

    @Test("Two providers send the same token id → not a replay (SEC-67)")
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

    @Test("One sweeper has the lease → another sweeper does nothing")
    func oneSweeper() async throws {
        let broker = try TestBroker()
        _ = try await broker.start()
        broker.clock.advance(.seconds(200_000))
        #expect(try await Sweeper(broker.context, owner: "one").sweep(limit: 0) == 0)
        #expect(try await Sweeper(broker.context, owner: "two").sweep() == nil)
        // The lease lasts 90 s, and its owner renews it at least once a minute. A broker on a copy of the store respects it,
        // too.
        broker.clock.advance(.seconds(75))
        #expect(try await Sweeper(broker.context, owner: "two").sweep() == nil)
        broker.clock.advance(.seconds(16))
        #expect(try await Sweeper(broker.context, owner: "two").sweep() == 1)
    }

    @Test("A sweeper stops normally → the next process gets the lease and sweeps at once")
    func stoppedSweeper() async throws {
        let broker = try TestBroker()
        _ = try await broker.start()
        broker.clock.advance(.seconds(200_000))
        let (one, two) = (Sweeper(broker.context, owner: "one"), Sweeper(broker.context, owner: "two"))
        #expect(try await one.sweep(limit: 0) == 0)
        try await two.stop()
        #expect(try await two.sweep() == nil, "another's is not given up")
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

    @Test("Endings wait for the disk → the sessions have ended, but the call does not report success (SEC-123)")
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

    @Test("The audit record of an ending → names the subject only by a tag (SEC-99)")
    func audit() async throws {
        let store = InMemoryStore()
        let broker = try TestBroker(store: store)
        _ = try await broker.signIn()
        let filter = AdminSessions.Filter(provider: ProviderName(unchecked: "as"), subject: "user-1")
        #expect(try await broker.useCases.adminSessions.end(filter, actor: "ops") == 1)
        let targets = store.auditRecords.map(\.target)
        #expect(targets.count == 1 && !targets.contains { $0.contains("user-1") })
    }

    @Test("The sweeper ends a session → listeners, cache and metrics are notified", .timeLimit(.minutes(1)))
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
        "A second sweeper takes over → it announces the lapses since the first one's sweep, and none twice",
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
        "The token of a session that cannot be refreshed expires → the sweep and a later use report `token_expired`",
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

/// A store whose endings take two steps.
///
/// The first step waits for the disk.
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
