import Broker
import BrokerTestSupport
import Foundation
import Synchronization
import Testing

@testable import BrokerStore

@Suite("PostgreSQL: one store, many processes", .timeLimit(.minutes(3)))
struct PostgreSQLTests {
    /// Runs `body` with several stores on one database, like replicas.
    private func withReplicas(
        _ count: Int, listening: Bool = false, isSpoilt: Bool = false, connections: Int = 4,
        _ body: ([PostgreSQLStore], String) async throws -> Void
    ) async throws {
        try await PostgreSQLServer.withDatabase(isSpoilt: isSpoilt) { url, _ in
            let settings = try ConnectionSettings(url: url)
            var stores: [PostgreSQLStore] = []
            for _ in 0..<count {
                stores.append(
                    try await PostgreSQLStore.open(
                        settings, listening: listening ? settings : nil, connections: connections, migrating: false))
            }
            let result: Result<Void, any Error>
            do { result = .success(try await body(stores, url)) } catch { result = .failure(error) }
            for store in stores { await store.close() }
            try result.get()
        }
    }

    /// Ends all other connections to the database.
    private func endConnections(_ url: String) throws {
        try PostgreSQLServer.execute(
            """
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """, in: url)
    }

    @Test("Many processes migrate at the same time → one carries out the migration", .timeLimit(.minutes(1)))
    func migrators() async throws {
        try await PostgreSQLServer.withDatabase(migrated: false) { url, _ in
            let settings = try ConnectionSettings(url: url)
            await #expect(throws: StoreOpenFailure.needsMigration(found: 0, known: PostgreSQLSchema.newest)) {
                try await PostgreSQLStore.check(settings)
            }
            let winners = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let (from, to) = try await PostgreSQLStore.migrate(settings)
                        #expect(to == PostgreSQLSchema.newest)
                        return from == 0 ? 1 : 0
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(winners == 1)
            #expect(try await PostgreSQLStore.check(settings) == PostgreSQLSchema.newest)
        }
    }

    @Test(
        "An operator ran the statements of upgrades.md → the migration to session families succeeds, and new rows are checked"
    )
    func familiesBeforehand() async throws {
        try await PostgreSQLServer.withDatabase(migrated: false) { url, _ in
            try PostgreSQLServer.execute(PostgreSQLSchema.versionTable, in: url)
            for migration in PostgreSQLSchema.migrations where migration.version < 4 {
                try PostgreSQLServer.execute(
                    "\(migration.sql); INSERT INTO schema_version VALUES (\(migration.version), 1)", in: url)
            }
            // The commands that an operator runs before the migration are read from docs/operate/upgrades.md.
            let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent()
            let file = root.appendingPathComponent("docs/operate/upgrades.md")
            let page = try String(contentsOf: file, encoding: .utf8)
            let commands = page.matches(of: /psql "\$URL" -c "((?:ALTER|CREATE)[^"]*)"/).map { String($0.output.1) }
            #expect(commands.count == 2)
            for command in commands { try PostgreSQLServer.execute(command, in: url) }
            let settings = try ConnectionSettings(url: url)
            let (from, to) = try await PostgreSQLStore.migrate(settings)
            #expect(from == 3 && to == PostgreSQLSchema.newest)
            let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 4, migrating: false)
            let parent = Rows.session()
            try await store.signIn(parent)
            let child = Rows.child(of: parent, at: Rows.seconds(1))
            #expect(try await store.insertChild(child, places: 16) == .made(replaced: []))
            #expect(throws: StoreOpenFailure.self) {
                try PostgreSQLServer.execute("UPDATE sessions SET place = '\\x00' WHERE parent IS NOT NULL", in: url)
            }
            _ = try await store.endSessions(.token(parent.tokenDigest), reason: .admin, now: Rows.seconds(2))
            #expect(try await store.session(tokenDigest: child.tokenDigest)?.endReason == .parentEnded)
            await store.close()
        }
    }

    @Test(
        "A migration waits for a transaction that has read the tables → other calls continue, and then the migration succeeds"
    )
    func blockedMigration() async throws {
        try await PostgreSQLServer.withDatabase(migrated: false) { url, _ in
            try PostgreSQLServer.execute(PostgreSQLSchema.versionTable, in: url)
            for migration in PostgreSQLSchema.migrations where migration.version < 5 {
                try PostgreSQLServer.execute(
                    "\(migration.sql); INSERT INTO schema_version VALUES (\(migration.version), 1)", in: url)
            }
            let blocker = try PostgreSQLServer.connect(url)
            try blocker.execute("BEGIN; SELECT FROM session_states; SELECT FROM sessions", within: .seconds(10))
            let isDone = Order()
            let migration = Task {
                let result = try await PostgreSQLStore.migrate(try ConnectionSettings(url: url))
                isDone.note("done")
                return result
            }
            let waiting =
                "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
                + " WHERE d.datname = current_database() AND NOT granted AND relation IS NOT NULL"
            for round in 1...2 {
                try await eventually("the migration waits, round \(round)") {
                    try PostgreSQLServer.execute(waiting, in: url) != ["0"]
                }
                // While the migration waits for its lock, another reader of the table gets its answer within three seconds.
                try PostgreSQLServer.execute("SET statement_timeout = '3s'; SELECT FROM session_states", in: url)
            }
            #expect(isDone.first == nil)
            try blocker.execute("COMMIT", within: .seconds(10))
            let (from, to) = try await migration.value
            #expect(from == 4 && to == PostgreSQLSchema.newest)
        }
    }

    @Test(
        "A newer release only added to the schema → the database opens; changed the schema incompatibly → refused (SEC-130)"
    )
    func newerSchema() async throws {
        try await PostgreSQLServer.withDatabase(isSpoilt: true) { url, _ in
            let newest = PostgreSQLSchema.newest
            let settings = try ConnectionSettings(url: url)
            try PostgreSQLServer.execute(
                """
                ALTER TABLE sessions ADD COLUMN something_new text;
                INSERT INTO schema_version VALUES (\(newest + 1), \(newest))
                """, in: url)
            let store = try await PostgreSQLStore.open(settings, listening: nil)
            let session = Rows.session()
            try await store.signIn(session)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
            await store.close()
            try PostgreSQLServer.execute("INSERT INTO schema_version VALUES (\(newest + 2), \(newest + 2))", in: url)
            await #expect(throws: StoreOpenFailure.tooNew(found: newest + 2, known: newest)) {
                try await PostgreSQLStore.open(settings, listening: nil)
            }
        }
    }

    @Test(
        "A replica checks its cached sessions → it reads the server's time, and the versions of sessions that have not ended"
    )
    func replicasAsk() async throws {
        try await withReplicas(2) { stores, _ in
            let time = try await stores[0].time()
            let wall = WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
            // If the store read the server's time in a wrong unit or time zone, it would differ by at least half an hour. A
            // busy machine causes only seconds.
            #expect(wall.since(time) < .seconds(60) && time.since(wall) < .seconds(60))
            let (live, ended) = (Rows.session(), Rows.session())
            for session in [live, ended] { try await stores[0].signIn(session) }
            _ = try await stores[0].endSessions(.token(ended.tokenDigest), reason: .admin, now: Rows.now)
            let unknown = Rows.session().tokenDigest
            func versions() async throws -> [Int64] {
                let found = try await stores[1].tokenVersions(of: [live.tokenDigest, ended.tokenDigest, unknown])
                #expect(found.allSatisfy { $0.tokenDigest == live.tokenDigest })
                return found.map(\.version)
            }
            #expect(try await versions() == [1])
            #expect(try await stores[0].commit(live.tokenDigest, version: 1, "next") == .committed)
            #expect(try await versions() == [2])
            #expect(try await stores[1].tokenVersions(of: []).isEmpty)
        }
    }

    @Test(
        "A used presence proof is released → any replica accepts it again; a presence key is stored → other replicas see the key"
    )
    func replicas() async throws {
        try await withReplicas(2) { stores, _ in
            let name = Rows.digest()
            let until = Rows.seconds(600)
            #expect(try await stores[0].takeProof(name, until: until))
            #expect(try await !stores[1].takeProof(name, until: until))
            try await stores[1].returnProof(name)
            #expect(try await stores[1].takeProof(name, until: until))
            let session = Rows.session()
            try await stores[0].signIn(session)
            func hasPresence() async throws -> Bool? {
                try await stores[1].tokenVersions(of: [session.tokenDigest]).first?.hasPresence
            }
            #expect(try await hasPresence() == false)
            _ = try await stores[0].registerPresence(Rows.presence(of: session.tokenDigest))
            #expect(try await hasPresence() == true)
        }
    }

    @Test(
        "Replicas make children at the same time → one child for each place, and none survives a parent that ends meanwhile"
    )
    func families() async throws {
        try await withReplicas(3) { stores, _ in
            for round in 0..<40 {
                let parent = Rows.session()
                try await stores[0].signIn(parent)
                let place = Rows.digest()
                let rows = (0..<9).map { _ in Rows.child(of: parent, place: place, at: Rows.seconds(1)) }
                let ends = round % 2 == 1
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for (number, row) in rows.enumerated() {
                        group.addTask { _ = try await stores[number % 3].insertChild(row, places: 16) }
                        guard ends, number == 4 else { continue }
                        group.addTask {
                            _ = try await stores[round % 3].endSessions(
                                .token(parent.tokenDigest), reason: .admin, now: Rows.seconds(1), limit: 1)
                        }
                    }
                    try await group.waitForAll()
                }
                // The test reads each child's own row, which alone determines whether the child lives.
                var living = 0
                for row in rows {
                    let stored = try await stores[0].session(tokenDigest: row.tokenDigest)
                    if let stored, stored.endedAt == nil { living += 1 }
                }
                #expect(living == (ends ? 0 : 1), "round \(round)")
            }
        }
    }

    @Test(
        "Two calls end one family at the same time → they lock its rows in one order, without a deadlock",
        arguments: [false, true])
    func endingsAtOnce(bySubject: Bool) async throws {
        try await PostgreSQLServer.withDatabase { url, _ in
            // With PostgreSQL's default of 1 s, the server would resolve a deadlock before the test could notice it.
            let slow = url + (url.contains("?") ? "&" : "?") + "options=-cdeadlock_timeout%3D30s"
            let store = try await PostgreSQLStore.open(
                try ConnectionSettings(url: slow), listening: nil, connections: 4, migrating: false)
            var parent = Rows.session(sid: Rows.digest())
            var child = Rows.child(of: parent, at: Rows.seconds(1))
            while !child.tokenDigest.bytes.lexicographicallyPrecedes(parent.tokenDigest.bytes) {
                parent = Rows.session(sid: Rows.digest())
                child = Rows.child(of: parent, at: Rows.seconds(1))
            }
            try await store.signIn(parent)
            #expect(try await store.insertChild(child, places: 16) == .made(replaced: []))
            let holder = try PostgreSQLServer.connect(url)
            func waiting() throws -> Int {
                let sql = """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'
                    """
                return Int((try PostgreSQLServer.execute(sql, in: url).first ?? nil) ?? "") ?? 0
            }
            let lock =
                "BEGIN; SELECT FROM session_states WHERE token = '\\x\(parent.tokenDigest.hexadecimal)' FOR UPDATE"
            try holder.execute(lock, within: .seconds(60))
            // The call that names only the parent waits first for the parent's row. After it has this row, it also needs the
            // child's row.
            let (first, second) = (parent.tokenDigest, parent)
            async let one = store.endSessions(.token(first), reason: .admin, now: Rows.seconds(2), limit: 9)
            try await eventually("the first call waits for a lock") { try waiting() == 1 }
            let many: SessionSelector =
                bySubject ? .subject(second.subject) : .logout(sid: second.sid, subject: nil, clients: [second.client])
            async let other = store.endSessions(many, reason: .loggedOut, now: Rows.seconds(2), limit: 9)
            try await eventually("the second call waits for a lock, too") { try waiting() == 2 }
            let begin = ContinuousClock.now
            _ = try holder.execute("COMMIT", within: .seconds(60))
            #expect(try await one.ended == [parent.tokenDigest])
            _ = try await other
            #expect(ContinuousClock.now - begin < .seconds(15), "the two calls waited for each other")
            #expect(try await store.session(tokenDigest: child.tokenDigest)?.endedAt == Rows.seconds(2))
            await store.close()
        }
    }

    @Test("A target's token is stored while a step-up waits for its session's row → the step-up drops this token, too")
    func steppedUpMeanwhile() async throws {
        try await withReplicas(1) { stores, url in
            let store = stores[0]
            let session = Rows.session()
            try await store.signIn(session)
            let exchange = try await store.mustClaim(Rows.exchange())
            let holder = try PostgreSQLServer.connect(url)
            let token = session.tokenDigest.hexadecimal
            try holder.execute(
                """
                BEGIN; SELECT FROM session_states WHERE token = '\\x\(token)' FOR UPDATE;
                INSERT INTO audience_tokens (key, session, version, stored_at, used_at, sealed_key, sealed)
                VALUES ('\\x\(Rows.digest().hexadecimal)', '\\x\(token)', 1, 1, 1, 'k1', '\\x01')
                """, within: .seconds(60))
            async let stepped = store.stepUp(session.tokenDigest, exchange, isNewGrant: false)
            let waiting = """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """
            try await eventually("the step-up waits for the lock") {
                try PostgreSQLServer.execute(waiting, in: url).first == "1"
            }
            _ = try holder.execute("COMMIT", within: .seconds(60))
            #expect(try await stepped == .committed)
            #expect(try PostgreSQLServer.execute("SELECT count(*) FROM audience_tokens", in: url).first == "0")
        }
    }

    @Test(
        "Rows have the format of a newer release → calls for them fail, lists skip them, and the sessions can be ended (SEC-130)"
    )
    func newerRows() async throws {
        try await withReplicas(1) { stores, url in
            let store = stores[0]
            let session = Rows.session()
            try await store.signIn(session)
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let exchange = try await store.mustClaim(Rows.exchange())
            func setFormat(_ format: Int) throws {
                for table in ["sessions", "session_states", "logins", "exchanges"] {
                    try PostgreSQLServer.execute("UPDATE \(table) SET format = \(format)", in: url)
                }
            }
            try setFormat(2)
            await #expect(throws: StoreFailure.newerFormat) {
                try await store.session(tokenDigest: session.tokenDigest)
            }
            await #expect(throws: StoreFailure.newerFormat) { try await store.session(handle: session.handle) }
            await #expect(throws: StoreFailure.newerFormat) { try await store.claimRefresh(session.tokenDigest) }
            await #expect(throws: StoreFailure.newerFormat) { try await store.refreshState(session.tokenDigest) }
            await #expect(throws: StoreFailure.newerFormat) {
                try await store.commit(session.tokenDigest, version: 1, "x")
            }
            await #expect(throws: StoreFailure.newerFormat) {
                try await store.slideSession(
                    tokenDigest: session.tokenDigest, lastUsedAt: Rows.seconds(1), idleExpiresAt: Rows.seconds(9999))
            }
            await #expect(throws: StoreFailure.newerFormat) { try await store.login(state: login.state) }
            await #expect(throws: StoreFailure.newerFormat) { try await store.burnLogin(state: login.state) }
            await #expect(throws: StoreFailure.newerFormat) { try await store.exchange(exchange.key) }
            await #expect(throws: StoreFailure.newerFormat) { try await store.claimAnew(exchange) }
            let late = Rows.seconds(400 * 86_400)
            #expect(try await store.sweep(now: late, limit: 100, lapsedSince: Rows.now).touched == 0)
            #expect(try await store.sessions(.all, .live, after: nil, limit: 9, now: Rows.now).isEmpty)
            // Sessions in the row format of a newer release can still be ended.
            let other = Rows.session()
            try await store.signIn(other)
            try PostgreSQLServer.execute(
                "UPDATE session_states SET format = 2; UPDATE sessions SET format = 2", in: url)
            #expect(
                try await store.endSessions(.token(other.tokenDigest), reason: .admin, now: Rows.now) == [
                    other.tokenDigest
                ])
            try setFormat(1)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
            #expect(try await store.login(state: login.state) == login)
            #expect(try await store.session(tokenDigest: other.tokenDigest)?.endReason == .admin)
        }
    }

    @Test(
        "Three replicas do the same work at once → one of them gets the exchange, the refresh, the logout token, each outbox row"
    )
    func acrossReplicas() async throws {
        try await withReplicas(3) { stores, _ in
            let login = Rows.login()
            _ = try await stores[0].insertLogin(login, limits: LoginLimits())
            let row = Rows.exchange(gate: .login(login.state))
            let claims = try await withThrowingTaskGroup(of: ExchangeClaimResult.self) { group in
                for index in 0..<60 { group.addTask { try await stores[index % 3].claimAnew(row) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(claims.count(where: { if case .claimed = $0 { true } else { false } }) == 1)
            #expect(claims.count(where: { if case .existing = $0 { true } else { false } }) == 59)

            let session = Rows.session()
            try await stores[0].signIn(session)
            let refreshes = try await withThrowingTaskGroup(of: RefreshClaimResult.self) { group in
                for index in 0..<60 { group.addTask { try await stores[index % 3].claimRefresh(session.tokenDigest) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(refreshes.count(where: { $0 == .claimed(RefreshGrant(fence: 1)) }) == 1)
            #expect(refreshes.count(where: { if case .busy = $0 { true } else { false } }) == 59)

            let id = Rows.digest()
            let ended = try await withThrowingTaskGroup(of: [Digest].self) { group in
                for index in 0..<30 {
                    group.addTask {
                        let result = try await stores[index % 3].consumeLogoutToken(
                            id, until: Rows.seconds(600), ending: .subject(session.subject), now: Rows.now, limit: 9)
                        guard case .ended(let batch) = result else { return [] }
                        return batch.ended + [id]
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(Set(ended) == [session.tokenDigest, id] && ended.count == 2)

            try await stores[0].addOutbox((0..<200).map { _ in Rows.outbox() })
            let taken = try await withThrowingTaskGroup(of: [OutboxRow].self) { group in
                for index in 0..<30 {
                    group.addTask {
                        try await stores[index % 3].takeOutbox(now: Rows.now, until: Rows.seconds(60), limit: 8)
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            // In addition to the 200 added rows, the outbox has a row for the tokens of the ended session.
            #expect(taken.count == 201 && Set(taken.map(\.id)).count == 201)
        }
    }

    @Test(
        "Connections are killed under load → a claim repeated under its name is granted, and every answered sign-in is stored"
    )
    func killedConnections() async throws {
        try await withReplicas(2) { stores, url in
            let sessions = (0..<20).map { _ in Rows.session() }
            for session in sessions { try await stores[0].signIn(session) }
            let isOver = Mutex(false)
            async let killer: Void = {
                // `defer` also ends the loop of sign-ins below if ending the connections fails.
                defer { isOver.withLock { $0 = true } }
                for _ in 0..<15 {
                    try endConnections(url)
                    try await Task.sleep(for: .milliseconds(40))
                }
            }()
            // Two replicas claim each session at once, and repeat the claim under the same name while its result is unknown.
            let grants = try await withThrowingTaskGroup(of: (Digest, Bool).self) { group in
                for session in sessions {
                    for store in stores {
                        group.addTask {
                            let name = Rows.claim()
                            while true {
                                try Task.checkCancellation()
                                do throws(StoreFailure) {
                                    let result = try await store.claimRefresh(
                                        RefreshClaim(
                                            tokenDigest: session.tokenDigest, tokenVersion: 1, name: name,
                                            lifetime: .seconds(600),
                                            now: Rows.now))
                                    if case .claimed(let grant) = result {
                                        return (session.tokenDigest, grant.fence == 1)
                                    }
                                    return (session.tokenDigest, false)
                                } catch { await Task.yield() }
                            }
                        }
                    }
                }
                return try await group.reduce(into: [Digest: Int]()) { $0[$1.0, default: 0] += $1.1 ? 1 : 0 }
            }
            #expect(grants.values.allSatisfy { $0 == 1 } && grants.count == 20)
            // Sign in until the connections are no longer killed, and keep the sessions whose sign-in the store answered.
            var answered: [SessionRow] = []
            while !isOver.withLock({ $0 }) {
                let session = Rows.session()
                let row = Rows.exchange()
                do throws(StoreFailure) {
                    guard case .claimed(let claimed) = try await stores[1].claimExchange(row, maximumAttempts: 3) else {
                        continue
                    }
                    let ended = try await stores[1].completeExchange(
                        claimed.key, fence: claimed.fence, session: session, replacing: nil, sessionLimit: 9)
                    if ended != nil { answered.append(session) }
                } catch {
                    if case .newerFormat = error { Issue.record("\(error)") }
                }
            }
            try await killer
            for session in answered {
                #expect(try await stores[0].session(tokenDigest: session.tokenDigest) == session)
            }
            #expect(stores[0].connections.lost > 0)
        }
    }

    /// Waits until that number of statements wait for a lock.
    private func waiting(_ count: Int, in url: String) async throws {
        try await eventually("\(count) statements wait for a lock") {
            let waiting = """
                SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                """
            return try PostgreSQLServer.execute(waiting, in: url).first == String(count)
        }
    }

    @Test(
        "Another program's transaction locks a row → only the store's write to this row fails (SEC-126)",
        .timeLimit(.minutes(3)))
    func heldRow() async throws {
        try await withReplicas(1) { stores, url in
            let store = stores[0]
            let held = Rows.session()
            try await store.signIn(held)
            let holder = try PostgreSQLServer.connect(url)
            // PostgreSQL cancels the write to the locked row after four seconds. On a busy machine, the write to the free row
            // may take longer, so the test tries this five times.
            var isAlone = false
            for _ in 0..<5 where !isAlone {
                let free = Rows.session()
                try await store.signIn(free)
                try holder.execute(
                    "BEGIN; SELECT 1 FROM session_states WHERE token = '\\x\(held.tokenDigest.hexadecimal)' FOR UPDATE",
                    within: .seconds(5))
                let order = Order()
                async let refused = Result<RefreshClaimResult, any Error>.catching {
                    defer { order.note("held") }
                    return try await store.claimRefresh(held.tokenDigest)
                }
                // This write would wait behind the write to the locked row if both were sent in one round trip.
                try await waiting(1, in: url)
                _ = try await store.mustClaimRefresh(free.tokenDigest)
                #expect(try await store.session(tokenDigest: held.tokenDigest) == held)
                order.note("free")
                switch await refused {
                case .success(let result): Issue.record("\(result)")
                case .failure(let error): #expect(error as? StoreFailure == .unavailable("PostgreSQL 55P03"))
                }
                isAlone = order.first == "free"
                try holder.execute("ROLLBACK", within: .seconds(5))
            }
            #expect(isAlone, "in each round, the write to the free row was answered after the write to the locked row")
            _ = try await store.mustClaimRefresh(held.tokenDigest)
        }
    }

    @Test(
        "An operator's lists wait for a locked table → a login begins without waiting for the lists",
        .timeLimit(.minutes(3))
    )
    func walks() async throws {
        try await withReplicas(1, connections: 5) { stores, url in
            let store = stores[0]
            let session = Rows.session()
            try await store.signIn(session)
            let holder = try PostgreSQLServer.connect(url)
            var isAlone = false
            for _ in 0..<5 where !isAlone {
                // The lists wait for the lock on the whole table, as if their reads took long.
                try holder.execute("BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE", within: .seconds(5))
                let order = Order()
                async let listed: Void = withTaskGroup { group in
                    for selector in [SessionSelector.provider(session.provider), .client(session.client), .all] {
                        group.addTask {
                            _ = try? await store.sessions(selector, .ended, after: nil, limit: 100, now: Rows.now)
                        }
                    }
                    await group.waitForAll()
                    order.note("lists")
                }
                try await waiting(1, in: url)
                // Make the insertion count the pending logins again, as it does if other processes may have begun logins since
                // the last count.
                store.pendingLogins.invalidate()
                #expect(try await store.insertLogin(Rows.login(), limits: LoginLimits()) == .inserted)
                order.note("login")
                try holder.execute("ROLLBACK", within: .seconds(5))
                await listed
                isAlone = order.first == "login"
            }
            #expect(isAlone, "in each round, the login was stored only after the lists")
        }
    }

    @Test(
        "A transaction fails three times with a serialization failure or a deadlock → it is repeated until it commits",
        arguments: ["40001", "40P01"])
    func repeated(_ state: String) async throws {
        try await withReplicas(1, isSpoilt: true) { stores, url in
            let session = Rows.session()
            try await stores[0].signIn(session)
            // A sequence counts the attempts, because a rollback does not reset a sequence.
            try PostgreSQLServer.execute(
                """
                CREATE SEQUENCE tries;
                CREATE FUNCTION in_the_way() RETURNS trigger LANGUAGE plpgsql AS
                    'BEGIN IF nextval(''tries'') < 4 THEN RAISE EXCEPTION ''twice'' USING ERRCODE = ''\(state)''; END IF;
                    RETURN NEW; END';
                CREATE TRIGGER in_the_way BEFORE UPDATE ON session_states FOR EACH ROW EXECUTE FUNCTION in_the_way()
                """, in: url)
            #expect(try await stores[0].commit(session.tokenDigest, version: 1, "new") == .committed)
            #expect(try PostgreSQLServer.execute("SELECT last_value FROM tries", in: url).first == "4")
            #expect(try await stores[0].session(tokenDigest: session.tokenDigest)?.tokenVersion == 2)
        }
    }

    @Test("PostgreSQL made its query plans for empty tables → it makes new plans as the tables grow")
    func growth() async throws {
        let count = 2000
        try await PostgreSQLServer.withDatabase(migrated: false) { url, _ in
            let settings = try ConnectionSettings(url: url)
            let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 3, migrating: true)
            // Autovacuum is off, because new statistics of the tables would change the plans.
            for table in ["sessions", "session_states", "exchanges"] {
                try PostgreSQLServer.execute("ALTER TABLE \(table) SET (autovacuum_enabled = off)", in: url)
            }
            for _ in 0..<count / 20 {
                try await withThrowingTaskGroup { group in
                    for _ in 0..<20 { group.addTask { try await store.signIn(Rows.session()) } }
                    try await group.waitForAll()
                }
            }
            await store.close()
            // A connection reports its counts of rows to PostgreSQL's statistics when it ends. So the test waits for the
            // counts.
            try await eventually("the connections have reported their row counts") {
                let told = "SELECT sum(n_tup_ins) FROM pg_stat_user_tables WHERE relname = 'session_states'"
                return try PostgreSQLServer.execute(told, in: url).first == String(count)
            }
            let read = try PostgreSQLServer.execute(
                """
                SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)
                    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)
                """, in: url)
            let each = try #require(Int((read.first ?? nil) ?? "")) / count
            // Measured rows for each sign-in: 3,000 if PostgreSQL keeps the first plan, and 200 if it makes a new plan. With a
            // few hundred sessions, there are only three.
            #expect(each < 400, "PostgreSQL reads too many rows for each sign-in")
        }
    }

    @Test(
        "The server becomes read-only → writes are refused; it becomes writable again → writes succeed",
        .timeLimit(.minutes(1)))
    func readOnly() async throws {
        try await withReplicas(1, isSpoilt: true) { stores, url in
            let store = stores[0]
            let session = Rows.session()
            try await store.signIn(session)
            let name = try #require(try PostgreSQLServer.execute("SELECT current_database()", in: url).first ?? nil)
            try PostgreSQLServer.execute("ALTER DATABASE \(name) SET default_transaction_read_only = on", in: url)
            let any = url + "?target_session_attrs=any&options=-cdefault_transaction_read_only%3Doff"
            try endConnections(any)
            await #expect(throws: StoreFailure.self) { try await store.claimRefresh(session.tokenDigest) }
            try PostgreSQLServer.execute("ALTER DATABASE \(name) RESET default_transaction_read_only", in: any)
            try await eventually("a write succeeds") { (try? await store.claimRefresh(session.tokenDigest)) != nil }
        }
    }

    @Test(
        "A replica ends sessions → other replicas know within 1.5 s; a replica's connection for notices is lost → it reports this"
    )
    func notices() async throws {
        try await withReplicas(2, listening: true) { stores, url in
            let heard = stores.map { _ in HeardNotices([EndingNotice]()) }
            for (store, notices) in zip(stores, heard) {
                store.listen { notice in notices.append(notice) }
            }
            for notices in heard {
                try await eventually("the replica receives notices") { notices.all.last == .hearing }
                #expect(notices.all == [.deaf, .hearing])
            }
            let sessions = (0..<300).map { _ in Rows.session(client: Rows.digest(1)) }
            for session in sessions { try await stores[0].signIn(session) }
            let ended = try await stores[0].endSessions(.client(Rows.digest(1)), reason: .admin, now: Rows.now)
            #expect(ended.count == 300)
            let begin = ContinuousClock.now
            try await eventually("the second replica has received all endings") { heard[1].ended.count == 300 }
            // Without the notification, the replica would find the endings two seconds later, at the check of its connection.
            #expect(ContinuousClock.now - begin < .milliseconds(1500))
            #expect(Set(heard[1].ended.map(\.tokenDigest)) == Set(sessions.map(\.tokenDigest)))
            #expect(heard[1].ended.allSatisfy { $0.reason == .admin })
            #expect(heard[0].ended.isEmpty, "a replica does not receive its own notices")
            // Endings by a provider's logout token are announced, too.
            let away = Rows.session(sid: Rows.digest(2))
            try await stores[0].signIn(away)
            _ = try await stores[0].consumeLogoutToken(
                Rows.digest(), until: Rows.seconds(600), ending: .sid(Rows.digest(2)), now: Rows.now, limit: 9)
            try await eventually("the second replica has received the ending by the provider") {
                heard[1].ended.contains(EndedSession(tokenDigest: away.tokenDigest, reason: .providerLogout))
            }
            // A step-up is announced to the other replicas even if it keeps the token version. All other announced changes
            // raise this version.
            let steady = Rows.session()
            try await stores[0].signIn(steady)
            for (isNewGrant, state) in [(false, 1), (true, 2)] as [(Bool, Int64)] {
                let exchange = try await stores[0].mustClaim(Rows.exchange())
                let result = try await stores[0].stepUp(
                    steady.tokenDigest, exchange, state: state, isNewGrant: isNewGrant)
                #expect(result == .committed)
            }
            try await eventually("the second replica has received the notices of both step-ups") {
                heard[1].all.contains(.steppedUp([steady.tokenDigest]))
                    && heard[1].all.contains(.changed([steady.tokenDigest]))
            }
            let keyed = Rows.session()
            try await stores[0].signIn(keyed)
            _ = try await stores[0].registerPresence(Rows.presence(of: keyed.tokenDigest))
            try await eventually("the second replica has received the notice of the presence key") {
                heard[1].all.contains(.changed([keyed.tokenDigest]))
            }
            #expect(heard[1].all.count { if case .steppedUp = $0 { true } else { false } } == 1)
            #expect(
                !heard[0].all.contains(.steppedUp([steady.tokenDigest])), "a replica does not receive its own notices")
            #expect(!heard[0].all.contains(.changed([steady.tokenDigest])))
            // A listener that loses its connection reports this and reconnects.
            try endConnections(url)
            try await eventually("the second replica has reconnected and receives notices") {
                let states = heard[1].all.filter { $0 == .deaf || $0 == .hearing }
                return states == [.deaf, .hearing, .deaf, .hearing]
            }
        }
    }

    @Test(
        "The store URL switches synchronous commits off → the store switches them on; through a pooler → refused (guarantee 4)"
    )
    func durability() async throws {
        try await withReplicas(1) { stores, url in
            let found = try await stores[0].read(
                Statement("show", [:], "SELECT current_setting('synchronous_commit')"), [:]
            ) {
                try $0.first { try $0.text() }
            }
            #expect(found == "on")
            let off = url + "?options=-csynchronous_commit%3Doff"
            let store = try await PostgreSQLStore.open(try ConnectionSettings(url: off), listening: nil)
            let forced = try await store.read(
                Statement("show", [:], "SELECT current_setting('synchronous_commit')"), [:]
            ) {
                try $0.first { try $0.text() }
            }
            #expect(forced == "on")
            await store.close()
            let pooled = try ConnectionSettings(url: off, isPooled: true)
            await #expect(throws: StoreOpenFailure.self) { try await PostgreSQLStore.open(pooled, listening: nil) }
        }
    }

    @Test("An audit record is changed or removed → refused (SEC-99)")
    func audit() async throws {
        try await withReplicas(1) { stores, url in
            try await stores[0].appendAudit(
                AuditRow(at: Rows.now, actor: "ops", action: "end_session", target: "tag", outcome: "ended"))
            for sql in ["DELETE FROM audit", "UPDATE audit SET actor = 'nobody'", "TRUNCATE audit"] {
                #expect(throws: StoreOpenFailure.self, "\(sql)") { try PostgreSQLServer.execute(sql, in: url) }
            }
            #expect(try PostgreSQLServer.execute("SELECT count(*) FROM audit WHERE actor = 'ops'", in: url) == ["1"])
        }
    }

    @Test(
        "PostgreSQL is not reachable → opening the store fails with a message that contains no password",
        .timeLimit(.minutes(1)))
    func unreachable() async throws {
        let settings = try ConnectionSettings(url: "postgresql://u:hunter2hunter2@127.0.0.1:1/x")
        do throws(StoreOpenFailure) {
            _ = try await PostgreSQLStore.open(settings, listening: nil)
            Issue.record("the store opened without a server")
        } catch {
            #expect(error.description.hasPrefix("PostgreSQL is not reached"))
            #expect(!error.description.contains("hunter2"))
        }
    }
}

/// Records names of events, in the order in which they happen.
private final class Order: Sendable {
    private let names = Mutex<[String]>([])
    func note(_ name: String) { names.withLock { $0.append(name) } }
    var first: String? { names.withLock { $0.first } }
}

/// The notices in the order of their arrival.
private final class HeardNotices: Sendable {
    private let notices: Mutex<[EndingNotice]>

    init(_ notices: [EndingNotice]) { self.notices = Mutex(notices) }

    func append(_ notice: EndingNotice) { notices.withLock { $0.append(notice) } }
    var all: [EndingNotice] { notices.withLock { $0 } }
    var ended: [EndedSession] {
        all.reduce(into: []) { ended, notice in
            if case .ended(let sessions) = notice { ended += sessions }
        }
    }
}

extension ParameterType {
    /// The name of the type in PostgreSQL.
    var name: String {
        switch self {
        case .bytes: "bytea"
        case .integer: "bigint"
        case .text: "text"
        case .truth: "boolean"
        case .bytesList: "bytea[]"
        case .integerList: "bigint[]"
        case .textList: "text[]"
        }
    }
}

extension Digest {
    fileprivate var hexadecimal: String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension Result where Failure == any Error {
    fileprivate static func catching(_ body: () async throws -> Success) async -> Self {
        do { return .success(try await body()) } catch { return .failure(error) }
    }
}
