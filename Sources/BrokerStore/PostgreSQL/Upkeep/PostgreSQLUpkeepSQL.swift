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
    /// The parameters of statements that add outbox rows, as one list for each column.
    static let outbox: Named<ParameterType> = [
        "outbox_keys": .bytesList, "outbox_bound_to": .bytesList, "outbox_tokens_keys": .textList,
        "outbox_tokens": .bytesList, "outbox_created_at": .integerList, "outbox_next_attempt_at": .integerList,
        "outbox_attempts": .integerList,
    ]
    /// The outbox rows that are the values of `outbox`.
    static let outboxRows = """
        unnest(:outbox_keys, :outbox_bound_to, :outbox_tokens_keys, :outbox_tokens, :outbox_created_at, \
        :outbox_next_attempt_at, :outbox_attempts)
        """
    static let addOutbox = Statement(
        "add_outbox", outbox,
        """
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT * FROM \(outboxRows) ON CONFLICT (key) DO NOTHING
        """)
    static let takeOutbox = Statement(
        "take_outbox", ["now": .integer, "until": .integer, "limit": .integer, "impossible": .integer],
        """
        WITH recalled AS (
            UPDATE outbox SET next_attempt_at = :now WHERE key = ANY (ARRAY (
                SELECT key FROM outbox WHERE next_attempt_at > :impossible AND format = 1
                ORDER BY next_attempt_at LIMIT :limit FOR UPDATE SKIP LOCKED))),
        due AS MATERIALIZED (
            SELECT key FROM outbox WHERE next_attempt_at <= :now AND format = 1
            ORDER BY next_attempt_at LIMIT :limit FOR UPDATE SKIP LOCKED)
        UPDATE outbox o SET next_attempt_at = :until, attempts = o.attempts + 1
        WHERE o.key = ANY (ARRAY (SELECT key FROM due))
        RETURNING \(outboxColumns)
        """)
    static let postponeOutbox = Statement(
        "postpone_outbox", ["keys": .bytesList, "until": .integerList, "uncounted": .integer],
        """
        UPDATE outbox SET next_attempt_at = (:until)[array_position(:keys, key)], attempts = greatest(attempts - :uncounted,
            0)
        WHERE key = ANY (:keys) AND format = 1
        """)
    static let removeOutbox = Statement(
        "remove_outbox", ["keys": .bytesList], "DELETE FROM outbox WHERE key = ANY (:keys) AND format = 1")
    static let countOutbox = Statement("count_outbox", [:], "SELECT count(*) FROM outbox")

    static let acquireLease = Statement(
        "acquire_lease", ["name": .text, "owner": .text, "until": .integer, "now": .integer],
        """
        INSERT INTO leases (name, owner, until) VALUES (:name, :owner, :until)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
            WHERE (leases.owner IN ('', excluded.owner) OR leases.until <= :now OR leases.until > :until)
                AND leases.format = 1
        RETURNING name
        """)
    /// Clears the owner of a lease.
    ///
    /// The lease's end (`until`) stays.
    static let releaseLease = Statement(
        "release_lease", ["name": .text, "owner": .text],
        "UPDATE leases SET owner = '' WHERE name = :name AND owner = :owner AND format = 1")
    static let lease = Statement("lease", ["name": .text], "SELECT until FROM leases WHERE name = :name AND format = 1")
    /// Writes a small row under the given name if commits wait for a standby.
    ///
    /// The standby then confirms this commit and all earlier ones.
    static let confirm = Statement(
        "confirm", ["name": .text],
        """
        INSERT INTO leases (name, owner, until)
        SELECT :name, '', 0 WHERE current_setting('synchronous_standby_names', true) <> ''
        ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE leases.format = 1
        """)
    static let countSeals = Statement(
        "count_seals", ["keys": .textList, "seals": .integerList],
        """
        INSERT INTO key_seals AS k (key, seals) SELECT * FROM unnest(:keys, :seals)
        ON CONFLICT (key) DO UPDATE SET seals = k.seals + excluded.seals RETURNING k.key, k.seals
        """)
    static let appendAudit = Statement(
        "append_audit", ["at": .integer, "actor": .text, "action": .text, "target": .text, "outcome": .text],
        "INSERT INTO audit (at, actor, action, target, outcome) VALUES (:at, :actor, :action, :target, :outcome)")
    static let time = Statement("time", [:], "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    /// Whether the server is on another machine.
    ///
    /// A server counts as local if the connection uses the server's own address, loopback or a socket file.
    static let isElsewhere = Statement(
        "is_elsewhere", [:],
        """
        SELECT coalesce(
            host(inet_server_addr()) <> host(inet_client_addr()) AND NOT inet_server_addr() <<= '127.0.0.0/8'
                AND host(inet_server_addr()) <> '::1' AND NOT inet_client_addr() <<= '127.0.0.0/8', false)
        """)
    static let version = Statement("version", [:], "SELECT max(version) FROM schema_version")

    /// Removes logins, registrations and handoffs after their keeping time.
    ///
    /// `spent` is the latest time of spent rows, and `limit` is the limit for each kind.
    static let sweepSpent = Statement(
        "sweep_spent", ["spent": .integer, "now": .integer, "limit": .integer],
        """
        WITH \(removal("logins", "state", "expires_at", ":spent")),
        \(removal("registrations", "key", "expires_at", ":spent")),
        \(removal("handoffs", "login", "kept_until", ":now"))
        SELECT (SELECT count(*) FROM gone_logins) + (SELECT count(*) FROM gone_registrations)
            + (SELECT count(*) FROM gone_handoffs)
        """)
    /// Records that a proof was used; returns a row if this was its first use.
    static let takeProof = Statement(
        "take_proof", ["name": .bytes, "until": .integer],
        "INSERT INTO taken_proofs (name, until) VALUES (:name, :until) ON CONFLICT (name) DO NOTHING RETURNING name")
    /// Deletes the record of a proof, so that the proof can be used again.
    static let returnProof = Statement("return_proof", ["name": .bytes], "DELETE FROM taken_proofs WHERE name = :name")
    /// Removes the records that keep codes, logout tokens and proofs from being used twice.
    ///
    /// The parameters are those of `sweepSpent`.
    static let sweepUsed = Statement(
        "sweep_used", ["spent": .integer, "now": .integer, "limit": .integer],
        """
        WITH \(removal("exchanges", "key", "created_at", ":spent AND kept_until IS NULL")),
        \(removal("logout_tokens", "id", "until", ":now")),
        \(removal("taken_proofs", "name", "until", ":now"))
        SELECT (SELECT count(*) FROM gone_exchanges) + (SELECT count(*) FROM gone_logout_tokens)
            + (SELECT count(*) FROM gone_taken_proofs)
        """)
    static let sweepTombstones = Statement(
        "sweep_tombstones", ["buried": .integer, "limit": .integer],
        """
        WITH due AS MATERIALIZED (
            SELECT token FROM sessions WHERE ended_at <= :buried AND ended_at IS NOT NULL AND format = 1
            ORDER BY ended_at LIMIT :limit FOR UPDATE SKIP LOCKED),
        states AS (DELETE FROM session_states WHERE token = ANY (ARRAY (SELECT token FROM due))),
        gone AS (DELETE FROM sessions WHERE token = ANY (ARRAY (SELECT token FROM due)) RETURNING token)
        SELECT count(*) FROM gone
        """)
    /// The columns that determine when and why a session has lapsed.
    private static let endColumns = "token, idle_expires_at, expires_at, token_expires_at, refreshable"
    /// The sessions that lapsed before the time `certain`, at most `limit`.
    static let lapsed = Statement(
        "lapsed", ["certain": .integer, "limit": .integer],
        """
        SELECT \(endColumns) FROM session_states
        WHERE lapse_hour <= :certain / 3600000 AND least(idle_expires_at, expires_at) <= :certain AND NOT ended AND format = 1
        ORDER BY lapse_hour LIMIT :limit
        """)
    /// Makes tombstones of the sessions in a list, each with its reason.
    ///
    /// Each row is locked and must still have lapsed before the time `certain`, because the session may have been used since
    /// it was listed.
    static let buryLapsed = Statement(
        "bury_lapsed", ["tokens": .bytesList, "reasons": .textList, "now": .integer, "certain": .integer],
        """
        WITH doomed AS MATERIALIZED (
            SELECT token, (SELECT n.reason FROM unnest(:tokens, :reasons) AS n (key, reason) WHERE n.key = token) AS reason
            FROM session_states
            WHERE token = ANY (:tokens) AND least(idle_expires_at, expires_at) <= :certain AND NOT ended AND format = 1
            ORDER BY token FOR UPDATE SKIP LOCKED),
        \(EndingSQL.steps(now: ":now"))
        SELECT count(*) FROM buried
        """)
    static let lapsedSince = Statement(
        "lapsed_since", ["now": .integer, "since": .integer, "limit": .integer],
        """
        SELECT \(endColumns) FROM session_states
        WHERE lapse_hour BETWEEN :since / 3600000 AND :now / 3600000 AND least(idle_expires_at, expires_at) <= :now
            AND least(idle_expires_at, expires_at) > :since AND NOT ended AND format = 1
        LIMIT :limit
        """)

    private static func removal(_ table: String, _ key: String, _ end: String, _ limit: String) -> String {
        """
        due_\(table) AS MATERIALIZED (
            SELECT \(key) FROM \(table) WHERE \(end) <= \(limit) AND format = 1
            ORDER BY \(end) LIMIT :limit FOR UPDATE SKIP LOCKED),
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
    /// The values of `PostgreSQLUpkeepSQL.outbox`.
    var parameters: Named<Parameter> {
        [
            "outbox_keys": .digests(map(\.id)), "outbox_bound_to": .digests(map(\.boundTo)),
            "outbox_tokens_keys": .texts(map(\.tokens.keyID)), "outbox_tokens": .bytesList(map(\.tokens.envelope)),
            "outbox_created_at": .times(map(\.createdAt)), "outbox_next_attempt_at": .times(map(\.nextAttemptAt)),
            "outbox_attempts": .integers(map(\.attempts)),
        ]
    }
}

extension AuditRow {
    /// The values of `PostgreSQLUpkeepSQL.appendAudit`.
    var parameters: Named<Parameter> {
        [
            "at": .time(at), "actor": .text(actor), "action": .text(action), "target": .text(target),
            "outcome": .text(outcome),
        ]
    }
}
