import Broker
import BrokerStore
import Testing

@Suite("Store contract: maintenance", .timeLimit(.minutes(2)))
struct MaintenanceContract {
    private static let day: Int64 = 86_400

    @Test(
        "Workers take outbox rows at the same time → each row goes to one worker, and the rows that are due longest go first",
        arguments: StoreEngine.allCases)
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

    @Test(
        "A worker postpones a batch of outbox rows to different times, or removes a batch → one transaction for the batch",
        arguments: StoreEngine.allCases)
    func outboxBatches(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let rows = (0..<Int64(40)).map { Rows.outbox(at: Rows.seconds($0)) }
            try await store.addOutbox(rows)
            try await store.postponeOutbox([], counting: false)
            try await store.removeOutbox([])
            let taken = try await store.takeOutbox(now: Rows.seconds(39), until: Rows.seconds(99), limit: 40)
            #expect(taken.count == 40)
            // Postpone the rows in random order. One of the postponed rows does not exist, as if another worker had removed it.
            let work = taken.shuffled().map { row in
                PostponedWork(id: row.id, until: row.createdAt.advanced(by: .seconds(100)))
            }
            let (begun, counted) = (work.prefix(30), work.suffix(10))
            try await store.postponeOutbox(
                begun + [PostponedWork(id: Rows.digest(), until: Rows.seconds(100))], counting: false)
            try await store.postponeOutbox(Array(counted), counting: true)
            #expect(try await store.takeOutbox(now: Rows.seconds(98), until: Rows.seconds(999), limit: 40).isEmpty)
            for second: Int64 in 100..<140 {
                let next = try await store.takeOutbox(now: Rows.seconds(second), until: Rows.seconds(999), limit: 40)
                #expect(next.map(\.createdAt) == [Rows.seconds(second - 100)])
                let isCounted = counted.contains { $0.id == next.first?.id }
                #expect(next.first?.attempts == (isCounted ? 2 : 1))
            }
            try await store.removeOutbox(rows.prefix(39).map(\.id) + [Rows.digest()])
            #expect(try await store.outboxCount() == 1)
            let last = try await store.takeOutbox(now: Rows.seconds(999), until: Rows.seconds(2000), limit: 40)
            #expect(last.map(\.id) == [rows[39].id])
        }
    }

    @Test(
        "An outbox row was postponed for months, for example by a wrong clock → the row is due at once",
        arguments: StoreEngine.allCases)
    func putOffTooFar(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (far, later) = (Rows.outbox(at: Rows.seconds(91 * 86_400)), Rows.outbox(at: Rows.seconds(3600)))
            try await store.addOutbox([far, later])
            var taken: [Digest] = []
            for _ in 0..<2 {
                taken += try await store.takeOutbox(now: Rows.now, until: Rows.seconds(120), limit: 9).map(\.id)
            }
            #expect(taken == [far.id])
        }
    }

    @Test(
        "A sweep while the clock is in doubt → keeps the rows that prevent a second use of a code or logout token",
        arguments: StoreEngine.allCases)
    func doubtedSweep(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = Rows.exchange()
            guard case .claimed = try await store.claimExchange(row, maximumAttempts: 3) else {
                return #expect(Bool(false))
            }
            let id = Rows.digest()
            _ = try await store.consumeLogoutToken(
                id, until: Rows.seconds(600), ending: .sid(Rows.digest()), now: Rows.now, limit: 9)
            _ = try await store.sweep(now: Rows.seconds(91 * 86_400), limit: 100, lapsedSince: nil)
            #expect(try await store.exchange(row.key) != nil)
            #expect(
                try await store.consumeLogoutToken(
                    id, until: Rows.seconds(700), ending: .sid(Rows.digest()), now: Rows.seconds(1), limit: 9)
                    == .replayed)
        }
    }

    @Test(
        "Twenty calls add to a key's count of seals at the same time → the count is exact",
        arguments: StoreEngine.allCases)
    func seals(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            #expect(try await store.countSeals([:]).isEmpty)
            #expect(try await store.countSeals(["a": 3, "b": 0]) == ["a": 3, "b": 0])
            #expect(try await store.countSeals(["b": 5_000_000_000]) == ["b": 5_000_000_000])
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 { group.addTask { _ = try await store.countSeals(["a": 1]) } }
                try await group.waitForAll()
            }
            #expect(try await store.countSeals(["a": 0]) == ["a": 23])
        }
    }

    @Test(
        "A logout token with a sid → sessions with this sid and the subject's without sid end; without → all the subject's end",
        arguments: StoreEngine.allCases)
    func logoutSelector(_ engine: StoreEngine) async throws {
        let (sid, subject, app, web) = (Rows.digest(), Rows.digest(), Rows.digest(), Rows.digest())
        let cases: [(sid: Digest?, subject: Digest?, clients: [Digest], ends: [Int])] = [
            (sid, nil, [app, web], [0, 5]), (sid, nil, [app], [0]), (sid, subject, [app], [0, 2]),
            (sid, subject, [app, web], [0, 2, 3, 5]), (nil, subject, [app], [0, 1, 2]),
            (nil, subject, [app, web], [0, 1, 2, 3]), (Rows.digest(), subject, [app], [2]),
            (Rows.digest(), nil, [app, web], []), (sid, Rows.digest(), [web], [5]), (sid, subject, [Rows.digest()], []),
        ]
        for (index, wanted) in cases.enumerated() {
            try await engine.withStore { store in
                let rows = [
                    Rows.session(subject: subject, sid: sid, client: app),
                    Rows.session(subject: subject, sid: Rows.digest(), client: app),
                    Rows.session(subject: subject, client: app), Rows.session(subject: subject, client: web),
                    Rows.session(client: app), Rows.session(sid: sid, client: web),
                ]
                for row in rows { try await store.signIn(row) }
                let batch = try await store.endSessions(
                    .logout(sid: wanted.sid, subject: wanted.subject, clients: wanted.clients), reason: .providerLogout,
                    now: Rows.seconds(1), limit: 99)
                #expect(Set(batch.ended) == Set(wanted.ends.map { rows[$0].tokenDigest }), "case \(index)")
            }
        }
    }

    @Test(
        "A logout token's id arrives fifty times at once → new for one call, and a replay for the others (SEC-67)",
        arguments: StoreEngine.allCases)
    func logoutTokens(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let id = Rows.digest()
            func consume(at time: Int64) async throws -> LogoutTokenResult {
                try await store.consumeLogoutToken(
                    id, until: Rows.seconds(time + 600), ending: .sid(Rows.digest()), now: Rows.seconds(time), limit: 9)
            }
            let used = LogoutTokenResult.ended(EndedBatch(ended: [], more: false))
            let fresh = try await withThrowingTaskGroup(of: LogoutTokenResult.self) { group in
                for _ in 0..<50 { group.addTask { try await consume(at: 0) } }
                return try await group.reduce(into: 0) { $0 += $1 == used ? 1 : 0 }
            }
            #expect(fresh == 1)
            #expect(try await consume(at: 599) == .replayed)
            #expect(try await consume(at: 600) == used)
        }
    }

    @Test(
        "A logout token ends many sessions in several steps → only the last step records the token as used (SEC-67)",
        .timeLimit(.minutes(1)), arguments: StoreEngine.allCases)
    func logoutTokenSteps(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (id, subject) = (Rows.digest(), Rows.digest())
            let sessions = (0..<5).map { Rows.session(subject: subject, at: Rows.seconds($0)) }
            for session in sessions { try await store.signIn(session) }
            var ended: [Digest] = []
            var steps = 0
            while true {
                let result = try await store.consumeLogoutToken(
                    id, until: Rows.seconds(600), ending: .subject(subject), now: Rows.seconds(9), limit: 2)
                guard case .ended(let batch) = result else {
                    Issue.record("the logout token counts as a replay in step \(steps)")
                    return
                }
                #expect(batch.isWritten)
                ended += batch.ended
                steps += 1
                if !batch.more { break }
            }
            #expect(steps == 3)
            #expect(Set(ended) == Set(sessions.map(\.tokenDigest)) && ended.count == 5)
            for session in sessions {
                #expect(try await store.session(tokenDigest: session.tokenDigest)?.endReason == .providerLogout)
            }
            let again = try await store.consumeLogoutToken(
                id, until: Rows.seconds(600), ending: .subject(subject), now: Rows.seconds(9), limit: 2)
            #expect(again == .replayed)
        }
    }

    @Test("A lease → has one owner until it lapses, and its owner can renew it", arguments: StoreEngine.allCases)
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
                // Owner `a` took this lease while its clock was far ahead, so the stored end of the lease is too late. Another
                // process may take the lease earlier.
                ("a", 5000, "ahead", true), ("b", 51, "ahead", true),
            ]
            for step in steps {
                let granted = try await acquire(step.owner, at: step.time, step.name)
                #expect(granted == step.granted, "\(step)")
            }
            // A release by another process has no effect. After the owner's release, the next process gets the lease at once.
            // The stored end of the released lease shows that a sweeper has worked.
            try await store.releaseLease("sweeper", owner: "a")
            #expect(try await acquire("a", at: 52, "sweeper") == false)
            try await store.releaseLease("nobody's", owner: "b")
            #expect(try await store.lease("nobody's") == nil)
            try await store.releaseLease("sweeper", owner: "b")
            #expect(try await store.lease("sweeper") == Rows.seconds(80))
            #expect(try await acquire("a", at: 53, "sweeper"))
            #expect(try await acquire("b", at: 54, "sweeper") == false)
            #expect(try await store.lease("sweeper") == Rows.seconds(83))
        }
    }

    @Test("A sweep → removes only rows whose retention time is over", arguments: StoreEngine.allCases)
    func sweep(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let day = Self.day
            let login = Rows.login(life: .seconds(600))
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let registration = Rows.registration()
            try await store.insertRegistration(registration)
            let exchange = try await store.mustClaim(Rows.exchange())
            let jti = Rows.digest()
            _ = try await store.consumeLogoutToken(
                jti, until: Rows.seconds(60), ending: .sid(Rows.digest()), now: Rows.now, limit: 9)
            let idle = Rows.session(idle: .seconds(100), absolute: .seconds(200))
            let old = Rows.session(idle: .seconds(300), absolute: .seconds(150))
            let lasting = Rows.session(idle: .seconds(100 * day), absolute: .seconds(200 * day))
            for session in [idle, old, lasting] { try await store.signIn(session) }

            func sweep(_ time: Int64) async throws -> SweepResult {
                try await store.sweep(now: Rows.seconds(time), limit: 100, lapsedSince: Rows.now)
            }
            #expect(try await sweep(59) == SweepResult())
            #expect(try await sweep(60) == SweepResult(touched: 1))
            let lapsed = try await sweep(1000)
            #expect(lapsed.touched == 0 && lapsed.ended.count == 2)
            #expect(lapsed.ended.contains(EndedSession(tokenDigest: idle.tokenDigest, reason: .idleExpired)))
            #expect(lapsed.ended.contains(EndedSession(tokenDigest: old.tokenDigest, reason: .expired)))
            // The rows of lapsed sessions and logins stay complete for a day, because an operator may still correct a wrong
            // clock.
            #expect(try await store.session(tokenDigest: idle.tokenDigest) == idle)
            #expect(try await store.login(state: login.state) != nil)

            // The sweep also touches exchanges, because each of the three sign-ins has made one.
            #expect(try await sweep(day).touched == 4)
            #expect(try await store.exchange(exchange.key) == nil)
            #expect(try await sweep(day + 99).touched == 0)
            #expect(try await store.outboxCount() == 0)
            // While the clock is in doubt, the sweep changes no sessions, whatever time the clock shows.
            let doubted = try await store.sweep(now: Rows.seconds(day + 599), limit: 100, lapsedSince: nil)
            #expect(doubted == SweepResult())
            #expect(try await sweep(day + 599).touched == 2)
            let first = try #require(try await store.session(tokenDigest: idle.tokenDigest))
            #expect(first.endReason == .idleExpired)
            #expect(first.endedAt == Rows.seconds(day + 599))
            #expect(first.tokens == nil)
            #expect(try await store.session(tokenDigest: old.tokenDigest)?.endReason == .expired)
            #expect(try await store.outboxCount() == 2)
            #expect(try await sweep(day + 900).touched == 2)
            #expect(try await store.login(state: login.state) == nil)
            #expect(try await store.registration(registration.key) == nil)

            #expect(try await sweep(598 + 31 * day).touched == 0)
            #expect(try await store.session(tokenDigest: old.tokenDigest) != nil)
            #expect(try await sweep(599 + 31 * day).touched == 2)
            #expect(try await store.session(tokenDigest: old.tokenDigest) == nil)
            #expect(try await store.session(handle: idle.handle) == nil)
            #expect(try await store.session(tokenDigest: lasting.tokenDigest) == lasting)
        }
    }

    @Test(
        "Several time limits of a session are over → the earliest limit is its end reason, in a sweep and in answers",
        arguments: StoreEngine.allCases)
    func lapseReasons(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            func session(idle: Int64, absolute: Int64, token: Int64?, refreshable: Bool) -> SessionRow {
                var row = Rows.session(idle: .seconds(idle), absolute: .seconds(absolute))
                row.tokenExpiresAt = token.map { Rows.seconds($0) }
                row.refreshable = refreshable
                return row
            }
            let cases: [(row: SessionRow, reason: EndReason)] = [
                (session(idle: 100, absolute: 200, token: 200, refreshable: false), .idleExpired),
                (session(idle: 300, absolute: 200, token: 200, refreshable: false), .tokenExpired),
                (session(idle: 200, absolute: 200, token: 200, refreshable: false), .tokenExpired),
                (session(idle: 300, absolute: 200, token: 250, refreshable: false), .expired),
                (session(idle: 300, absolute: 200, token: nil, refreshable: false), .expired),
                (session(idle: 300, absolute: 200, token: 100, refreshable: true), .expired),
                (session(idle: 200, absolute: 200, token: 100, refreshable: true), .expired),
            ]
            for (row, reason) in cases {
                try await store.signIn(row)
                #expect(SessionEnds(row).lapse(at: Rows.seconds(1000)) == reason)
                let end = min(row.idleExpiresAt, row.expiresAt)
                #expect(SessionEnds(row).lapse(at: end) == reason)
                #expect(SessionEnds(row).lapse(at: end.advanced(by: .milliseconds(-1))) == nil)
            }
            let swept = try await store.sweep(now: Rows.seconds(1000), limit: 100, lapsedSince: Rows.now)
            let told = Dictionary(uniqueKeysWithValues: swept.ended.map { ($0.tokenDigest, $0.reason) })
            let late = Rows.seconds(1000 + Self.day)
            #expect(try await store.sweep(now: late, limit: 100, lapsedSince: late).ended == [])
            for (row, reason) in cases {
                #expect(told[row.tokenDigest] == reason)
                let buried = try await store.session(tokenDigest: row.tokenDigest)
                #expect(buried?.endReason == reason && buried?.endedAt == late && buried?.tokens == nil)
            }
            #expect(try await store.outboxCount() == cases.count)
        }
    }

    @Test(
        "25 sessions have lapsed, and a sweep's limit is 10 → three sweeps end them all",
        arguments: StoreEngine.allCases)
    func sweepBatches(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for _ in 0..<25 { try await store.signIn(Rows.session()) }
            var touched: [Int] = []
            repeat {
                touched.append(
                    try await store.sweep(now: Rows.seconds(100_000), limit: 10, lapsedSince: Rows.now).touched)
            } while touched.last != 0
            // The sweep touches 25 sessions and the 25 exchanges that made them, at most 10 rows of each kind at a time.
            #expect(touched == [20, 20, 10, 0])
            #expect(try await store.outboxCount() == 25)
        }
    }

    @Test(
        "A closed store → refuses every operation, and never reports \"no session\" (guarantee 3)",
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
            await #expect(throws: StoreFailure.self) { try await store.session(tokenDigest: session.tokenDigest) }
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
