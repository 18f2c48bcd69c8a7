import Broker

/// The statements for the outbox, leases, the audit and sweeping in PostgreSQL.
///
/// Rows that another process has locked are skipped, so that replicas can work at the same time.
///
/// PostgreSQL plans these statements without the value of the limit, and then expects a tenth of the table. Two rules avoid
/// that a batch reads the whole table:
/// - A step chooses rows in the order of an index.
/// - The next step finds these rows by a list of their keys (`ANY (ARRAY (…))`), because PostgreSQL expects a list to be short.
///   A join would read the whole table for one batch.
enum PostgreSQLUpkeepSQL {
    static let outboxColumns =
        "o.format, o.key, o.bound_to, o.tokens_key, o.tokens, o.created_at, o.next_attempt_at, o.attempts"
    static let addOutbox = Statement(
        "add_outbox", "BBTBIII",
        """
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (key) DO NOTHING
        """)
    static let takeOutbox = Statement(
        "take_outbox", "iiii",
        """
        WITH recalled AS (
            UPDATE outbox SET next_attempt_at = $1 WHERE key = ANY (ARRAY (
                SELECT key FROM outbox WHERE next_attempt_at > $4 AND format = 1
                ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED))),
        due AS MATERIALIZED (
            SELECT key FROM outbox WHERE next_attempt_at <= $1 AND format = 1
            ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED)
        UPDATE outbox o SET next_attempt_at = $2, attempts = o.attempts + 1
        WHERE o.key = ANY (ARRAY (SELECT key FROM due))
        RETURNING \(outboxColumns)
        """)
    static let postponeOutbox = Statement(
        "postpone_outbox", "BIi",
        """
        UPDATE outbox SET next_attempt_at = ($2)[array_position($1, key)], attempts = greatest(attempts - $3, 0)
        WHERE key = ANY ($1) AND format = 1
        """)
    static let removeOutbox = Statement(
        "remove_outbox", "B", "DELETE FROM outbox WHERE key = ANY ($1) AND format = 1")
    static let countOutbox = Statement("count_outbox", "", "SELECT count(*) FROM outbox")

