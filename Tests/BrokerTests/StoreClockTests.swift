import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// Replicas that use the store's clock.
///
/// If the store's clock or a replica's clock is set to another time, a session in use must stay alive (guarantee 3, decision
/// 25).
@Suite(.timeLimit(.minutes(3))) struct StoreClockTests {
    private static let widget = ChildKind(unchecked: "widget")

    /// Two replicas and a database, each with its own clock.
    private struct Cluster {
        let database = TestClock()
        let first: TestBroker
        let second: TestBroker

        init(idle: Int) throws {
            var client = ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both,
                redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"],
                nonce: true, lifetimes: SessionLifetimes(idle: .seconds(idle), absolute: .seconds(86_400)))
            client.children = [
                widget: ChildPolicy(lifetimes: SessionLifetimes(idle: .seconds(idle), absolute: .seconds(3600))),
                .web: ChildPolicy(lifetimes: SessionLifetimes(idle: .seconds(1800), absolute: .seconds(3600))),
            ]
            client.children[.web]?.origins = ["https://auth.example.com"]
            first = try TestBroker(
                clients: [client], script: .init(tokenLifetime: nil), sharing: TestSharedStore(clock: database))
            second = try TestBroker(
                store: first.store, vault: first.vault, clients: [client], script: .init(tokenLifetime: nil),
                sharing: TestSharedStore(clock: database))
        }

        var replicas: [TestBroker] { [first, second] }

        /// Advances all clocks by some seconds, and lets each replica compare its clock with the database's clock.
        func advance(_ seconds: Int) async throws {
            database.advance(.seconds(seconds))
            for replica in replicas { replica.clock.advance(.seconds(seconds)) }
            try await compare()
        }

        func compare() async throws {
            for replica in replicas {
                let shared = try #require(replica.context.shared)
                try await ClockComparison(replica.context, shared).look()
            }
        }
    }

    enum Clock: CaseIterable { case database, replica }

    private func use(_ broker: TestBroker, _ token: Secret) async -> BrokerProblem? {
        await problem { try await broker.useCases.resumeSession.use(token) }
    }

    @Test(
        "The database's or a replica's clock is stepped and corrected → a session in use is never refused, an unused one ends",
        arguments: Clock.allCases, [-120, -70, -50, 50, 70, 120])
    func steps(clock: Clock, seconds: Int) async throws {
        let cluster = try Cluster(idle: 30)
        try await cluster.compare()
        let session = try await cluster.first.signIn()
        func useForAWhile(_ what: String) async throws {
            for turn in 0..<40 {
                try await cluster.advance(4)
                let broker = cluster.replicas[turn % 2]
                let refusal = await use(broker, session.token)
                #expect(refusal == nil, "\(what), \(turn * 4) s: \(refusal?.code.rawValue ?? "")")
                await broker.settled()
            }
        }
        let moved = clock == .database ? cluster.database : cluster.second.clock
        try await useForAWhile("before")
        moved.jump(.seconds(seconds))
        try await useForAWhile("stepped")
        moved.jump(.seconds(-seconds))
        try await useForAWhile("set right")
        // From now on, the session is unused, so it lapses.
        for _ in 0..<20 { try await cluster.advance(35) }
        for broker in cluster.replicas { #expect(await use(broker, session.token)?.reason == .idleExpired) }
    }

    @Test(
        "A process starts after a step of the database's clock → it serves a session in use, as the other replicas do")
    func begins() async throws {
        let cluster = try Cluster(idle: 30)
        try await cluster.compare()
        let session = try await cluster.first.signIn()
        cluster.database.jump(.seconds(-100))
        for _ in 0..<10 {
            try await cluster.advance(5)
            #expect(await use(cluster.first, session.token) == nil)
            await cluster.first.settled()
        }
        cluster.database.jump(.seconds(100))
        #expect(await use(try await next(cluster, clock: cluster.database.now), session.token) == nil)
    }

    /// Returns a process that starts now and has compared its clock with the database's clock once.
    private func next(_ cluster: Cluster, clock: WallTime) async throws -> TestBroker {
        let next = try TestBroker(
            store: cluster.first.store, vault: cluster.first.vault, clock: TestClock(clock),
            sharing: TestSharedStore(clock: cluster.database))
        try await ClockComparison(next.context, #require(next.context.shared)).look()
        _ = try await Sweeper.checkClock(next.context)
        return next
    }

    @Test(
        "A process starts after a jump of the database's clock that no replica has noted yet → it serves a session in use"
    )
    func beginsBeforeTheNote() async throws {
        let cluster = try Cluster(idle: 30)
        try await cluster.compare()
        let session = try await cluster.first.signIn()
        let machine = cluster.database.now
        cluster.database.jump(.seconds(50))
        // The machine's clock differs from the database's clock, so the process notices the step.
        #expect(await use(try await next(cluster, clock: machine), session.token) == nil)
        // The machine's clock agrees with the database's clock, so the process cannot notice the step itself. Another replica
        // has recorded the step in the store.
        let alike = try await next(cluster, clock: cluster.database.now)
        try await cluster.compare()
        try await ClockComparison(alike.context, #require(alike.context.shared)).look()
        #expect(await use(alike, session.token) == nil)
    }

    @Test(
        "A process starts with a clock five seconds behind → half a minute later, it refuses a session just after its idle end"
    )
    func seconds() async throws {
        let cluster = try Cluster(idle: 30)
        try await cluster.compare()
        let session = try await cluster.first.signIn()
        let next = try await next(cluster, clock: cluster.database.now.advanced(by: .seconds(-5)))
        for broker in [next] + cluster.replicas { broker.clock.advance(.seconds(31)) }
        cluster.database.advance(.seconds(31))
        try await ClockComparison(next.context, #require(next.context.shared)).look()
        #expect(await use(next, session.token)?.reason == .idleExpired)
    }

    @Test(
        "A replica's clock is five minutes off → it makes children and tickets, judges ages, and serves sign-ins")
    func offReplica() async throws {
        let cluster = try Cluster(idle: 60)
        cluster.second.clock.jump(.seconds(300))
        try await cluster.compare()
        let session = try await cluster.second.signIn()
        let live = try await cluster.second.useCases.resumeSession.resume(session.token)
        let child = try await cluster.second.useCases.makeChild.make(
            ChildOrder(kind: Self.widget, name: "home"), of: live)
        #expect(cluster.second.context.may(.judgeAge) && !cluster.second.context.may(.concludeLapse))
        let ticket = try await ticket(cluster.second, live)
        _ = try await cluster.second.useCases.handOver.spend(ticket, verifier: Self.secret, held: [])
        let authenticatedAt = cluster.database.now.since(WallTime(seconds: 0)).wholeSeconds
        cluster.second.provider.script.withLock { $0.signIn = SignInFacts(authenticatedAt: authenticatedAt) }
        let aged = try await cluster.second.useCases.resumeSession.resume(
            cluster.second.signIn(code: "code-aged").token)
        let check = cluster.second.useCases.signInCheck
        #expect(await problem { try await check.require(StepUpDemand(maximumAge: 300), of: aged) } == nil)
        for _ in 0..<40 {
            try await cluster.advance(10)
            #expect(await use(cluster.second, child.token) == nil)
            await cluster.second.settled()
        }
        #expect(await use(cluster.first, child.token) == nil)
        #expect(await use(cluster.first, session.token) == nil)
    }

    private static let secret = Secret("a-secret-of-the-app-with-forty-three-letters-")

    /// Begins a hand-over and returns its ticket.
    private func ticket(_ broker: TestBroker, _ live: LiveSession) async throws -> Secret {
        let order = HandoverOrder(
            origin: "https://auth.example.com", path: "/x", challenge: broker.vault.digest(Self.secret))
        let url = try await broker.useCases.handOver.begin(order, of: live).url.reveal()
        return Secret(String(url.split(separator: "/").last ?? ""))
    }

    @Test(
        "The replicas' clocks differ → a ticket lives for one minute of the store's clock", arguments: [-55, 55, 100])
    func ticket(seconds: Int) async throws {
        let cluster = try Cluster(idle: 3600)
        cluster.second.clock.jump(.seconds(seconds))
        try await cluster.compare()
        let session = try await cluster.first.signIn()
        let live = try await cluster.first.useCases.resumeSession.resume(session.token)
        let (early, late) = (try await ticket(cluster.first, live), try await ticket(cluster.first, live))
        try await cluster.advance(55)
        _ = try await cluster.second.useCases.handOver.spend(early, verifier: Self.secret, held: [])
        try await cluster.advance(6)
        for broker in cluster.replicas {
            let refusal = await problem {
                try await broker.useCases.handOver.spend(late, verifier: Self.secret, held: [])
            }
            #expect(refusal?.code == .handoverExpired)
        }
    }

    @Test(
        "A single broker's clock is set two hours back → 503 for a new child, for a new ticket, and for the use of a ticket"
    )
    func doubted() async throws {
        let cluster = try Cluster(idle: 3600)
        let broker = try TestBroker(
            clients: cluster.first.provider.profile.clients, script: .init(tokenLifetime: nil))
        let session = try await broker.signIn()
        let live = try await broker.useCases.resumeSession.resume(session.token)
        let order = HandoverOrder(
            origin: "https://auth.example.com", path: "/x", challenge: broker.vault.digest(Self.secret))
        let made = try await ticket(broker, live)
        broker.clock.jump(.seconds(-7200))
        let refusals = [
            await problem {
                try await broker.useCases.makeChild.make(ChildOrder(kind: Self.widget, name: "home"), of: live)
            },
            await problem { try await broker.useCases.handOver.begin(order, of: live) },
            await problem {
                try await broker.useCases.handOver.spend(made, verifier: Self.secret, held: [])
            },
        ]
        for refusal in refusals { #expect(refusal?.code == .storeUnavailable && refusal?.retryAfter != nil) }
    }
}
