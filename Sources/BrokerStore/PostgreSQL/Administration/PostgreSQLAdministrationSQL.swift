import Broker

/// The statements that move, count and reseal rows in PostgreSQL.
enum PostgreSQLAdministrationSQL {
    /// Counts the sessions that are live at a time.
    ///
    /// Sessions that lapse in a later hour are counted by an index alone. Only the rows of the hour that contains the time
    /// are read.
    static let liveSessions = Statement(
        "live_sessions", "i",
        """
        SELECT (SELECT count(*) FROM session_states WHERE lapse_hour > $1 / 3600000 AND NOT ended)
            + (SELECT count(*) FROM session_states WHERE lapse_hour = $1 / 3600000
                AND least(idle_expires_at, expires_at) > $1 AND NOT ended)
        """)

    /// A page of rows of a kind: each row's key, followed by its columns.
    ///
    /// Values: the last page's last key, the limit and the moment.
    static func page(_ kind: StoredKind) -> Statement {
        let (from, key, columns) = parts(kind)
        let type =
            switch kind {
            case .audit: "i"
            case .leases, .seals: "t"
            default: "b"
            }
        let moment = needsMoment(kind)
        // Sort names by their bytes, as every engine does.
        let order = type == "t" ? "\(key) COLLATE \"C\"" : key
        let place = type == "b" ? after(key, 1) : "\(order) > $1"
        return Statement(
            "admin_page_\(kind.rawValue)", type + "i" + (moment ? "i" : ""),
            "SELECT \(key), \(columns) FROM \(from) WHERE \(place) ORDER BY \(order) LIMIT $2")
    }

    /// The condition that a digest comes after the digest in a parameter.
    ///
    /// The upper bound is true for all digests and exists only for the planner. With the lower bound alone, the planner
    /// expects a third of the table, and would read and sort the whole table for one page. With two bounds, the planner
    /// expects few rows.
    private static func after(_ key: String, _ number: Int) -> String {
        "\(key) > $\(number) AND \(key) < '\\x\(String(repeating: "ff", count: 33))'"
    }

    /// Whether a page of this kind includes claims, whose remaining time depends on the server's time.
    static func needsMoment(_ kind: StoredKind) -> Bool { kind == .exchanges || kind == .sessions }

    static func count(_ kind: StoredKind) -> Statement {
        Statement("admin_count_\(kind.rawValue)", "", "SELECT count(*) FROM \(table(kind))")
    }

    private static func table(_ kind: StoredKind) -> String { kind == .seals ? "key_seals" : kind.rawValue }

    private static func parts(_ kind: StoredKind) -> (from: String, key: String, columns: String) {
        let moment = EngineClock.moment(3)
        return switch kind {
        case .logins: ("logins", "state", PostgreSQLLoginSQL.columns)
        case .handoffs: ("handoffs", "login", PostgreSQLLoginSQL.handoffColumns)
        case .registrations: ("registrations", "key", PostgreSQLLoginSQL.registrationColumns)
        case .exchanges: ("exchanges e", "e.key", PostgreSQLExchangeSQL.columns("e", moment))
        case .sessions:
            (
                PostgreSQLSessionSQL.walked, "s.token",
                """
                \(PostgreSQLSessionSQL.columns), st.claim, st.claim_until - \(moment), st.taken_over_at - \(moment), \
                st.taken_over_before, st.answer_lost, st.hold_until - \(moment), st.empty_refusals, \
                st.first_empty_at - \(moment)
                """
            )
        case .outbox: ("outbox o", "o.key", PostgreSQLUpkeepSQL.outboxColumns)
        case .targetTokens: ("audience_tokens", "key", TargetTokenRow.columns)
        case .leases: ("leases", "name", "format, name, owner, until")
        case .seals: ("key_seals", "key", "1, key, seals")
        case .audit: ("audit", "id", "format, at, actor, action, target, outcome")
        case .logoutTokens: ("logout_tokens", "id", "format, id, until")
        }
    }

