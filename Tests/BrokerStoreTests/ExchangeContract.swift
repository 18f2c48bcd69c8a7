import Broker
import BrokerStore
import BrokerTestSupport
import Testing

@Suite("Store contract: exchanges", .timeLimit(.minutes(2)))
struct ExchangeContract {
    @Test(
        "A hundred claims of one code at the same time → exactly one is granted (SEC-124)",
        arguments: StoreEngine.allCases)
    func oneClaim(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            #expect(try await store.insertLogin(login, limits: LoginLimits()) == .inserted)
            let row = Rows.exchange(gate: .login(login.state))
            let results = try await withThrowingTaskGroup(of: ExchangeClaimResult.self) { group in
                for _ in 0..<100 { group.addTask { try await store.claimAnew(row) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count(where: { if case .claimed = $0 { true } else { false } }) == 1)
            #expect(results.count(where: { if case .existing = $0 { true } else { false } }) == 99)
            let taken = try await store.login(state: login.state)
            #expect(taken?.status == .claimed)
            #expect(taken?.exchange == row.key)
        }
    }

    @Test(
        "A hundred codes claim one login's gate at the same time → one claim is granted (SEC-124)",
        arguments: StoreEngine.allCases)
    func oneGate(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let results = try await withThrowingTaskGroup(of: ExchangeClaimResult.self) { group in
                for _ in 0..<100 {
                    let row = Rows.exchange(gate: .login(login.state))
                    group.addTask { try await store.claimExchange(row, maximumAttempts: 3) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count(where: { if case .claimed = $0 { true } else { false } }) == 1)
            #expect(results.count(where: { $0 == .gateClosed }) == 99)
        }
    }

    @Test(
        "An exchange's gate is burned, expired or unknown → the claim is refused, and no row is written",
        arguments: StoreEngine.allCases)
    func closedGates(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let burned = Rows.login()
            let expired = Rows.login(at: Rows.seconds(-600))
            for login in [burned, expired] { _ = try await store.insertLogin(login, limits: LoginLimits()) }
            #expect(try await store.burnLogin(state: burned.state))
            #expect(try await !store.burnLogin(state: burned.state))
            let lateRegistration = Rows.registration(at: Rows.seconds(-900))
            try await store.insertRegistration(lateRegistration)
            let gates: [ExchangeGate] = [
                .login(burned.state), .login(expired.state), .login(Rows.digest()),
                .registration(lateRegistration.key), .registration(Rows.digest()),
            ]
            for gate in gates {
                let row = Rows.exchange(gate: gate)
                #expect(try await store.claimExchange(row, maximumAttempts: 3) == .gateClosed)
                #expect(try await store.exchange(row.key) == nil)
            }
        }
    }

    @Test(
        "An exchange is released → its login is pending again, and only the same starter can claim the exchange",
        arguments: StoreEngine.allCases
    )
    func release(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let row = Rows.exchange(gate: .login(login.state))
            let first = try await store.mustClaim(row)
            #expect(try await !store.releaseExchange(row.key, fence: first.fence + 1, countingAttempt: true))
            #expect(try await store.releaseExchange(row.key, fence: first.fence, countingAttempt: true))
            #expect(try await !store.releaseExchange(row.key, fence: first.fence, countingAttempt: true))
            #expect(try await store.login(state: login.state)?.status == .pending)
            #expect(try await store.login(state: login.state)?.exchange == nil)

            var stranger = row
            stranger.proof = Rows.digest()
            var proofless = row
            proofless.proof = nil
            for other in [stranger, proofless] {
                guard case .existing(let standing) = try await store.claimExchange(other, maximumAttempts: 3) else {
                    Issue.record("a caller other than the starter got the claim")
                    continue
                }
                #expect(standing.outcome == .released)
            }

            var again = row
            again.claimFor = .seconds(60)
            again.salt = Rows.digest().bytes
            let second = try await store.mustClaim(again)
            #expect(second.fence == 2)
            #expect(second.attempts == 2)
            #expect(second.claimFor == .seconds(60))
            #expect(second.salt == row.salt)
            #expect(try await store.exchange(row.key) == second)
            #expect(try await store.login(state: login.state)?.status == .claimed)
        }
    }

