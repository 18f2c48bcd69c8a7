import Broker
import Foundation
import Testing

@testable import BrokerStore

/// The plans that PostgreSQL makes for the store's statements if there are many rows.
///
/// Connections use generic plans (`force_generic_plan`), and so do the tests. For such a plan, PostgreSQL assumes that a limit
/// returns a tenth of all rows, and that a comparison holds for a third. So a statement that is fast with few rows may read a
/// whole table if there are many.
@Suite("PostgreSQL: the plans of the store's statements")
struct PostgreSQLPlanTests {
    /// The statements that may read a whole table, with the reasons.
    private static let walks = [
        "count_outbox": "used for a gauge, on another connection than requests; few rows wait",
        "admin_count_logins": "counts rows for an operator", "admin_count_handoffs": "counts rows for an operator",
        "admin_count_registrations": "counts rows for an operator",
        "admin_count_exchanges": "counts rows for an operator",
        "admin_count_sessions": "counts rows for an operator", "admin_count_outbox": "counts rows for an operator",
        "admin_count_audit": "counts rows for an operator", "admin_count_logout_tokens": "counts rows for an operator",
        "admin_count_audience_tokens": "counts rows for an operator",
        "admin_count_import_pairs": "counts rows for an operator",
        "admin_use_import_pairs": "read before a key is removed, and there are few such rows",
        "admin_use_audiences": "read before a key is removed; only sessions that call several APIs have such rows",
        "admin_use_exchanges": "read before a key is removed",
        "admin_use_registrations": "read before a key is removed, and there are few such rows",
        "admin_use_outbox": "read before a key is removed, and there are few such rows",
        "live_sessions": "used for a gauge, and answered from the index alone",
    ]

    /// Whether the statement lists ended sessions in another order than that of the index that finds them.
    private static func isListing(_ statement: Statement) -> Bool {
        ["sid", "logout_sid", "logout"].contains { statement.name.hasPrefix("page_\($0)_ended_") }
    }

    /// A plan that reads more rows than this number has a fault, unless a limit stops the read earlier.
    private static let many = 1000.0
    private static let stored = 20_000

    @Test(
        "Every statement except the listed exceptions, with tables of any size → finds its rows by an index",
        .timeLimit(.minutes(3))
    )
    func plans() async throws {
        let statements = Self.statements
        #expect(Set(statements.map(\.name)).count == statements.count)
        for name in try Self.writtenNames() {
            let isListed = statements.contains { name.isWhole ? $0.name == name.text : $0.name.hasPrefix(name.text) }
            #expect(isListed, "\(name.text) is missing among this test's statements")
        }
        try await PostgreSQLServer.withDatabase(isSpoilt: true) { url, _ in
            let connection = try PostgreSQLServer.connect(url)
            try connection.execute(Self.filling, within: .seconds(120))
            // After a vacuum, as autovacuum does it, an index can answer without the table.
            try connection.execute("VACUUM (ANALYZE)", within: .seconds(60))
            try connection.execute(SessionSetup.sql, within: .seconds(10))
            var faults = try Self.faults(of: statements + Self.first, connection)
            // Multiply the row counts that PostgreSQL's planner knows by 50, to a million rows of each kind. The planner then
            // chooses other plans.
            try connection.execute(
                """
                UPDATE pg_class SET reltuples = reltuples * 50
                WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace;
                DEALLOCATE ALL
                """, within: .seconds(10))
            faults.merge(try Self.faults(of: statements + Self.first, connection)) { $0 + $1 }
            for statement in statements where Self.walks[statement.name] == nil && !Self.isListing(statement) {
                #expect(faults[statement.name] == [], "\(statement.name): \(faults[statement.name] ?? [])")
            }
            for name in Self.walks.keys + Self.first.map(\.name) {
                #expect(faults[name]?.isEmpty == false, "\(name) needs no exception")
            }
        }
    }