    static let acquireLease = Statement(
        "acquire_lease", "ttii",
        """
        INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
            WHERE (leases.owner IN ('', excluded.owner) OR leases.until <= $4 OR leases.until > $3) AND leases.format = 1
        RETURNING name
        """)
    /// Clears the owner of a lease.
    ///
    /// The lease's end (`until`) stays.
    static let releaseLease = Statement(
        "release_lease", "tt", "UPDATE leases SET owner = '' WHERE name = $1 AND owner = $2 AND format = 1")
    static let lease = Statement("lease", "t", "SELECT until FROM leases WHERE name = $1 AND format = 1")
    /// Writes a small row under the given name if commits wait for a standby.
    ///
    /// The standby then confirms this commit and all earlier ones.
    static let confirm = Statement(
        "confirm", "t",
        """
        INSERT INTO leases (name, owner, until)
        SELECT $1, '', 0 WHERE current_setting('synchronous_standby_names', true) <> ''
        ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE leases.format = 1
        """)
    static let countSeals = Statement(
        "count_seals", "TI",
        """
        INSERT INTO key_seals AS k (key, seals) SELECT * FROM unnest($1, $2)
        ON CONFLICT (key) DO UPDATE SET seals = k.seals + excluded.seals RETURNING k.key, k.seals
        """)
    static let appendAudit = Statement(
        "append_audit", "itttt", "INSERT INTO audit (at, actor, action, target, outcome) VALUES ($1, $2, $3, $4, $5)")
    static let time = Statement("time", "", "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    /// Whether the server is on another machine.
    ///
    /// A server counts as local if the connection uses the server's own address, loopback or a socket file.
    static let isElsewhere = Statement(
        "is_elsewhere", "",
        """
        SELECT coalesce(
            host(inet_server_addr()) <> host(inet_client_addr()) AND NOT inet_server_addr() <<= '127.0.0.0/8'
                AND host(inet_server_addr()) <> '::1' AND NOT inet_client_addr() <<= '127.0.0.0/8', false)
        """)
    static let version = Statement("version", "", "SELECT max(version) FROM schema_version")

    /// Removes logins, registrations and handoffs after their keeping time.
    ///
    /// Values: the latest time of spent rows, the current time, the limit for each kind.
    static let sweepSpent = Statement(
        "sweep_spent", "iii",
        """
        WITH \(removal("logins", "state", "expires_at", "$1")),
        \(removal("registrations", "key", "expires_at", "$1")),
        \(removal("handoffs", "login", "kept_until", "$2"))
        SELECT (SELECT count(*) FROM gone_logins) + (SELECT count(*) FROM gone_registrations)
            + (SELECT count(*) FROM gone_handoffs)
        """)
    /// Records that a proof was used; returns a row if this was its first use.
    static let takeProof = Statement(
        "take_proof", "bi",
        "INSERT INTO taken_proofs (name, until) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING name")
    /// Deletes the record of a proof, so that the proof can be used again.
    static let returnProof = Statement("return_proof", "b", "DELETE FROM taken_proofs WHERE name = $1")
    /// Removes the records that keep codes, logout tokens and proofs from being used twice.
    ///
    /// The values are those of `sweepSpent`.
    static let sweepUsed = Statement(
        "sweep_used", "iii",
        """
        WITH \(removal("exchanges", "key", "created_at", "$1")),
        \(removal("logout_tokens", "id", "until", "$2")),
        \(removal("taken_proofs", "name", "until", "$2"))
        SELECT (SELECT count(*) FROM gone_exchanges) + (SELECT count(*) FROM gone_logout_tokens)
            + (SELECT count(*) FROM gone_taken_proofs)
        """)
    static let sweepTombstones = Statement(
        "sweep_tombstones", "ii",
        """
        WITH due AS MATERIALIZED (
            SELECT token FROM sessions WHERE ended_at <= $1 AND ended_at IS NOT NULL AND format = 1
            ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED),
        states AS (DELETE FROM session_states WHERE token = ANY (ARRAY (SELECT token FROM due))),
        gone AS (DELETE FROM sessions WHERE token = ANY (ARRAY (SELECT token FROM due)) RETURNING token)
        SELECT count(*) FROM gone
        """)
    /// The columns that determine when and why a session has lapsed.
    private static let endColumns = "token, idle_expires_at, expires_at, token_expires_at, refreshable"
    /// The sessions that lapsed before the first value, at most as many as the second value.
    static let lapsed = Statement(
        "lapsed", "ii",
        """
        SELECT \(endColumns) FROM session_states
        WHERE lapse_hour <= $1 / 3600000 AND least(idle_expires_at, expires_at) <= $1 AND NOT ended AND format = 1
        ORDER BY lapse_hour LIMIT $2
        """)
    /// Makes tombstones of the sessions in a list, each with its reason; the third value is the time.
    ///
    /// Each row is locked and must still have lapsed before the fourth value, because the session may have been used since it
    /// was listed.
    static let buryLapsed = Statement(
        "bury_lapsed", "BTii",
        """
        WITH doomed AS MATERIALIZED (
            SELECT token, (SELECT n.reason FROM unnest($1, $2) AS n (key, reason) WHERE n.key = token) AS reason
            FROM session_states
            WHERE token = ANY ($1) AND least(idle_expires_at, expires_at) <= $4 AND NOT ended AND format = 1
            ORDER BY token FOR UPDATE SKIP LOCKED),
        \(EndingSQL.steps(now: 3))
        SELECT count(*) FROM buried
        """)
    static let lapsedSince = Statement(
        "lapsed_since", "iii",
        """
        SELECT \(endColumns) FROM session_states
        WHERE lapse_hour BETWEEN $2 / 3600000 AND $1 / 3600000 AND least(idle_expires_at, expires_at) <= $1
            AND least(idle_expires_at, expires_at) > $2 AND NOT ended AND format = 1
        LIMIT $3
        """)

    private static func removal(_ table: String, _ key: String, _ end: String, _ limit: String) -> String {
        """
        due_\(table) AS MATERIALIZED (
            SELECT \(key) FROM \(table) WHERE \(end) <= \(limit) AND format = 1
            ORDER BY \(end) LIMIT $3 FOR UPDATE SKIP LOCKED),
        gone_\(table) AS (
            DELETE FROM \(table) WHERE \(key) = ANY (ARRAY (SELECT \(key) FROM due_\(table))) RETURNING \(key))
        """
    }
}

extension EndedSession {
    /// Reads the columns of `PostgreSQLUpkeepSQL.lapsed`.
    init(lapsed columns: inout RowReader) throws {
        let tokenDigest = try columns.digest()
        self.init(tokenDigest: tokenDigest, reason: try SessionEnds(&columns).reason)
    }
}

extension [OutboxRow] {
    /// The values of `PostgreSQLUpkeepSQL.addOutbox`, as one list for each column.
    var parameters: [Parameter] {
        [
            .list(of: .bytes, map { .digest($0.id) }), .list(of: .bytes, map { .digest($0.boundTo) }),
            .list(of: .text, map { .text($0.tokens.keyID) }), .list(of: .bytes, map { .bytes($0.tokens.envelope) }),
            .list(of: .integer, map { .time($0.createdAt) }), .list(of: .integer, map { .time($0.nextAttemptAt) }),
            .list(of: .integer, map { .integer($0.attempts) }),
        ]
    }
}

extension AuditRow {
    /// The values of `PostgreSQLUpkeepSQL.appendAudit`.
    var parameters: [Parameter] { [.time(at), .text(actor), .text(action), .text(target), .text(outcome)] }
}