    @Test(
        "An exchange is released three times as a counted attempt → no fourth claim; releases that are not counted → no limit",
        arguments: StoreEngine.allCases)
    func attempts(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = Rows.exchange()
            for _ in 0..<5 {
                let claimed = try await store.mustClaim(row)
                #expect(claimed.attempts == 1)
                #expect(try await store.releaseExchange(row.key, fence: claimed.fence, countingAttempt: false))
            }
            for attempt in 1...3 {
                let claimed = try await store.mustClaim(row)
                #expect(claimed.attempts == attempt)
                #expect(try await store.releaseExchange(row.key, fence: claimed.fence, countingAttempt: true))
            }
            guard case .existing(let standing) = try await store.claimExchange(row, maximumAttempts: 3) else {
                Issue.record("a fourth claim was granted")
                return
            }
            #expect(standing.attempts == 3)
        }
    }

    @Test("A released exchange's login is burned → no further claim is possible", arguments: StoreEngine.allCases)
    func releasedThenBurned(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let row = Rows.exchange(gate: .login(login.state))
            let claimed = try await store.mustClaim(row)
            _ = try await store.releaseExchange(row.key, fence: claimed.fence, countingAttempt: true)
            _ = try await store.burnLogin(state: login.state)
            #expect(try await store.claimExchange(row, maximumAttempts: 3) == .gateClosed)
            #expect(try await store.exchange(row.key)?.outcome == .released)
        }
    }

    @Test(
        "An exchange's claim lapses during an outage of the store → its owner keeps it; at another time → the code is spent",
        arguments: StoreEngine.allCases)
    func spared(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let sparing = SparedClaims(lapsedFor: .seconds(10) ... .seconds(40))
            func claim(_ row: ExchangeRow) async throws -> ExchangeClaimResult {
                var other = row
                other.claim = Rows.claim()
                return try await store.claimExchange(other, maximumAttempts: 3, sparing: sparing)
            }
            let rows = (1...3).map { _ in Rows.exchange() }
            let owner = try await store.mustClaim(rows[0])
            clock.advance(.seconds(35))
            for seconds in [0, 30] {
                clock.advance(.seconds(seconds))
                guard case .existing(let standing) = try await claim(rows[0]) else {
                    Issue.record("a claim was taken over, although its owner may still have the answer")
                    return
                }
                #expect(standing.outcome == .calling && standing.claimFor == .seconds(-10 - seconds))
            }
            let session = Rows.session()
            let completed = try await store.completeExchange(
                rows[0].key, fence: owner.fence, session: session, replacing: nil, sessionLimit: 5)
            #expect(completed != nil)
            // The caller spares claims that lapsed 10 to 40 s ago, during an outage of the store. The first of these claims
            // lapsed after the outage, and the second before it.
            for (row, seconds) in [(rows[1], 34), (rows[2], 66)] {
                _ = try await store.mustClaim(row)
                clock.advance(.seconds(seconds))
                guard case .existing(let spent) = try await claim(row) else {
                    Issue.record("a dead owner's claim was granted again, although its code may be spent")
                    return
                }
                #expect(spent.outcome == .spent(.unknown))
            }
        }
    }

    @Test(
        "The process that claimed an exchange dies → the code counts as spent, and a late result of this process is refused",
        arguments: StoreEngine.allCases
    )
    func lapsedOwner(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let row = Rows.exchange()
            var owner = try await store.mustClaim(row)
            clock.advance(.seconds(20))
            #expect(try await store.renewExchange(row.key, fence: owner.fence, for: .seconds(25)))
            #expect(try await !store.renewExchange(row.key, fence: owner.fence + 1, for: .seconds(25)))
            clock.advance(.seconds(24))
            owner.claimFor = .seconds(1)
            #expect(try await store.claimAnew(row) == .existing(owner))
            // The owner did not get the answer to its claim, so it retries.
            #expect(try await store.claimExchange(row, maximumAttempts: 3) == .claimed(owner))
            clock.advance(.seconds(1))
            #expect(try await store.exchange(row.key)?.outcome == .calling)
            guard case .existing(let spent) = try await store.claimAnew(row) else {
                Issue.record("a dead owner's claim was granted again, although its code may be spent")
                return
            }
            #expect(spent.outcome == .spent(.unknown))
            #expect(spent.createdAt == row.createdAt)
            let session = Rows.session()
            let completed = try await store.completeExchange(
                row.key, fence: owner.fence, session: session, replacing: nil, sessionLimit: 5)
            #expect(completed == nil)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == nil)
        }
    }

    @Test(
        "An exchange's result comes with another fence than its row has → refused, but its outbox rows are stored",
        arguments: StoreEngine.allCases)
    func settle(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let row = Rows.exchange(gate: .login(login.state))
            let owner = try await store.mustClaim(row)
            let wrong = try await store.settleExchange(
                row.key, fence: owner.fence + 1, outcome: .spent(.rejected), outbox: [Rows.outbox()],
                registration: Rows.registration())
            #expect(!wrong)
            #expect(try await store.outboxCount() == 1)
            #expect(try await store.exchange(row.key)?.outcome == .calling)
            let unknown = try await store.settleExchange(
                Rows.digest(), fence: 1, outcome: .spent(.rejected), outbox: [Rows.outbox()], registration: nil)
            #expect(!unknown)
            #expect(try await store.outboxCount() == 2)
            let right = try await store.settleExchange(
                row.key, fence: owner.fence, outcome: .spent(.identityRejected), outbox: [], registration: nil)
            #expect(right)
            #expect(try await store.exchange(row.key)?.outcome == .spent(.identityRejected))
            #expect(try await store.login(state: login.state)?.status == .burned)
            let again = try await store.settleExchange(
                row.key, fence: owner.fence, outcome: .spent(.rejected), outbox: [], registration: nil)
            #expect(!again)
        }
    }

    @Test("Each outcome of an exchange → read back unchanged", arguments: StoreEngine.allCases)
    func outcomes(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let reasons: [ExchangeRow.SpentReason] = [
                .rejected, .providerError, .identityRejected, .unknown, .registrationUserExists,
                .registrationDomainDenied, .registrationRejected, .registrationKeyExpired,
            ]
            for outcome in reasons.map({ ExchangeRow.Outcome.spent($0) }) + [.registration(Rows.digest())] {
                for proof in [nil, Rows.digest()] {
                    let row = Rows.exchange(proof: proof)
                    let owner = try await store.mustClaim(row)
                    _ = try await store.settleExchange(
                        row.key, fence: owner.fence, outcome: outcome, outbox: [], registration: nil)
                    var expected = row
                    expected.outcome = outcome
                    #expect(try await store.exchange(row.key) == expected)
                }
            }
        }
    }

    @Test(
        "A partial registration → stored with its exchange, claimed by one completion at a time, closed after two refusals",
        arguments: StoreEngine.allCases)
    func registrations(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = Rows.exchange()
            let owner = try await store.mustClaim(row)
            let registration = Rows.registration()
            _ = try await store.settleExchange(
                row.key, fence: owner.fence, outcome: .registration(registration.key), outbox: [],
                registration: registration)
            #expect(try await store.registration(registration.key) == registration)

            var rival = registration
            rival.loginTokenDigest = Rows.digest()
            try await store.insertRegistration(rival)
            #expect(try await store.registration(registration.key) == registration)

            for (submission, status) in [(1, RegistrationRow.Status.open), (2, .closed)] {
                let completion = Rows.exchange(gate: .registration(registration.key))
                let claimed = try await store.mustClaim(completion)
                #expect(try await store.registration(registration.key)?.status == .claimed)
                let other = Rows.exchange(gate: .registration(registration.key))
                #expect(try await store.claimExchange(other, maximumAttempts: 3) == .gateClosed)
                _ = try await store.settleExchange(
                    completion.key, fence: claimed.fence, outcome: .spent(.registrationRejected), outbox: [],
                    registration: nil)
                #expect(try await store.registration(registration.key)?.status == status, "\(submission)")
                #expect(try await store.registration(registration.key)?.attempts == 1)
            }
        }
    }

    @Test(
        "A registration's exchange is released → the registration is open again; the exchange makes a session → it is closed",
        arguments: StoreEngine.allCases)
    func registrationCompleted(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let registration = Rows.registration()
            try await store.insertRegistration(registration)
            let row = Rows.exchange(gate: .registration(registration.key))
            let first = try await store.mustClaim(row)
            _ = try await store.releaseExchange(row.key, fence: first.fence, countingAttempt: false)
            var given = registration
            given.exchange = row.key
            #expect(try await store.registration(registration.key) == given)
            let second = try await store.mustClaim(row)
            let session = Rows.session()
            let ended = try await store.completeExchange(
                row.key, fence: second.fence, session: session, replacing: nil, sessionLimit: 5)
            #expect(ended == EndedSessions())
            #expect(try await store.registration(registration.key)?.status == .closed)
            #expect(try await store.exchange(row.key)?.outcome == .session(session.tokenDigest))
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
        }
    }

    @Test(
        "A device signs in again → its old session is replaced, and the old session's tokens go to the outbox (SEC-62)",
        arguments: StoreEngine.allCases)
    func replaced(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let old = Rows.session(tokens: "old tokens")
            try await store.signIn(old)
            let new = Rows.session(at: Rows.seconds(5))
            #expect(
                try await store.signIn(new, replacing: old.tokenDigest) == EndedSessions(replaced: [old.tokenDigest]))
            let tombstone = try #require(try await store.session(tokenDigest: old.tokenDigest))
            #expect(tombstone.endReason == .replaced)
            #expect(tombstone.endedAt == Rows.seconds(5))
            #expect(tombstone.tokens == nil)
            let work = try await store.takeOutbox(now: Rows.seconds(5), until: Rows.seconds(60), limit: 10)
            #expect(work.map(\.boundTo) == [old.tokenDigest])
            #expect(work.map(\.tokens) == [Rows.sealed("old tokens")])
            let third = Rows.session(at: Rows.seconds(6))
            #expect(try await store.signIn(third, replacing: old.tokenDigest) == EndedSessions())
            #expect(try await store.signIn(Rows.session(), replacing: Rows.digest()) == EndedSessions())
            #expect(try await store.session(tokenDigest: old.tokenDigest)?.endReason == .replaced)
        }
    }

    @Test(
        "A user gets more sessions at a client than the cap → the user's oldest sessions at this client end (SEC-100)",
        arguments: StoreEngine.allCases)
    func sessionLimit(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let owner = Rows.digest()
            let bystander = Rows.session()
            try await store.signIn(bystander)
            let lapsed = Rows.session(subjectAndClient: owner, at: Rows.seconds(-9000))
            try await store.signIn(lapsed)
            var mine: [SessionRow] = []
            for index in 0..<5 {
                let session = Rows.session(subjectAndClient: owner, at: Rows.seconds(Int64(index)))
                let ended = try await store.signIn(session, sessionLimit: 3)
                mine.append(session)
                #expect(ended.beyondLimit == (index < 3 ? [] : [mine[index - 3].tokenDigest]))
            }
            for (index, session) in mine.enumerated() {
                #expect(
                    try await store.session(tokenDigest: session.tokenDigest)?.endReason
                        == (index < 2 ? .sessionLimit : nil))
            }
            #expect(try await store.session(tokenDigest: bystander.tokenDigest)?.endedAt == nil)
            #expect(try await store.session(tokenDigest: lapsed.tokenDigest)?.endedAt == nil)
            #expect(try await store.outboxCount() == 2)
        }
    }

    @Test(
        "A new session whose digest or handle already exists → not stored, and nothing changes",
        arguments: StoreEngine.allCases)
    func collision(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let row = Rows.exchange()
            let owner = try await store.mustClaim(row)
            for twin in [Rows.session(tokenDigest: session.tokenDigest), Rows.session(handle: session.handle)] {
                await #expect(throws: StoreFailure.self) {
                    try await store.completeExchange(
                        row.key, fence: owner.fence, session: twin, replacing: nil, sessionLimit: 5)
                }
            }
            #expect(try await store.exchange(row.key)?.outcome == .calling)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
        }
    }

    @Test(
        "An exchange without a proof of its starter is released → no caller counts as its starter, so it cannot be claimed again",
        arguments: StoreEngine.allCases)
    func proofless(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = Rows.exchange(proof: nil)
            let claimed = try await store.mustClaim(row)
            _ = try await store.releaseExchange(row.key, fence: claimed.fence, countingAttempt: false)
            guard case .existing(let standing) = try await store.claimAnew(row) else {
                Issue.record("an exchange without a starter's proof was claimed again")
                return
            }
            #expect(standing.outcome == .released)
        }
    }
}