    /// The plans in the first minute after a table was filled.
    ///
    /// Until PostgreSQL analyzes a table, it knows only the table's size.
    @Test(
        "The tables were filled and not analyzed yet → every statement except the exceptions finds its rows by an index",
        .timeLimit(.minutes(3)),
        arguments: [false, true])
    func youngPlans(hasSeenThemEmpty: Bool) async throws {
        let statements = Self.statements
        try await PostgreSQLServer.withDatabase(migrated: false) { url, _ in
            let connection = try PostgreSQLServer.connect(url)
            _ = try Migrator(connection: connection, isPooled: false).run(migrating: true)
            try connection.execute(Self.unattended, within: .seconds(10))
            if hasSeenThemEmpty { try connection.execute("VACUUM (ANALYZE)", within: .seconds(60)) }
            try connection.execute(Self.filling, within: .seconds(120))
            try connection.execute(SessionSetup.sql, within: .seconds(10))
            for statement in statements where Self.walks[statement.name] == nil && !Self.isListing(statement) {
                let faults = try Self.plan(of: statement, connection).faults()
                #expect(faults == [], "\(statement.name): \(faults)")
            }
        }
    }

    private static func faults(
        of statements: [Statement], _ connection: LibPQConnection
    ) throws -> [String: [String]] {
        var faults: [String: [String]] = [:]
        for statement in statements { faults[statement.name] = try plan(of: statement, connection).faults() }
        return faults
    }

    /// Slow statements of earlier releases, in which the test has to find faults.
    ///
    /// With a million rows, each needed a second for a page of one row.
    private static let first = [
        Statement(
            "first_page", ["after": .bytes, "limit": .integer],
            """
            SELECT s.token, s.facts, st.fence FROM sessions s JOIN session_states st ON st.token = s.token
            WHERE s.token > :after ORDER BY s.token LIMIT :limit
            """),
        Statement(
            "first_sweep", ["buried": .integer, "limit": .integer],
            """
            WITH due AS MATERIALIZED (SELECT token FROM sessions WHERE ended_at <= :buried LIMIT :limit FOR UPDATE SKIP LOCKED)
            DELETE FROM sessions s USING due WHERE s.token = due.token
            """),
    ]

    private static func plan(of statement: Statement, _ connection: LibPQConnection) throws -> PlanNode {
        let types = statement.types.map(\.name).joined(separator: ", ")
        let values = statement.types.map { _ in "NULL" }.joined(separator: ", ")
        let answer = try connection.execute(
            """
            PREPARE \(statement.name)\(types.isEmpty ? "" : " (\(types))") AS \(statement.sql);
            EXPLAIN (FORMAT JSON) EXECUTE \(statement.name)\(types.isEmpty ? "" : " (\(values))")
            """, within: .seconds(10))
        let json = try #require(answer.first ?? nil)
        let plans = try JSONDecoder().decode([[String: PlanNode]].self, from: Data(json.utf8))
        return try #require(plans.first?["Plan"])
    }

