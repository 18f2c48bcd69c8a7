import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The register of relayed answers and event streams that end with their session, and the notices about the session's end
/// (guarantee 6).
@Suite("The register of relayed answers and event streams that end with their session", .timeLimit(.minutes(1)))
struct SessionFollowerTests {
    /// A follower that records each notice about the end of its session.
    private final class Follower: SessionFollower {
        private let heard = Mutex<[EndReason?]>([])
        func sessionEnded(_ reason: EndReason?) { heard.withLock { $0.append(reason) } }
        var reasons: [EndReason?] { heard.withLock { $0 } }
    }

    private static let widget = ChildKind(unchecked: "widget")
    /// A kind of children.
    ///
    /// The idle time of these children is longer than that of their parents.
    private static let tv = ChildKind(unchecked: "tv")

    private func broker(
        store: (any BrokerStore)? = nil, like other: TestBroker? = nil, clock: TestClock = TestClock(),
        settings: BrokerSettings = BrokerSettings()
    ) throws -> TestBroker {
        guard let other else {
            var client = ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both,
                redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"],
                nonce: true)
            let long = ChildPolicy(lifetimes: SessionLifetimes(idle: .seconds(60 * 86_400)))
            client.children = [Self.widget: ChildPolicy(), Self.tv: long, .web: ChildPolicy()]
            return try TestBroker(
                store: store, clients: [client], script: .init(tokenLifetime: .seconds(600)), settings: settings,
                clock: clock)
        }
        return try TestBroker(store: store, vault: other.vault, provider: other.provider, clients: nil, clock: clock)
    }

    private func child(
        _ broker: TestBroker, of parent: SignedIn, _ name: String = "home", kind: ChildKind = widget
    ) async throws -> LiveSession {
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        let made = try await broker.useCases.makeChild.make(ChildOrder(kind: kind, name: name), of: live)
        return try await broker.useCases.resumeSession.resume(made.token)
    }

    @Test(
        "A session ends → only the unfinished relayed answers of the session and of its children are notified"
    )
    func ends() async throws {
        let broker = try broker()
        let (one, two) = (try await broker.signIn(), try await broker.signIn(code: "code-2"))
        let live = try await broker.useCases.resumeSession.resume(one.token)
        let child = try await child(broker, of: one)
        let (own, childs, gone) = (Follower(), Follower(), Follower())
        let notices = broker.context.notices
        let places = [notices.follow(live, own), notices.follow(child, childs), notices.follow(live, gone)]
        notices.forget(places[2])
        try await broker.useCases.endSession.logOut(two.token)
        #expect(own.reasons.isEmpty && childs.reasons.isEmpty)
        try await broker.useCases.endSession.logOut(one.token)
        #expect(own.reasons.contains(.loggedOut) && childs.reasons.contains(.parentEnded))
        #expect(gone.reasons.isEmpty)
        for place in places { notices.forget(place) }
        #expect(notices.listenedTo.isEmpty)
    }

    @Test("A session lapses → the next check ends its relayed answers and event streams, and those of its children")
    func lapses() async throws {
        let clock = TestClock()
        let broker = try broker(clock: clock)
        let parent = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        let child = try await child(broker, of: parent)
        let (own, childs) = (Follower(), Follower())
        let heard = Mutex<[SessionNotice]>([])
        let places = [broker.context.notices.follow(live, own), broker.context.notices.follow(child, childs)]
        let subscription = broker.useCases.listenToSession.listen(child) { notice in
            heard.withLock { $0.append(notice) }
        }
        let watch = EndWatch(broker.context)
        clock.advance(.seconds(29 * 86_400))
        await watch.look()
        #expect(own.reasons.isEmpty && childs.reasons.isEmpty)
        clock.advance(.seconds(86_400))
        await watch.look()
        #expect(own.reasons.contains(.idleExpired))
        #expect(childs.reasons.contains(.parentEnded) || childs.reasons.contains(.idleExpired))
        #expect(!heard.withLock { $0.isEmpty })
        withExtendedLifetime((places, subscription)) {}
    }

    @Test("A child's parent lapses first, and no call notices this → the next check ends the child's event streams")
    func parentLapses() async throws {
        let broker = try broker()
        let child = try await child(broker, of: try await broker.signIn(), kind: Self.tv)
        let follower = Follower()
        let heard = Mutex<[SessionNotice]>([])
        let place = broker.context.notices.follow(child, follower)
        let subscription = broker.useCases.listenToSession.listen(child) { notice in
            heard.withLock { $0.append(notice) }
        }
        let watch = EndWatch(broker.context)
        broker.clock.advance(.seconds(29 * 86_400))
        await watch.look()
        #expect(follower.reasons.isEmpty && heard.withLock { $0.isEmpty })
        broker.clock.advance(.seconds(86_400))
        #expect(child.row.lapsesAt > broker.clock.now)
        await watch.look()
        #expect(follower.reasons.contains(.parentEnded))
        #expect(heard.withLock { $0.contains(.ended(.parentEnded)) })
        withExtendedLifetime((place, subscription)) {}
    }

    @Test(
        "A session was used on another replica, or the store is away → a check leaves the session's relayed answers open"
    )
    func slidElsewhere() async throws {
        let clock = TestClock()
        let store = InMemoryStore()
        let broker = try broker(store: store, clock: clock)
        let replica = try self.broker(store: store, like: broker, clock: clock)
        let signedIn = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(signedIn.token)
        let follower = Follower()
        let place = broker.context.notices.follow(live, follower)
        clock.advance(.seconds(20 * 86_400))
        _ = try await replica.useCases.resumeSession.use(signedIn.token)
        await replica.settled()
        clock.advance(.seconds(20 * 86_400))
        await EndWatch(broker.context).look()
        #expect(follower.reasons.isEmpty)
        clock.advance(.seconds(11 * 86_400))
        await store.close()
        await EndWatch(broker.context).look()
        #expect(follower.reasons.isEmpty)
        broker.context.notices.forget(place)
    }

    @Test("The notice of a session's end is lost → the regular check finds the end with its reason")
    func lostNotice() async throws {
        let store = InMemoryStore()
        let broker = try broker(store: store)
        let signedIn = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(signedIn.token)
        let child = try await child(broker, of: signedIn)
        let (own, childs) = (Follower(), Follower())
        let places = [broker.context.notices.follow(live, own), broker.context.notices.follow(child, childs)]
        let replicas = TestSharedStore()
        replicas.known.withLock { $0 = [live.tokenDigest: 1, child.tokenDigest: 1] }
        let (polling, watch) = (ReplicaRefreshes(broker.context, replicas), EndWatch(broker.context))
        try await polling.look()
        await watch.look()
        #expect(own.reasons.isEmpty)
        // The store's answer has an older version than the session, so the follower ignores this answer.
        replicas.known.withLock { $0 = [:] }
        try await polling.look()
        await watch.look()
        #expect(own.reasons.isEmpty && childs.reasons.isEmpty)
        _ = try await store.endSessions(.token(live.tokenDigest), reason: .admin, now: broker.clock.now, limit: 9)
        try await polling.look()
        await watch.look()
        #expect(own.reasons.contains(.admin) && childs.reasons.contains(.parentEnded))
        withExtendedLifetime(places) {}
    }

    @Test(
        "The store's answer to an ending is lost → the next check reads all sessions with open answers, and finds the ending"
    )
    func inDoubt() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(signedIn.token)
        let follower = Follower()
        let place = broker.context.notices.follow(live, follower)
        _ = try await broker.store.endSessions(
            .token(live.tokenDigest), reason: .admin, now: broker.clock.now, limit: 9)
        await EndWatch(broker.context).look()
        #expect(follower.reasons.isEmpty)
        let isLost = Mutex(true)
        let result = await EndSession(broker.context).steps(.admin) { _ throws(StoreFailure) in
            if isLost.withLock({ lost in
                defer { lost = false }; return lost
            }) {
                throw .inDoubt("lost")
            }
            return EndedBatch(ended: [], more: false)
        }
        #expect((try? result.get()) == 0)
        await EndWatch(broker.context).look()
        #expect(follower.reasons.contains(.admin))
        broker.context.notices.forget(place)
    }

    @Test(
        "A parent is refreshed on any replica, or its user steps up → the child's event stream gets one notice for each event"
    )
    func childHears() async throws {
        let broker = try broker()
        let parent = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        let child = try await child(broker, of: parent)
        let heard = Mutex<[SessionNotice]>([])
        let subscription = broker.useCases.listenToSession.listen(child) { notice in
            heard.withLock { $0.append(notice) }
        }
        _ = try await broker.useCases.refreshTokens.refreshNow(live)
        #expect(heard.withLock { $0 } == [.tokensRefreshed])
        let replicas = TestSharedStore()
        let polling = ReplicaRefreshes(broker.context, replicas)
        func look(_ version: Int64) async throws -> Int {
            replicas.known.withLock { $0 = [live.tokenDigest: version, child.tokenDigest: 1] }
            try await polling.look()
            return heard.withLock { $0.count }
        }
        #expect(try await look(2) == 1)
        #expect(try await look(3) == 2)
        #expect(try await look(3) == 2)
        ReplicaNotices(broker.context).hear(.steppedUp([live.tokenDigest]))
        #expect(heard.withLock { $0.count } == 3)
        withExtendedLifetime(subscription) {}
    }

    @Test("A child opens event streams → they are counted separately from those of its siblings and its parent")
    func allowance() async throws {
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = 1
        let broker = try broker(settings: settings)
        let parent = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(parent.token)
        let ended = Mutex<[String]>([])
        func listen(_ session: LiveSession, _ name: String) -> Subscription {
            broker.useCases.listenToSession.listen(session) { _ in ended.withLock { $0.append(name) } }
        }
        var held: [Subscription] = []
        for _ in 0..<2 { held.append(listen(live, "parent")) }
        for number in 0..<6 {
            let child = try await child(broker, of: parent, "w\(number)")
            for _ in 0..<ListenToSession.perChild { held.append(listen(child, "w\(number)")) }
        }
        #expect(ended.withLock { $0.isEmpty })
        held.append(listen(try await child(broker, of: parent, "w9"), "w9"))
        #expect(ended.withLock { $0.isEmpty })
        let last = try await child(broker, of: parent, "w10")
        for _ in 0...ListenToSession.perChild { held.append(listen(last, "w10")) }
        #expect(ended.withLock { $0 } == ["w10"])
        withExtendedLifetime(held) {}
    }

    @Test(
        "A relayed call transmits bytes → the idle ends of its session and the parent move; for a web page's session, both stay"
    )
    func use() async throws {
        let clock = TestClock()
        let broker = try broker(clock: clock)
        let parent = try await broker.signIn()
        let child = try await child(broker, of: parent)
        let resume = broker.useCases.resumeSession
        resume.slide(child)
        let use = try #require(SessionUse(of: child, resume))
        func writes() async throws -> [WallTime] {
            await broker.settled()
            var times: [WallTime] = []
            for digest in [child.tokenDigest, try #require(child.family).parent.tokenDigest] {
                times.append(try #require(try await broker.store.session(tokenDigest: digest)).lastUsedAt)
            }
            return times
        }
        let begin = clock.now
        use.carries()
        #expect(try await writes() == [begin, begin])
        for _ in 0..<8 {
            clock.advance(.seconds(10 * 86_400))
            use.carries()
            #expect(try await writes() == [clock.now, clock.now])
        }
        _ = try await resume.resume(parent.token)
        // If a relayed byte arrives after the lapse, the session stays ended, unless another call has kept the session alive.
        let other = try await broker.signIn(code: "code-2")
        let live = try await resume.resume(other.token)
        let (late, kept) = (try #require(SessionUse(of: live, resume)), try #require(SessionUse(of: live, resume)))
        clock.advance(.seconds(20 * 86_400))
        _ = try await resume.use(other.token)
        await broker.settled()
        clock.advance(.seconds(20 * 86_400))
        kept.carries()
        await broker.settled()
        clock.advance(.seconds(20 * 86_400))
        _ = try await resume.resume(other.token)
        clock.advance(.seconds(20 * 86_400))
        late.carries()
        await broker.settled()
        #expect(await problem { try await resume.resume(other.token) }?.reason == .idleExpired)
        var facts = child.facts
        facts.child = ChildFacts(
            kind: .web, name: "page", parent: try #require(child.family).parent.tokenDigest,
            parentHandle: parent.session.handle)
        let page = LiveSession(row: child.row, facts: facts, binding: nil, family: child.family)
        #expect(SessionUse(of: page, resume) == nil)
    }
}
