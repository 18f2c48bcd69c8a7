import Broker

/// The statements for exchanges in PostgreSQL.
///
/// Keep the column list and the decoder in `RowDecoders` in step.
enum PostgreSQLExchangeSQL {
    /// Returns the columns of `row`, with the claim's remaining time after `moment`.
    static func columns(_ row: String, _ moment: String) -> String {
        """
        \(row).format, \(row).key, \(row).proof, \(row).salt, \(row).key_id, \(row).fence, \(row).attempts, \
        \(row).created_at, \(row).outcome, \(row).outcome_digest, \(row).spent_reason, \(row).gate_kind, \(row).gate, \
        \(row).claim, \(row).claim_until - \(moment)
        """
    }

    static let byKey = Statement(
        "exchange", "bi", "SELECT \(columns("e", EngineClock.moment(2))) FROM exchanges e WHERE e.key = $1")

    /// The verdict of `claim` about the existing row.
    enum Verdict: Int, Sendable {
        case standing, own, lapsed, again, missing

        var sql: String { "\(rawValue)" }
        /// Whether the verdict grants the claim, provided that the gate is open.
        var claims: Bool { self == .again || self == .missing }
        /// The verdicts that grant the claim, as an SQL list.
        static var claiming: String { "(\(again.sql), \(missing.sql))" }
        /// The verdicts that return the row unchanged, as an SQL list.
        static var unchanged: String { "(\(standing.sql), \(own.sql))" }
    }

    /// Claims an exchange in one statement: locks and judges the existing row, takes the gate, and writes the row.
    ///
    /// Values: key, proof, salt, key id, fence, claim, lifetime, attempts, time, the gate's kind, the gate, the most
    /// attempts, the handoff's keeping time, moment, the range of the times since their lapse for which lapsed claims are
    /// spared.
    ///
    /// If another transaction inserts the row at the same time, the statement fails with 23505 and changes nothing.
    static let claim = Statement(
        "claim_exchange", "bbbtibiiiibiiiii",
        """
        WITH standing AS MATERIALIZED (
            SELECT *, \(EngineClock.moment(14)) AS moment FROM exchanges WHERE key = $1 FOR UPDATE),
        judged AS MATERIALIZED (
            SELECT e.*, CASE
                WHEN e.format > 1 THEN \(Verdict.standing.sql)
                WHEN e.outcome = 0 AND e.claim = $6 THEN \(Verdict.own.sql)
                WHEN e.outcome = 0 AND NOT \(EngineClock.stands("e", "e.moment"))
                    AND coalesce(e.moment - e.claim_until NOT BETWEEN $15 AND $16, true) THEN \(Verdict.lapsed.sql)
                WHEN e.outcome = 1 AND e.proof = $2 AND e.attempts < $12 THEN \(Verdict.again.sql)
                ELSE \(Verdict.standing.sql) END AS verdict
            FROM standing e),
        plan AS MATERIALIZED (
            SELECT coalesce((SELECT verdict FROM judged), \(Verdict.missing.sql)) AS verdict,
                \(EngineClock.moment(14)) AS moment),
        login AS (
            UPDATE logins l SET status = 1, exchange = $1 FROM plan
            WHERE $10 = 1 AND l.state = $11 AND l.status = 0 AND l.expires_at > $9 AND l.format = 1
                AND plan.verdict IN \(Verdict.claiming)
            RETURNING l.state),
        handoff AS (
            UPDATE handoffs h SET kept_until = greatest(h.kept_until, $13) FROM login
            WHERE h.login = login.state AND h.format = 1),
        registration AS (
            UPDATE registrations r SET status = 1, exchange = $1 FROM plan
            WHERE $10 = 2 AND r.key = $11 AND r.status = 0 AND r.expires_at > $9 AND r.format = 1
                AND plan.verdict IN \(Verdict.claiming)
            RETURNING r.key),
        gate AS MATERIALIZED (
            SELECT ($10 = 0 OR (SELECT count(*) FROM login) + (SELECT count(*) FROM registration) = 1) AS is_open),
        inserted AS (
            INSERT INTO exchanges (key, proof, salt, key_id, fence, claim, claim_until, attempts, created_at, outcome,
                gate_kind, gate)
            SELECT $1, $2, $3, $4, $5, $6, plan.moment + $7, $8, $9, 0, $10, $11 FROM plan, gate
            WHERE plan.verdict = \(Verdict.missing.sql) AND gate.is_open),
        lapsed AS (
            UPDATE exchanges e SET outcome = 4, spent_reason = 4 FROM judged j
            WHERE e.key = j.key AND j.verdict = \(Verdict.lapsed.sql)
            RETURNING e.*),
        closed_login AS (
            UPDATE logins l SET status = 2 FROM judged j
            WHERE j.verdict = \(Verdict.lapsed.sql) AND j.gate_kind = 1 AND l.state = j.gate AND l.format = 1),
        closed_registration AS (
            UPDATE registrations r SET status = 2 FROM judged j
            WHERE j.verdict = \(Verdict.lapsed.sql) AND j.gate_kind = 2 AND r.key = j.gate AND r.format = 1),
        again AS (
            UPDATE exchanges e SET outcome = 0, fence = e.fence + 1, attempts = e.attempts + 1,
                claim_until = j.moment + $7, gate_kind = $10, gate = $11, claim = $6
            FROM judged j, gate WHERE e.key = j.key AND j.verdict = \(Verdict.again.sql) AND gate.is_open
            RETURNING e.*),
        result AS (
            SELECT \(columns("lapsed", "plan.moment")) FROM lapsed, plan
            UNION ALL SELECT \(columns("again", "plan.moment")) FROM again, plan
            UNION ALL SELECT \(columns("judged", "plan.moment")) FROM judged, plan
            WHERE judged.verdict IN \(Verdict.unchanged))
        SELECT plan.verdict, gate.is_open, result.* FROM plan CROSS JOIN gate LEFT JOIN result ON true
        """)

