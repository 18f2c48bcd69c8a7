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
        \(row).kept_until, \(row).pair_kept_at, \(row).refusals, \(row).first_refused_at, \(row).import_end, \
        \(row).claim, \(row).claim_until - \(moment)
        """
    }

    static let byKey = Statement(
        "exchange", ["key": .bytes, "moment": .integer],
        "SELECT \(columns("e", EngineClock.moment)) FROM exchanges e WHERE e.key = :key")

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
    /// A handoff of the login is kept until `kept_until`. Claims that lapsed between `spared_from` and `spared_to` ago are
    /// spared.
    ///
    /// If another transaction inserts the row at the same time, the statement fails with 23505 and changes nothing.
    static let claim = Statement(
        "claim_exchange",
        [
            "key": .bytes, "proof": .bytes, "salt": .bytes, "key_id": .text, "fence": .integer, "claim": .bytes,
            "lifetime": .integer, "attempts": .integer, "created_at": .integer, "gate_kind": .integer, "gate": .bytes,
            "most_attempts": .integer, "kept_until": .integer, "moment": .integer, "spared_from": .integer,
            "spared_to": .integer,
        ],
        """
        WITH standing AS MATERIALIZED (
            SELECT *, \(EngineClock.moment) AS moment FROM exchanges WHERE key = :key FOR UPDATE),
        judged AS MATERIALIZED (
            SELECT e.*, CASE
                WHEN e.format > 1 THEN \(Verdict.standing.sql)
                WHEN e.outcome = 0 AND e.claim = :claim THEN \(Verdict.own.sql)
                WHEN e.outcome = 0 AND NOT \(EngineClock.stands("e", "e.moment"))
                    AND coalesce(e.moment - e.claim_until NOT BETWEEN :spared_from AND :spared_to, true)
                        THEN \(Verdict.lapsed.sql)
                WHEN e.outcome = 1 AND e.proof = :proof AND e.attempts < :most_attempts THEN \(Verdict.again.sql)
                ELSE \(Verdict.standing.sql) END AS verdict
            FROM standing e),
        plan AS MATERIALIZED (
            SELECT coalesce((SELECT verdict FROM judged), \(Verdict.missing.sql)) AS verdict,
                \(EngineClock.moment) AS moment),
        login AS (
            UPDATE logins l SET status = 1, exchange = :key FROM plan
            WHERE :gate_kind = 1 AND l.state = :gate AND l.status = 0 AND l.expires_at > :created_at AND l.format = 1
                AND plan.verdict IN \(Verdict.claiming)
            RETURNING l.state),
        handoff AS (
            UPDATE handoffs h SET kept_until = greatest(h.kept_until, :kept_until) FROM login
            WHERE h.login = login.state AND h.format = 1),
        registration AS (
            UPDATE registrations r SET status = 1, exchange = :key FROM plan
            WHERE :gate_kind = 2 AND r.key = :gate AND r.status = 0 AND r.expires_at > :created_at AND r.format = 1
                AND plan.verdict IN \(Verdict.claiming)
            RETURNING r.key),
        gate AS MATERIALIZED (
            SELECT (:gate_kind = 0 OR (SELECT count(*) FROM login) + (SELECT count(*) FROM registration) = 1) AS is_open),
        inserted AS (
            INSERT INTO exchanges (key, proof, salt, key_id, fence, claim, claim_until, attempts, created_at, outcome,
                gate_kind, gate)
            SELECT :key, :proof, :salt, :key_id, :fence, :claim, plan.moment + :lifetime, :attempts, :created_at, 0,
                :gate_kind, :gate FROM plan, gate
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
                claim_until = j.moment + :lifetime, gate_kind = :gate_kind, gate = :gate, claim = :claim
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
        "renew_exchange", ["key": .bytes, "fence": .integer, "lifetime": .integer, "moment": .integer],
        """
        UPDATE exchanges SET claim_until = \(EngineClock.moment) + :lifetime
        WHERE key = :key AND fence = :fence AND outcome = 0 AND format = 1 RETURNING fence
        """)

    static let release = Statement(
        "release_exchange", ["key": .bytes, "fence": .integer, "uncounted": .integer],
        """
        WITH released AS (
            UPDATE exchanges SET outcome = 1, attempts = greatest(attempts - :uncounted, 0)
            WHERE key = :key AND fence = :fence AND outcome = 0 AND format = 1 RETURNING key, gate_kind, gate),
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
    /// An import's pair is dropped. A refused import (12) is kept for a day only, and a refused legacy token (16) for ten minutes.
    ///
    /// The values from `key` to `sealed` are the columns of a registration, which is stored if `has_registration` is true.
    static let settle = Statement(
        "settle_exchange",
        [
            "exchange": .bytes, "exchange_fence": .integer, "outcome": .integer, "outcome_digest": .bytes,
            "spent_reason": .integer, "import_end": .integer, "may_resubmit": .truth,
        ] + PostgreSQLUpkeepSQL.outbox + [
            "has_registration": .truth, "key": .bytes, "login_token": .bytes, "created_at": .integer,
            "expires_at": .integer, "status": .integer, "attempts": .integer, "sealed_key": .text, "sealed": .bytes,
        ],
        """
        WITH settled AS (
            UPDATE exchanges SET outcome = :outcome, outcome_digest = :outcome_digest, spent_reason = :spent_reason,
                import_end = :import_end, pair_kept_at = NULL,
                kept_until = CASE :import_end WHEN 12 THEN created_at + 86400000 WHEN 16 THEN created_at + 600000 ELSE kept_until END
            WHERE key = :exchange AND fence = :exchange_fence AND outcome = 0 AND format = 1 RETURNING gate_kind, gate),
        revoked AS (
            INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
            SELECT * FROM \(PostgreSQLUpkeepSQL.outboxRows)
            ON CONFLICT (key) DO NOTHING),
        login AS (
            UPDATE logins l SET status = 2 FROM settled g WHERE g.gate_kind = 1 AND l.state = g.gate AND l.format = 1),
        registration AS (
            UPDATE registrations r SET
                status = CASE WHEN :may_resubmit AND r.status = 1 AND r.attempts = 0 THEN 0 ELSE 2 END,
                attempts = CASE WHEN :may_resubmit AND r.status = 1 AND r.attempts = 0 THEN 1 ELSE r.attempts END
            FROM settled g WHERE g.gate_kind = 2 AND r.key = g.gate AND r.format = 1),
        partial AS (
            INSERT INTO registrations (key, login_token, created_at, expires_at, status, attempts, sealed_key, sealed)
            SELECT :key, :login_token, :created_at, :expires_at, :status, :attempts, :sealed_key, :sealed FROM settled
                WHERE :has_registration
            ON CONFLICT (key) DO NOTHING)
        SELECT count(*) FROM settled
        """)

    /// Completes an exchange with a session.
    ///
    /// `others` limits the other sessions of the same subject and client: so many of them may stay.
    static let complete = Statement(
        "complete_exchange",
        ["exchange": .bytes, "exchange_fence": .integer, "replaced": .bytes, "others": .integer]
            + PostgreSQLSessionSQL.inserted,
        """
        WITH settled AS (
            UPDATE exchanges SET outcome = 2, outcome_digest = :token, pair_kept_at = NULL
            WHERE key = :exchange AND fence = :exchange_fence AND outcome = 0 AND format = 1 RETURNING gate_kind, gate),
        registration AS (
            UPDATE registrations r SET status = 2 FROM settled g
            WHERE g.gate_kind = 2 AND r.key = g.gate AND r.format = 1),
        beyond AS MATERIALIZED (
            SELECT s.token FROM settled, sessions s JOIN session_states st ON st.token = s.token
            WHERE s.subject_and_client = :subject_and_client AND s.ended_at IS NULL AND st.idle_expires_at > :created_at
                AND st.expires_at > :created_at AND s.token IS DISTINCT FROM :replaced
            ORDER BY s.created_at DESC, s.handle DESC OFFSET :others),
        doomed AS MATERIALIZED (
            SELECT s.token, 'replaced' AS reason FROM settled, sessions s WHERE s.token = :replaced AND s.end_reason IS NULL
            UNION ALL SELECT token, 'session_limit' FROM beyond),
        \(EndingSQL.steps(now: ":created_at")),
        inserted AS (
            \(PostgreSQLSessionSQL.insert)
            SELECT \(PostgreSQLSessionSQL.insertedValues) FROM settled),
        state AS (
            \(PostgreSQLSessionSQL.insertState)
            SELECT :token, \(PostgreSQLSessionSQL.insertedState) FROM settled)
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

    /// The values of `PostgreSQLExchangeSQL.claim` that are columns of the row, except its gate.
    var claimParameters: Named<Parameter> {
        [
            "key": .digest(key), "proof": .digest(proof), "salt": .bytes(salt), "key_id": .text(keyID),
            "fence": .integer(fence), "claim": .bytes(claim.bytes), "lifetime": .duration(claimFor),
            "attempts": .integer(attempts), "created_at": .time(createdAt),
        ]
    }
}