    static let insertLogin = Statement(
        "admin_insert_login", "bbtiiibtb",
        """
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING
        """)
    static let insertHandoff = Statement(
        "admin_insert_handoff", "bbiiitb",
        """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING
        """)
    static let insertRegistration = Statement(
        "admin_insert_registration", "bbiiiitbb",
        """
        INSERT INTO registrations
            (key, login_token, created_at, expires_at, status, attempts, sealed_key, sealed, exchange)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING
        """)
    static let insertExchange = Statement(
        "admin_insert_exchange", "bbbtibiiiibiibi",
        """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim, claim_until, attempts, created_at, gate_kind, gate,
            outcome, outcome_digest, spent_reason)
        VALUES ($1, $2, $3, $4, $5, $6, \(EngineClock.moment(12)) + $7, $8, $9, $10, $11, $13, $14, $15)
        ON CONFLICT DO NOTHING
        """)
    static let insertSession = Statement(
        "admin_insert_session", "btbbbbbiittbtb" + "iiiioiioo" + "biiooiii" + "i" + "bb" + "tb" + "i",
        """
        WITH inserted AS (
            INSERT INTO sessions (\(PostgreSQLSessionSQL.insertedColumns), parent, place, presence_key,
                presence)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $33, $34, $35, $36)
            ON CONFLICT DO NOTHING RETURNING token)
        INSERT INTO session_states (token, last_used_at, idle_expires_at, expires_at, token_expires_at, refreshable,
            token_version, fence, subject_unchecked, ended, claim, claim_until, taken_over_at, taken_over_before,
            answer_lost, hold_until, empty_refusals, first_empty_at, version)
        SELECT token, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, \(EngineClock.moment(32)) + $25,
            \(EngineClock.moment(32)) + $26, $27, $28, \(EngineClock.moment(32)) + $29, $30,
            \(EngineClock.moment(32)) + $31, $37
        FROM inserted
        """)
    static let insertLogoutToken = Statement(
        "admin_insert_logout_token", "bi",
        "INSERT INTO logout_tokens (id, until) VALUES ($1, $2) ON CONFLICT DO NOTHING")
    static let insertLease = Statement(
        "admin_insert_lease", "tti",
        "INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
    static let insertSeals = Statement(
        "admin_insert_seals", "ti", "INSERT INTO key_seals (key, seals) VALUES ($1, $2) ON CONFLICT DO NOTHING")

    /// A page of a column's sealed values: format, key, the row that the seal is bound to, the ring key, and the envelope.
    ///
    /// The envelope is left out if the ring key is the first value. Further values: the last page's last key and the limit.
    static func sealed(_ place: SealedPlace) -> Statement {
        let at = SealedColumn(of: place)
        return Statement(
            "admin_sealed_\(place.rawValue)", "tbi",
            """
            SELECT format, \(at.key), \(at.boundTo), \(at.keyID), CASE WHEN \(at.keyID) <> $1 THEN \(at.envelope) END
            FROM \(at.table) WHERE \(after(at.key, 2)) ORDER BY \(at.key) LIMIT $3
            """)
    }

    /// Replaces sealed values.
    ///
    /// Values, as lists: the rows' keys, old ring keys and envelopes, new ring keys and envelopes.
    static func reseal(_ place: SealedPlace) -> Statement {
        let at = SealedColumn(of: place)
        return Statement(
            "admin_reseal_\(place.rawValue)", "BTBTB",
            """
            UPDATE \(at.table) t SET \(at.keyID) = n.new_key, \(at.envelope) = n.new
            FROM unnest($1, $2, $3, $4, $5) AS n (row, old_key, old, new_key, new)
            WHERE t.\(at.key) = n.row AND t.\(at.keyID) = n.old_key AND t.\(at.envelope) = n.old AND t.format = 1
            RETURNING t.\(at.key)
            """)
    }

    /// A page of the numbers of sealed values under each ring key: the ring key, its number, the page's last row, the page's
    /// number of rows.
    static func use(_ place: SealedPlace) -> Statement {
        let at = SealedColumn(of: place)
        return Statement(
            "admin_use_\(place.rawValue)", "bi",
            """
            WITH page AS MATERIALIZED (
                SELECT \(at.key) AS place, \(at.keyID) AS key FROM \(at.table) WHERE \(after(at.key, 1)) ORDER BY \(at.key) LIMIT $2)
            SELECT key, count(*), (SELECT place FROM page ORDER BY place DESC LIMIT 1), (SELECT count(*) FROM page)
            FROM page GROUP BY key
            """)
    }

    static let exchangeUse = Statement(
        "admin_use_exchanges", "i", "SELECT key_id, count(*) FROM exchanges WHERE created_at >= $1 GROUP BY key_id")
}