    static let renew = Statement(
        "renew_exchange", "biii",
        """
        UPDATE exchanges SET claim_until = \(EngineClock.moment(4)) + $3
        WHERE key = $1 AND fence = $2 AND outcome = 0 AND format = 1 RETURNING fence
        """)

    static let release = Statement(
        "release_exchange", "bii",
        """
        WITH released AS (
            UPDATE exchanges SET outcome = 1, attempts = greatest(attempts - $3, 0)
            WHERE key = $1 AND fence = $2 AND outcome = 0 AND format = 1 RETURNING key, gate_kind, gate),
        login AS (
            UPDATE logins l SET status = 0, exchange = NULL FROM released r
            WHERE r.gate_kind = 1 AND l.state = r.gate AND l.status = 1 AND l.exchange = r.key AND l.format = 1
            RETURNING l.expires_at),
        registration AS (
            UPDATE registrations g SET status = 0 FROM released r
            WHERE r.gate_kind = 2 AND g.key = r.gate AND g.status = 1 AND g.format = 1)
        SELECT (SELECT count(*) FROM released), (SELECT expires_at FROM login)
        """)

    /// Settles an exchange.
    ///
    /// Values: key, fence, outcome, its digest, its reason, whether a registration may be resubmitted; the
    /// outbox rows' columns as lists; whether a registration is stored, and its columns.
    static let settle = Statement(
        "settle_exchange", "biibioBBTBIIIobbiiiitb",
        """
        WITH settled AS (
            UPDATE exchanges SET outcome = $3, outcome_digest = $4, spent_reason = $5
            WHERE key = $1 AND fence = $2 AND outcome = 0 AND format = 1 RETURNING gate_kind, gate),
        revoked AS (
            INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
            SELECT * FROM unnest($7, $8, $9, $10, $11, $12, $13)
            ON CONFLICT (key) DO NOTHING),
        login AS (
            UPDATE logins l SET status = 2 FROM settled g WHERE g.gate_kind = 1 AND l.state = g.gate AND l.format = 1),
        registration AS (
            UPDATE registrations r SET
                status = CASE WHEN $6 AND r.status = 1 AND r.attempts = 0 THEN 0 ELSE 2 END,
                attempts = CASE WHEN $6 AND r.status = 1 AND r.attempts = 0 THEN 1 ELSE r.attempts END
            FROM settled g WHERE g.gate_kind = 2 AND r.key = g.gate AND r.format = 1),
        partial AS (
            INSERT INTO registrations (key, login_token, created_at, expires_at, status, attempts, sealed_key, sealed)
            SELECT $15, $16, $17, $18, $19, $20, $21, $22 FROM settled WHERE $14
            ON CONFLICT (key) DO NOTHING)
        SELECT count(*) FROM settled
        """)

