import Broker
import GRDB
import Testing

@testable import BrokerStore

@Suite("SQLite: rows and schemas of other releases", .timeLimit(.minutes(2)))
struct FormatTests {
    @Test(
        "Rows have the format of a newer release → calls for them fail, sweeps and lists skip them, and no row changes (SEC-130)"
    )
    func newerRows() async throws {
        try await TemporaryStore.with { store, _ in
            let session = Rows.session()
            try await store.signIn(session)
            let login = Rows.login()
            _ = try await store.insertLogin(login, limits: LoginLimits())
            let exchange = try await store.mustClaim(Rows.exchange())
            try await setFormat(2, store)

            await #expect(throws: StoreFailure.newerFormat) {
                try await store.session(tokenDigest: session.tokenDigest)
            }
            await #expect(throws: StoreFailure.newerFormat) { try await store.session(handle: session.handle) }
            await #expect(throws: StoreFailure.newerFormat) {
                try await store.claimRefresh(session.tokenDigest)
            }
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
            await #expect(throws: StoreFailure.newerFormat) {
                try await store.claimExchange(exchange, maximumAttempts: 3)
            }
            #expect(
                try await store.sweep(now: Rows.seconds(400 * 86_400), limit: 100, lapsedSince: Rows.now).touched == 0)
            #expect(try await store.sessions(.all, .live, after: nil, limit: 9, now: Rows.now).isEmpty)

            // With the known format again, the rows are the same as before.
            try await setFormat(1, store)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
            #expect(try await store.login(state: login.state) == login)
            #expect(try await store.exchange(exchange.key) == exchange)
        }
    }

    private func setFormat(_ format: Int, _ store: SQLiteStore) async throws {
        for table in ["sessions", "logins", "exchanges"] {
            try await store.maintain("UPDATE \(table) SET format = \(format)")
        }
    }

    @Test(
        "A newer release only added to the schema → the database opens; changed the schema incompatibly → refused (SEC-130)"
    )
    func newerSchema() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/coatcheck.db"
            let session = Rows.session()
            let newest = Schema.newest
            do {
                let store = try await SQLiteStore.open(path: path)
                try await store.signIn(session)
                try await store.maintain(
                    """
                    ALTER TABLE sessions ADD COLUMN something_new TEXT;
                    INSERT INTO schema_version (version, readable_from) VALUES (\(newest + 1), \(newest));
                    """)
                await store.close()
            }
            do {
                let store = try await SQLiteStore.open(path: path)
                #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
                try await store.signIn(Rows.session())
                let broken = newest + 2
                try await store.maintain(
                    "INSERT INTO schema_version (version, readable_from) VALUES (\(broken), \(broken))")
                await store.close()
            }
            await #expect(throws: StoreOpenFailure.tooNew(found: newest + 2, known: newest)) {
                try await SQLiteStore.open(path: path)
            }
        }
    }

    @Test("An unmigrated database → refused until a migration has run; a second migration changes nothing")
    func migrating() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/coatcheck.db"
            await #expect(throws: StoreOpenFailure.needsMigration(found: 0, known: Schema.newest)) {
                try await SQLiteStore.open(path: path, migrating: false)
            }
            let first = try await SQLiteStore.migrate(path: path)
            #expect(first == (0, Schema.newest))
            let second = try await SQLiteStore.migrate(path: path)
            #expect(second == (Schema.newest, Schema.newest))
            let store = try await SQLiteStore.open(path: path, migrating: false)
            try await store.ping()
            await store.close()
        }
    }

    @Test("A damaged row → a failure of the store, and neither \"no session\" nor a crash (SEC-106, guarantee 3)")
    func damaged() async throws {
        try await TemporaryStore.with { store, _ in
            let session = Rows.session()
            try await store.signIn(session)
            try await store.maintain("PRAGMA ignore_check_constraints = ON")
            for change in ["subject = x'00'", "handle = 'x'", "facts_key = ''; SELECT 1", "client = zeroblob(33)"] {
                try await store.maintain("UPDATE sessions SET \(change)")
            }
            await #expect(throws: StoreFailure.unavailable("a row is damaged")) {
                try await store.session(tokenDigest: session.tokenDigest)
            }
        }
    }

    @Test("A row with an unknown end reason or outcome → treated as a row of a newer release (SEC-130)")
    func unknownWords() async throws {
        try await TemporaryStore.with { store, _ in
            let session = Rows.session()
            try await store.signIn(session)
            _ = try await store.endSessions(.token(session.tokenDigest), reason: .admin, now: Rows.now)
            try await store.maintain("UPDATE sessions SET end_reason = 'beamed_up'")
            await #expect(throws: StoreFailure.newerFormat) {
                try await store.session(tokenDigest: session.tokenDigest)
            }
            let row = try await store.mustClaim(Rows.exchange())
            _ = try await store.settleExchange(
                row.key, fence: row.fence, outcome: .spent(.rejected), outbox: [], registration: nil)
            try await store.maintain("UPDATE exchanges SET spent_reason = 99 WHERE spent_reason = 1")
            await #expect(throws: StoreFailure.newerFormat) { try await store.exchange(row.key) }
        }
    }

    @Test("An audit record is changed or removed → refused (SEC-99)")
    func audit() async throws {
        try await TemporaryStore.with { store, _ in
            try await store.appendAudit(
                AuditRow(at: Rows.now, actor: "ops", action: "end_session", target: "tag", outcome: "ended"))
            await #expect(throws: (any Error).self) { try await store.maintain("DELETE FROM audit") }
            await #expect(throws: (any Error).self) { try await store.maintain("UPDATE audit SET actor = 'nobody'") }
            #expect(try await store.integer("SELECT count(*) FROM audit WHERE actor = 'ops'") == 1)
        }
    }

    @Test("The plan of any SQLite lookup → no scan of a whole table, and no sort of found rows")
    func queryPlans() async throws {
        let digest = Rows.digest()
        let selectors: [SessionSelector] = [
            .token(digest), .handle(Rows.handle()), .subject(digest), .subjectExcept(digest, current: digest),
            .sid(digest), .provider(digest), .client(digest), .all,
        ]
        var statements = [
            LoginSQL.byState, LoginSQL.pending, LoginSQL.countPending, LoginSQL.countPendingOfToken, LoginSQL.burn,
            LoginSQL.take, LoginSQL.giveBack, LoginSQL.close, UpkeepSQL.sweepLogins, RegistrationSQL.byKey,
            RegistrationSQL.take, RegistrationSQL.giveBack, RegistrationSQL.close, RegistrationSQL.resubmit,
            UpkeepSQL.sweepRegistrations, ExchangeSQL.byKey, ExchangeSQL.withdraw, ExchangeSQL.lapse,
            ExchangeSQL.claimAgain,
            ExchangeSQL.release, ExchangeSQL.settle, UpkeepSQL.sweepExchanges, SessionSQL.byToken, SessionSQL.byHandle,
            SessionSQL.exists, SessionSQL.slide, RefreshSQL.marks, RefreshSQL.mark, RefreshSQL.renew,
            RefreshSQL.subjectChecked, RefreshSQL.commit, ExchangeSQL.renew, SessionSQL.toOutbox, SessionSQL.bury,
            SessionSQL.remove, RefreshSQL.condemnable,
            ExchangeSQL.beyondLimit, UpkeepSQL.lapsed, UpkeepSQL.lapsedSince, UpkeepSQL.sweepSessions,
            UpkeepSQL.takeOutbox,
            UpkeepSQL.nothingDue, UpkeepSQL.putOffTooFar, UpkeepSQL.recallOutbox,
            SessionSQL.knownLogoutToken, UpkeepSQL.lease,
            UpkeepSQL.removeOutbox, UpkeepSQL.postponeOutbox,
            UpkeepSQL.sweepLogoutTokens, TargetTokenSQL.byKey, TargetTokenSQL.evict, TargetTokenSQL.use,
            TargetTokenSQL.giveBack,
            StepUpSQL.dropTargetTokens,
        ]
        // An operator's counts may read whole tables. Moving and resealing have to read page by page.
        statements += StoredKind.allCases.map { AdministrationSQL.page($0) }
        for place in SealedPlace.allCases {
            statements += [AdministrationSQL.sealed(place), AdministrationSQL.reseal(place)]
        }
        statements.append(UpkeepSQL.releaseLease)
        for (sid, subject) in [(digest, nil), (nil, digest), (digest, digest)] as [(Digest?, Digest?)] {
            statements.append(SessionSQL.named(.logout(sid: sid, subject: subject, clients: [digest, digest])))
        }
        for selector in selectors {
            statements.append(SessionSQL.named(selector))
            for state in SessionState.allCases {
                statements += [SessionSQL.page(selector, state, after: false)]
                statements.append(SessionSQL.page(selector, state, after: true))
            }
        }
        // These lists read an index in its order, one page at a time: a list of all sessions, and an operator's list of
        // tombstones. Most rows of a provider are tombstones, so such a page is soon full.
        let walks =
            [SessionSQL.named(.all), SessionSQL.page(.all, .live, after: false)]
            + [.all, .provider(digest), .client(digest), .sid(digest)].map { SessionSQL.page($0, .ended, after: false) }
        try await TemporaryStore.with { [statements] store, _ in
            for sql in statements.map(\.text) {
                let plan = try await store.readers.read { database in
                    try Row.fetchAll(database, sql: "EXPLAIN QUERY PLAN " + sql.replacing(#/:\w+/#, with: "1"))
                        .compactMap { row in row["detail"] as String? }
                }
                #expect(!plan.isEmpty)
                for step in plan {
                    #expect(!step.contains("TEMP B-TREE"), "\(sql)\n\(plan)")
                    let scans = step.hasPrefix("SCAN") && !(walks.contains { $0.text == sql } && step.contains("USING"))
                    #expect(!scans, "\(sql)\n\(plan)")
                }
            }
        }
    }
}
