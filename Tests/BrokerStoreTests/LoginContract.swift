import Broker
import BrokerStore
import Testing

@Suite("Store contract: logins", .timeLimit(.minutes(2)))
struct LoginContract {
    @Test(
        "A login token's ninth pending login → refused, and the other eight stay (SEC-119)",
        arguments: StoreEngine.allCases)
    func capByToken(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let token = Rows.digest()
            let logins = (0..<8).map { Rows.login(tokenDigest: token, at: Rows.seconds($0)) }
            for login in logins { #expect(try await store.insertLogin(login, limits: LoginLimits()) == .inserted) }
            let ninth = Rows.login(tokenDigest: token, at: Rows.seconds(8))
            #expect(try await store.insertLogin(ninth, limits: LoginLimits()) == .tooManyForToken)
            #expect(try await store.login(state: ninth.state) == nil)
            for login in logins { #expect(try await store.login(state: login.state) == login) }
            #expect(try await store.insertLogin(Rows.login(), limits: LoginLimits()) == .inserted)
            // A login that was burned or has expired makes room.
            let first = try #require(logins.first)
            _ = try await store.burnLogin(state: first.state)
            #expect(try await store.insertLogin(ninth, limits: LoginLimits()) == .inserted)
            let later = Rows.login(tokenDigest: token, at: Rows.seconds(601))
            #expect(try await store.insertLogin(later, limits: LoginLimits()) == .inserted)
        }
    }

    @Test(
        "A hundred logins of one login token begin at the same time → eight are stored, which is the cap (SEC-119)",
        arguments: StoreEngine.allCases)
    func capContended(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let token = Rows.digest()
            let inserted = try await withThrowingTaskGroup(of: LoginInsertion.self) { group in
                for _ in 0..<100 {
                    let login = Rows.login(tokenDigest: token)
                    group.addTask { try await store.insertLogin(login, limits: LoginLimits()) }
                }
                return try await group.reduce(into: 0) { $0 += $1 == .inserted ? 1 : 0 }
            }
            #expect(inserted == 8)
            #expect(try await store.pendingLogins(loginTokenDigest: token, now: Rows.now).count == 8)
        }
    }

    @Test(
        "The cap of pending logins is reached → new logins are refused until one is claimed, burned or expires (SEC-119)",
        arguments: StoreEngine.allCases)
    func capInTotal(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let limits = LoginLimits(pending: 5, pendingPerToken: 8)
            let logins = (0..<5).map { Rows.login(at: Rows.seconds($0)) }
            for login in logins { #expect(try await store.insertLogin(login, limits: limits) == .inserted) }
            func next(_ time: Int64) async throws -> LoginInsertion {
                try await store.insertLogin(Rows.login(at: Rows.seconds(time)), limits: limits)
            }
            #expect(try await next(5) == .tooManyPending)
            _ = try await store.burnLogin(state: logins[0].state)
            #expect(try await next(6) == .inserted)
            #expect(try await next(7) == .tooManyPending)
            let claimed = try await store.mustClaim(
                Rows.exchange(at: Rows.seconds(8), gate: .login(logins[1].state)))
            #expect(try await next(8) == .inserted)
            #expect(try await next(9) == .tooManyPending)
            // After the release of its exchange, a login counts as pending again.
            _ = try await store.releaseExchange(claimed.key, fence: claimed.fence, countingAttempt: true)
            _ = try await store.burnLogin(state: logins[2].state)
            #expect(try await next(10) == .tooManyPending)
            #expect(try await next(604) == .inserted)
        }
    }

    @Test(
        "The list of a login token's logins → only the pending ones, newest first, and at most 32",
        arguments: StoreEngine.allCases)
    func pending(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let token = Rows.digest()
            let limits = LoginLimits(pending: 1000, pendingPerToken: 1000)
            let logins = (0..<40).map { Rows.login(tokenDigest: token, at: Rows.seconds($0)) }
            for login in logins.shuffled() { _ = try await store.insertLogin(login, limits: limits) }
            _ = try await store.insertLogin(Rows.login(), limits: limits)
            let newest = try await store.pendingLogins(loginTokenDigest: token, now: Rows.seconds(40))
            #expect(newest == Array(logins.reversed().prefix(32)))
            _ = try await store.burnLogin(state: logins[39].state)
            _ = try await store.mustClaim(Rows.exchange(gate: .login(logins[38].state)))
            let rest = try await store.pendingLogins(loginTokenDigest: token, now: Rows.seconds(40))
            #expect(rest.first == logins[37])
            #expect(try await store.pendingLogins(loginTokenDigest: token, now: Rows.seconds(630)).count == 7)
            #expect(try await store.pendingLogins(loginTokenDigest: token, now: Rows.seconds(639)).isEmpty)
        }
    }

    @Test("A login is burned a hundred times at once → one attempt succeeds (SEC-124)", arguments: StoreEngine.allCases)
    func burnedOnce(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let burned = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<100 { group.addTask { try await store.burnLogin(state: login.state) } }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(burned == 1)
            #expect(try await store.login(state: login.state)?.status == .burned)
            #expect(try await !store.burnLogin(state: Rows.digest()))
        }
    }

    @Test("A second login with the same state → refused, and the first stays", arguments: StoreEngine.allCases)
    func sameState(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            var twin = login
            twin.loginTokenDigest = Rows.digest()
            await #expect(throws: StoreFailure.self) { try await store.insertLogin(twin, limits: LoginLimits()) }
            #expect(try await store.login(state: login.state) == login)
        }
    }
}