    /// Completes an exchange with a session.
    ///
    /// Values: key, fence, the digest of the replaced session, the number of the same
    /// subject's and client's other sessions that may stay.
    ///
    /// The session's columns begin at parameter 5.
    static let complete = Statement(
        "complete_exchange", "bibi" + "btbbbbbiittbtb" + "iiiioiioo",
        """
        WITH settled AS (
            UPDATE exchanges SET outcome = 2, outcome_digest = $5
            WHERE key = $1 AND fence = $2 AND outcome = 0 AND format = 1 RETURNING gate_kind, gate),
        registration AS (
            UPDATE registrations r SET status = 2 FROM settled g
            WHERE g.gate_kind = 2 AND r.key = g.gate AND r.format = 1),
        beyond AS MATERIALIZED (
            SELECT s.token FROM settled, sessions s JOIN session_states st ON st.token = s.token
            WHERE s.subject_and_client = $8 AND s.ended_at IS NULL AND st.idle_expires_at > $12 AND st.expires_at > $12
                AND s.token IS DISTINCT FROM $3
            ORDER BY s.created_at DESC, s.handle DESC OFFSET $4),
        doomed AS MATERIALIZED (
            SELECT s.token, 'replaced' AS reason FROM settled, sessions s WHERE s.token = $3 AND s.end_reason IS NULL
            UNION ALL SELECT token, 'session_limit' FROM beyond),
        \(EndingSQL.steps(now: 12)),
        inserted AS (
            \(PostgreSQLSessionSQL.insert)
            SELECT $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18 FROM settled),
        state AS (
            \(PostgreSQLSessionSQL.insertState)
            SELECT $5, $19, $20, $21, $22, $23, $24, $25, $26, $27 FROM settled)
        SELECT b.token, b.reason FROM settled LEFT JOIN buried b ON true
        """)
}

extension ExchangeRow {
    /// Reads the columns of `PostgreSQLExchangeSQL.columns`.
    init(_ columns: inout RowReader) throws {
        try self.init(&columns) { columns in
            guard let name = ClaimID(try columns.bytes()) else { throw StoreFailure.unavailable("a row is damaged") }
            return (name, try columns.duration())
        }
    }
}

extension ExchangeRow.Outcome {
    /// The values of `outcome, outcome_digest, spent_reason`.
    var parameters: [Parameter] {
        switch self {
        case .calling: [.integer(0), .null, .null]
        case .released: [.integer(1), .null, .null]
        case .session(let tokenDigest): [.integer(2), .digest(tokenDigest), .null]
        case .registration(let key): [.integer(3), .digest(key), .null]
        case .spent(let reason): [.integer(4), .null, .integer(reason.rawValue)]
        }
    }
}

extension ExchangeGate {
    /// The values of `gate_kind, gate`.
    var parameters: [Parameter] {
        switch self {
        case .none: [.integer(0), .null]
        case .login(let state): [.integer(1), .digest(state)]
        case .registration(let key): [.integer(2), .digest(key)]
        }
    }
}
