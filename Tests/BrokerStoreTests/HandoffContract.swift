import Broker
import BrokerStore
import Testing

@Suite("Store contract: handoffs", .timeLimit(.minutes(2)))
struct HandoffContract {
    @Test(
        "Many callbacks of one login at the same time → one living handoff (SEC-124)", arguments: StoreEngine.allCases)
    func one(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.digest()
            let rows = (0..<50).map { _ in Rows.handoff(login: login) }
            let kept = try await withThrowingTaskGroup(of: Digest?.self) { group in
                for row in rows { group.addTask { try await store.keepHandoff(row) ? row.key : nil } }
                return try await group.reduce(into: [Digest]()) { kept, key in
                    if let key { kept.append(key) }
                }
            }
            #expect(kept.count == 1)
            let standing = try #require(try await store.handoff(login: login))
            #expect(standing.key == kept.first)
            #expect(try await store.handoff(standing.key) == standing)
            #expect(try await store.keepHandoff(standing), "storing the same handoff again succeeds")
            for row in rows where row.key != standing.key { #expect(try await store.handoff(row.key) == nil) }
        }
    }

    @Test(
        "A login's handoff has expired → another handoff replaces it, and other logins' handoffs stay",
        arguments: StoreEngine.allCases)
    func replaced(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let first = Rows.handoff()
            let neighbour = Rows.handoff()
            let kept = [try await store.keepHandoff(first), try await store.keepHandoff(neighbour)]
            #expect(kept == [true, true])
            let early = Rows.handoff(login: first.login, at: Rows.seconds(59))
            #expect(try await !store.keepHandoff(early))
            let late = Rows.handoff(login: first.login, at: Rows.seconds(60))
            #expect(try await store.keepHandoff(late))
            #expect(try await store.handoff(login: first.login) == late)
            #expect(try await store.handoff(first.key) == nil)
            #expect(try await store.handoff(neighbour.key) == neighbour)
        }
    }

    @Test(
        "A handoff stays unused → swept after two minutes; an exchange claims its login → swept together with this exchange",
        arguments: StoreEngine.allCases)
    func swept(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            #expect(try await store.insertLogin(login, limits: LoginLimits()) == .inserted)
            let redeemed = Rows.handoff(login: login.state)
            let forgotten = Rows.handoff()
            #expect(try await store.keepHandoff(redeemed))
            #expect(try await store.keepHandoff(forgotten))
            let exchange = Rows.exchange(at: Rows.seconds(10), gate: .login(login.state))
            guard case .claimed = try await store.claimExchange(exchange, maximumAttempts: 3) else {
                return #expect(Bool(false))
            }
            #expect(try await store.sweep(now: Rows.seconds(119), limit: 10, lapsedSince: Rows.now).touched == 0)
            #expect(try await store.sweep(now: Rows.seconds(120), limit: 10, lapsedSince: Rows.now).touched == 1)
            #expect(try await store.handoff(forgotten.key) == nil)
            let kept = try #require(try await store.handoff(redeemed.key))
            #expect(kept.keptUntil == Rows.seconds(10 + 86_400) && kept.expiresAt == redeemed.expiresAt)
            _ = try await store.sweep(now: Rows.seconds(10 + 86_400), limit: 10, lapsedSince: Rows.now)
            #expect(try await store.handoff(redeemed.key) == nil)
            #expect(try await store.exchange(exchange.key) == nil)
        }
    }
}