extension ExchangeRow.Outcome {
    /// The values of `outcome, outcome_digest, spent_reason, import_end`.
    var parameters: Named<Parameter> {
        switch self {
        case .calling: Self.parameters(0, nil, nil)
        case .released: Self.parameters(1, nil, nil)
        case .session(let tokenDigest): Self.parameters(2, tokenDigest, nil)
        case .registration(let key), .continued(let key): Self.parameters(3, key, nil)
        case .spent(let reason): Self.parameters(4, nil, reason)
        }
    }

    private static func parameters(
        _ kind: Int, _ digest: Digest?, _ reason: ExchangeRow.SpentReason?
    ) -> Named<Parameter> {
        [
            "outcome": .integer(kind), "outcome_digest": .digest(digest),
            "spent_reason": .integer(reason?.olderReason.rawValue),
            "import_end": .integer(reason?.importEnd?.rawValue),
        ]
    }
}

extension ExchangeGate {
    /// The values of `gate_kind, gate`.
    var parameters: Named<Parameter> {
        switch self {
        case .none: ["gate_kind": .integer(0), "gate": .digest(nil)]
        case .login(let state): ["gate_kind": .integer(1), "gate": .digest(state)]
        case .registration(let key): ["gate_kind": .integer(2), "gate": .digest(key)]
        }
    }
}