    /// The names of all statements in the sources: whole names, and the first parts of composed names.
    private static func writtenNames() throws -> [(text: String, isWhole: Bool)] {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources/BrokerStore/PostgreSQL")
        let files = FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil)
        var names: [(text: String, isWhole: Bool)] = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let source = try String(contentsOf: file, encoding: .utf8)
            names += source.matches(of: #/\bStatement\(\s*"([a-z_]+)(["\\])/#).map { (String($0.1), $0.2 == "\"") }
        }
        #expect(names.count > 50)
        return names
    }

    /// All statements of PostgreSQL, one for each name.
    static var statements: [Statement] {
        typealias Login = PostgreSQLLoginSQL
        typealias Exchange = PostgreSQLExchangeSQL
        typealias Import = PostgreSQLImportSQL
        typealias Session = PostgreSQLSessionSQL
        typealias Refresh = PostgreSQLRefreshSQL
        typealias StepUp = PostgreSQLStepUpSQL
        typealias Family = PostgreSQLFamilySQL
        typealias TargetToken = PostgreSQLTargetTokenSQL
        typealias Upkeep = PostgreSQLUpkeepSQL
        typealias Administration = PostgreSQLAdministrationSQL
        let digest = Rows.digest()
        let logouts: [(sid: Digest?, subject: Digest?)] = [(digest, nil), (nil, digest), (digest, digest)]
        let named: [SessionSelector] =
            [
                .token(digest), .handle(Rows.handle()), .subject(digest), .subjectExcept(digest, current: digest),
                .sid(digest), .provider(digest), .client(digest),
            ] + logouts.map { .logout(sid: $0.sid, subject: $0.subject, clients: [digest]) }
        var statements = [
            Login.turn, Login.insert, Login.byState, Login.pending, Login.countPending, Login.burn, Login.keepHandoff,
            Login.handoffByKey, Login.handoffByLogin, Login.insertRegistration, Login.registration, Exchange.byKey,
            Exchange.claim, Exchange.renew, Exchange.release, Exchange.settle, Exchange.complete, Import.claim,
            Import.release, Import.count, Import.keep, Import.pair, Import.insertPair, Import.insertGrant, Import.grant,
            Import.revokePairs, Import.sweep,
            Session.byToken,
            Session.byHandle, Family.children, Family.lockParent, Family.insertChild, Session.tokenVersions,
            StepUp.registerPresence, Session.slide, Refresh.claim, Refresh.renew, Refresh.state,
            Refresh.release, Refresh.subjectChecked, Refresh.commit, StepUp.stepUp, StepUp.hold, Refresh.condemn,
            Upkeep.addOutbox,
            Upkeep.takeOutbox, Upkeep.postponeOutbox, Upkeep.removeOutbox, Upkeep.countOutbox, Upkeep.acquireLease,
            Upkeep.releaseLease, Upkeep.lease, Upkeep.countSeals, Upkeep.appendAudit, Upkeep.time, Upkeep.isElsewhere,
            Upkeep.version, TableRights.lacking,
            Upkeep.sweepSpent, Upkeep.sweepUsed, Upkeep.sweepTombstones, Upkeep.lapsed,
            Upkeep.buryLapsed, Upkeep.lapsedSince, Upkeep.confirm, Upkeep.takeProof, Upkeep.returnProof,
            Administration.liveSessions, Administration.insertLogin, Administration.insertHandoff,
            Administration.insertRegistration, Administration.insertExchange, Administration.insertSession,
            Administration.insertLogoutToken, Administration.insertLease, Administration.insertSeals,
            Administration.exchangeUse, EndingExchange.tell, Refresh.commitTargetToken, Refresh.commitRotated,
            TargetToken.byKey, TargetToken.use,
            TargetToken.insert, TargetToken.keep,
            // The trigger of the table `exchanges` contains this statement.
            Statement("drop_import_pair", ["key": .bytes], "DELETE FROM import_pairs WHERE key = :key"),
            // The triggers of the table `session_states` contain this statement.
            Statement(
                "drop_audiences", ["session": .bytes], "DELETE FROM audience_tokens WHERE session = :session"),
        ]
        for selector in named + [.all] {
            statements += [Session.end(selector), Session.consume(selector)]
            for state in SessionState.allCases {
                statements += [false, true].map { Session.page(selector, state, after: $0) }
            }
        }
        for kind in StoredKind.allCases {
            statements += [Administration.page(kind), Administration.count(kind)]
        }
        for place in SealedPlace.allCases {
            statements += [Administration.sealed(place), Administration.reseal(place), Administration.use(place)]
        }
        return statements
    }

    /// Turns off vacuum and analyze for the tables.
    private static let unattended = """
        DO 'DECLARE name text; BEGIN
            FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = ''public'' LOOP
                EXECUTE format(''ALTER TABLE %I SET (autovacuum_enabled = off)'', name);
            END LOOP; END'
        """

    /// Many rows of each large kind; three of four sessions live, and one has ended.
    private static let filling = """
        \(unattended);
        CREATE FUNCTION pg_temp.digest(text) RETURNS bytea LANGUAGE sql AS 'SELECT sha256($1::bytea)';
        INSERT INTO sessions (token, handle, subject, subject_and_client, sid, provider, client, created_at, ended_at,
            end_reason, facts_key, facts, tokens_key, tokens)
        SELECT pg_temp.digest('session' || n), 'ses_' || n, pg_temp.digest('subject' || n / 2),
            pg_temp.digest('both' || n / 2), pg_temp.digest('sid' || n), pg_temp.digest('provider' || n % 3),
            pg_temp.digest('client' || n % 5), \(moment) + n, CASE WHEN n % 4 = 0 THEN \(moment) + n + 5 END,
            CASE WHEN n % 4 = 0 THEN 'logged_out' END, 'key', decode(repeat('ab', 200), 'hex'),
            CASE WHEN n % 4 > 0 THEN 'key' END, CASE WHEN n % 4 > 0 THEN decode(repeat('cd', 300), 'hex') END
        FROM generate_series(1, \(stored)) n;
        INSERT INTO session_states (token, last_used_at, idle_expires_at, expires_at, token_version, fence,
            subject_unchecked, refreshable, ended)
        SELECT pg_temp.digest('session' || n), \(moment) + n, \(moment) + n * 60000::bigint, \(moment) + n * 90000::bigint, 1, 1, false,
            true, n % 4 = 0
        FROM generate_series(1, \(stored)) n;
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, sealed_key, sealed)
        SELECT pg_temp.digest('state' || n), pg_temp.digest('token' || n), 'id' || n, \(moment) + n, \(moment) + n * 1000,
            n % 3, 'key', decode(repeat('ab', 100), 'hex')
        FROM generate_series(1, \(stored)) n;
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        SELECT pg_temp.digest('state' || n), pg_temp.digest('handoff' || n), \(moment) + n, \(moment) + n * 1000,
            \(moment) + n * 1000, 'key', decode(repeat('ab', 100), 'hex')
        FROM generate_series(1, \(stored)) n;
        INSERT INTO registrations (key, created_at, expires_at, status, attempts, sealed_key, sealed)
        SELECT pg_temp.digest('registration' || n), \(moment) + n, \(moment) + n * 1000, 0, 0, 'key',
            decode(repeat('ab', 100), 'hex')
        FROM generate_series(1, \(stored)) n;
        INSERT INTO exchanges (key, salt, key_id, fence, claim, claim_until, attempts, created_at, outcome,
            outcome_digest, gate_kind, gate)
        SELECT pg_temp.digest('code' || n), decode(repeat('ab', 16), 'hex'), 'key', 1, decode(repeat('cd', 16), 'hex'),
            \(moment), 1, \(moment) + n * 1000, 2, pg_temp.digest('session' || n), 1, pg_temp.digest('state' || n)
        FROM generate_series(1, \(stored)) n;
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim, claim_until, attempts, created_at, outcome,
            outcome_digest, gate_kind, kept_until, pair_kept_at)
        SELECT pg_temp.digest('import' || n), pg_temp.digest('proof' || n), decode(repeat('ab', 16), 'hex'), 'key', 1,
            decode(repeat('cd', 16), 'hex'), \(moment), 1, \(moment) + n * 1000, CASE WHEN n % 20 = 0 THEN 1 ELSE 2 END,
            CASE WHEN n % 20 > 0 THEN pg_temp.digest('session' || n) END, 0, \(moment) + n * 1000,
            CASE WHEN n % 20 = 0 THEN \(moment) + n * 1000 END
        FROM generate_series(1, \(stored)) n;
        INSERT INTO import_pairs (key, sealed_key, sealed)
        SELECT pg_temp.digest('import' || n), 'key', decode(repeat('ab', 300), 'hex')
        FROM generate_series(1, \(stored)) n;
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT pg_temp.digest('work' || n), pg_temp.digest('work' || n), 'key', decode(repeat('ab', 300), 'hex'),
            \(moment) + n, \(moment) + n * 1000, 0
        FROM generate_series(1, \(stored)) n;
        INSERT INTO audience_tokens (key, session, version, stored_at, used_at, sealed_key, sealed)
        SELECT pg_temp.digest('audience' || n), pg_temp.digest('session' || n / 4), n, \(moment) + n, \(moment) + n, 'key',
            decode(repeat('ab', 300), 'hex')
        FROM generate_series(1, \(stored)) n;
        INSERT INTO logout_tokens (id, until)
        SELECT pg_temp.digest('logout' || n), \(moment) + n * 1000 FROM generate_series(1, \(stored)) n;
        INSERT INTO taken_proofs (name, until)
        SELECT pg_temp.digest('proof' || n), \(moment) + n * 1000 FROM generate_series(1, \(stored)) n;
        INSERT INTO audit (at, actor, action, target, outcome)
        SELECT \(moment) + n, 'ops', 'end_session', 'tag', 'ended' FROM generate_series(1, \(stored)) n
        """
    private static let moment = "1795000000000"

    /// A node of a plan, as EXPLAIN reports it.
    private struct PlanNode: Decodable {
        let type: String
        let table: String?
        let rows: Double
        /// The node's relationship to its parent.
        ///
        /// `InitPlan` and `SubPlan` are separate plans.
        let relationship: String?
        /// The condition of the index look-up; `filter` is the condition on the rows that it found.
        let condition: String?
        let filter: String?
        let children: [PlanNode]?

        private enum CodingKeys: String, CodingKey {
            case type = "Node Type"
            case table = "Relation Name"
            case rows = "Plan Rows"
            case relationship = "Parent Relationship"
            case condition = "Index Cond"
            case filter = "Filter"
            case children = "Plans"
        }

        /// The nodes that read one row at a time, when the node above asks for it.
        ///
        /// All other nodes read all rows first.
        private static let passing: Set = [
            "Limit", "LockRows", "Nested Loop", "Result", "Subquery Scan", "Append", "Merge Append", "ProjectSet",
        ]
        /// Filters that almost every row passes, so few rows are read in vain.
        ///
        /// `parent IS NULL` is one of them, because a session has at most sixteen children.
        private static let hardlyAny: Set = ["(format = 1)", "(parent IS NULL)", "((parent IS NULL) AND (format = 1))"]
        private static let small: Set = ["import_grants", "leases", "key_seals", "schema_version"]

        /// Returns a sentence for each table of which the plan reads too many rows.
        ///
        /// `isLimited` means that the caller wants only the first rows.
        func faults(isLimited: Bool = false) -> [String] {
            var faults: [String] = []
            if let table, !Self.small.contains(table), type.hasSuffix("Scan") {
                if type == "Seq Scan" {
                    faults.append("\(table) is read from end to end")
                } else if rows > PostgreSQLPlanTests.many, !isLimited || type.hasPrefix("Bitmap") {
                    faults.append("\(Int(rows)) rows of \(table) are read (\(type))")
                } else if type.hasPrefix("Index"), condition == nil, let filter, !Self.hardlyAny.contains(filter) {
                    faults.append("\(table) is searched from end to end: \(filter)")
                }
            }
            for child in children ?? [] {
                let isOwn = child.relationship == "InitPlan" || child.relationship == "SubPlan"
                let isLimited = type == "Limit" || isLimited && Self.passing.contains(type)
                faults += child.faults(isLimited: isLimited && !isOwn)
            }
            return faults
        }
    }
}
