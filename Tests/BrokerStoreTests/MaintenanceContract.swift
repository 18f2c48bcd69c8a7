import Broker
import BrokerStore
import Testing

@Suite("Store contract: maintenance")
struct MaintenanceContract {
    private static let day: Int64 = 86_400

    @Test("Outbox work is taken by one worker at a time, oldest due first", arguments: StoreEngine.allCases)
    func outbox(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let rows = (0..<20).map { Rows.outbox(at: Rows.seconds($0)) }
            try await store.addOutbox(rows)
            try await store.addOutbox(rows)
            try await store.addOutbox([])
            #expect(try await store.outboxCount() == 20)
            let taken = try await withThrowingTaskGroup(of: [OutboxRow].self) { group in
                for _ in 0..<10 {
                    group.addTask {
                        try await store.takeOutbox(now: Rows.seconds(9), until: Rows.seconds(100), limit: 3)
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(Set(taken.map(\.id)) == Set(rows.prefix(10).map(\.id)))
            #expect(taken.count == 10)
            #expect(taken.allSatisfy { $0.attempts == 1 && $0.nextAttemptAt == Rows.seconds(100) })
            let next = try await store.takeOutbox(now: Rows.seconds(15), until: Rows.seconds(200), limit: 2)
            #expect(next.map(\.createdAt) == [Rows.seconds(10), Rows.seconds(11)])
            for row in taken { try await store.removeOutbox(row.id) }
            try await store.removeOutbox(Rows.digest())
            #expect(try await store.outboxCount() == 10)
        }
    }

    @Test("A logout token's id is new once, for fifty at the same time too (SEC-67)", arguments: StoreEngine.allCases)
    func logoutTokens(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let id = Rows.digest()
            let fresh = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<50 {
                    group.addTask {
                        try await store.rememberLogoutToken(id, until: Rows.seconds(600), now: Rows.now)
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(fresh == 1)
            #expect(try await !store.rememberLogoutToken(id, until: Rows.seconds(900), now: Rows.seconds(599)))
            #expect(try await store.rememberLogoutToken(id, until: Rows.seconds(900), now: Rows.seconds(600)))
        }
    }

    @Test("A lease has one owner until it lapses; its owner renews it", arguments: StoreEngine.allCases)
    func leases(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            func acquire(_ owner: String, at time: Int64, _ name: String) async throws -> Bool {
                try await store.acquireLease(
                    name, owner: owner, now: Rows.seconds(time), until: Rows.seconds(time + 30))
            }
            let steps: [(owner: String, time: Int64, name: String, granted: Bool)] = [
                ("a", 0, "sweeper", true), ("b", 29, "sweeper", false), ("b", 29, "outbox", true),
                ("a", 20, "sweeper", true), ("b", 49, "sweeper", false), ("b", 50, "sweeper", true),
                ("a", 51, "sweeper", false),
            ]
            for step in steps {
                let granted = try await acquire(step.owner, at: step.time, step.name)
                #expect(granted == step.granted, "\(step)")
            }
        }
    }

    @Test("Sweeping removes what is past its keeping time and nothing else", arguments: StoreEngine.allCases)
    func sweep(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let day = Self.day
            let login = Rows.login(life: .seconds(600))
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let registration = Rows.registration()
            try await store.insertRegistration(registration)
            let exchange = try await store.mustClaim(Rows.exchange())
            let jti = Rows.digest()
            _ = try await store.rememberLogoutToken(jti, until: Rows.seconds(60), now: Rows.now)
            let idle = Rows.session(idle: .seconds(100), absolute: .seconds(200))
            let old = Rows.session(idle: .seconds(300), absolute: .seconds(150))
            let lasting = Rows.session(idle: .seconds(100 * day), absolute: .seconds(200 * day))
            for session in [idle, old, lasting] { try await store.signIn(session) }

            #expect(try await store.sweep(now: Rows.seconds(59), limit: 100) == 0)
            #expect(try await store.sweep(now: Rows.seconds(60), limit: 100) == 1)
            #expect(try await store.sweep(now: Rows.seconds(1000), limit: 100) == 2)
            let first = try #require(try await store.session(token: idle.token))
            #expect(first.endReason == .idleExpired)
            #expect(first.endedAt == Rows.seconds(1000))
            #expect(first.tokens == nil)
            #expect(try await store.session(token: old.token)?.endReason == .expired)
            #expect(try await store.outboxCount() == 2)
            #expect(try await store.login(state: login.state) != nil)

            // The three sign-ins made exchanges too.
            #expect(try await store.sweep(now: Rows.seconds(day), limit: 100) == 4)
            #expect(try await store.exchange(exchange.key) == nil)
            #expect(try await store.sweep(now: Rows.seconds(day + 599), limit: 100) == 0)
            #expect(try await store.sweep(now: Rows.seconds(day + 900), limit: 100) == 2)
            #expect(try await store.login(state: login.state) == nil)
            #expect(try await store.registration(registration.key) == nil)

            #expect(try await store.sweep(now: Rows.seconds(999 + 30 * day), limit: 100) == 0)
            #expect(try await store.session(token: old.token) != nil)
            #expect(try await store.sweep(now: Rows.seconds(1000 + 30 * day), limit: 100) == 2)
            #expect(try await store.session(token: old.token) == nil)
            #expect(try await store.session(handle: idle.handle) == nil)
            #expect(try await store.session(token: lasting.token) == lasting)
        }
    }

    @Test("Sweeping goes in batches", arguments: StoreEngine.allCases)
    func sweepBatches(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for _ in 0..<25 { try await store.signIn(Rows.session()) }
            var touched: [Int] = []
            repeat {
                touched.append(try await store.sweep(now: Rows.seconds(8000), limit: 10))
            } while touched.last != 0
            #expect(touched == [10, 10, 5, 0])
            #expect(try await store.outboxCount() == 25)
        }
    }

    @Test(
        "A closed store refuses everything, and never says \"no session\" (guarantee 3)",
        arguments: StoreEngine.allCases)
    func closed(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            try await store.ping()
            try await store.appendAudit(
                AuditRow(at: Rows.now, actor: "ops", action: "end_session", target: "tag", outcome: "ended"))
            await store.close()
            await store.close()
            await #expect(throws: StoreFailure.self) { try await store.ping() }
            await #expect(throws: StoreFailure.self) { try await store.session(token: session.token) }
            await #expect(throws: StoreFailure.self) {
                try await store.endSessions(.all, reason: .admin, now: Rows.now)
            }
            await #expect(throws: StoreFailure.self) {
                try await store.appendAudit(
                    AuditRow(at: Rows.now, actor: "ops", action: "end_session", target: "tag", outcome: "ended"))
            }
        }
    }
}
