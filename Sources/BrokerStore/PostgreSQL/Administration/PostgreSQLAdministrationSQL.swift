import Broker

/// The statements that move, count and reseal rows in PostgreSQL.
enum PostgreSQLAdministrationSQL {
    /// Counts the sessions that are live at a time.
    ///
    /// Sessions that lapse in a later hour are counted by an index alone. Only the rows of the hour that contains the time
    /// are read.
    static let liveSessions = Statement(
        "live_sessions", ["now": .integer],
        """
        SELECT (SELECT count(*) FROM session_states WHERE lapse_hour > :now / 3600000 AND NOT ended)
            + (SELECT count(*) FROM session_states WHERE lapse_hour = :now / 3600000
                AND least(idle_expires_at, expires_at) > :now AND NOT ended)
        """)

    /// A page of rows of a kind: each row's key, followed by its columns.
    ///
    /// `after` is the last page's last key.
    static func page(_ kind: StoredKind) -> Statement {
        let (from, key, columns) = parts(kind)
        let type: ParameterType =
            switch kind {
            case .audit: .integer
            case .leases, .seals: .text
            default: .bytes
            }
        // Sort names by their bytes, as every engine does.
        let order = type == .text ? "\(key) COLLATE \"C\"" : key
        let place = type == .bytes ? after(key) : "\(order) > :after"
        return Statement(
            "admin_page_\(kind.rawValue)",
            ["after": type, "limit": .integer] + (needsMoment(kind) ? ["moment": .integer] : [:]),
            "SELECT \(key), \(columns) FROM \(from) WHERE \(place) ORDER BY \(order) LIMIT :limit")
    }

    /// The condition that a digest comes after the digest in the parameter `after`.
    ///
    /// The upper bound is true for all digests and exists only for the planner. With the lower bound alone, the planner
    /// expects a third of the table, and would read and sort the whole table for one page. With two bounds, the planner
    /// expects few rows.
    private static func after(_ key: String) -> String {
        "\(key) > :after AND \(key) < '\\x\(String(repeating: "ff", count: 33))'"
    }

    /// Whether a page of this kind includes claims, whose remaining time depends on the server's time.
    static func needsMoment(_ kind: StoredKind) -> Bool { kind == .exchanges || kind == .sessions }

    static func count(_ kind: StoredKind) -> Statement {
        Statement("admin_count_\(kind.rawValue)", [:], "SELECT count(*) FROM \(table(kind))")
    }

    private static func table(_ kind: StoredKind) -> String { kind == .seals ? "key_seals" : kind.rawValue }

    private static func parts(_ kind: StoredKind) -> (from: String, key: String, columns: String) {
        let moment = EngineClock.moment
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
        case .importPairs: ("import_pairs", "key", ImportPair.columns)
        case .importGrants: ("import_grants", "key", "format, key, granted_at")
        case .leases: ("leases", "name", "format, name, owner, until")
        case .seals: ("key_seals", "key", "1, key, seals")
        case .audit: ("audit", "id", "format, at, actor, action, target, outcome")
        case .logoutTokens: ("logout_tokens", "id", "format, id, until")
        }
    }

    static let insertLogin = Statement(
        "admin_insert_login",
        [
            "state": .bytes, "login_token": .bytes, "login_id": .text, "created_at": .integer, "expires_at": .integer,
            "status": .integer, "exchange": .bytes, "sealed_key": .text, "sealed": .bytes,
        ],
        """
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed)
        VALUES (:state, :login_token, :login_id, :created_at, :expires_at, :status, :exchange, :sealed_key, :sealed)
            ON CONFLICT DO NOTHING
        """)
    static let insertHandoff = Statement(
        "admin_insert_handoff",
        [
            "login": .bytes, "key": .bytes, "created_at": .integer, "expires_at": .integer, "kept_until": .integer,
            "sealed_key": .text, "sealed": .bytes,
        ],
        """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES (:login, :key, :created_at, :expires_at, :kept_until, :sealed_key, :sealed) ON CONFLICT DO NOTHING
        """)
    static let insertRegistration = Statement(
        "admin_insert_registration",
        [
            "key": .bytes, "login_token": .bytes, "created_at": .integer, "expires_at": .integer, "status": .integer,
            "attempts": .integer, "sealed_key": .text, "sealed": .bytes, "exchange": .bytes,
        ],
        """
        INSERT INTO registrations
            (key, login_token, created_at, expires_at, status, attempts, sealed_key, sealed, exchange)
        VALUES (:key, :login_token, :created_at, :expires_at, :status, :attempts, :sealed_key, :sealed, :exchange)
            ON CONFLICT DO NOTHING
        """)
    static let insertExchange = Statement(
        "admin_insert_exchange",
        [
            "key": .bytes, "proof": .bytes, "salt": .bytes, "key_id": .text, "fence": .integer, "claim": .bytes,
            "lifetime": .integer, "attempts": .integer, "created_at": .integer, "gate_kind": .integer, "gate": .bytes,
            "moment": .integer, "outcome": .integer, "outcome_digest": .bytes, "spent_reason": .integer,
            "kept_until": .integer, "pair_kept_at": .integer, "refusals": .integer, "first_refused_at": .integer,
            "import_end": .integer,
        ],
        """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim, claim_until, attempts, created_at, gate_kind, gate,
            outcome, outcome_digest, spent_reason, import_end, kept_until, pair_kept_at, refusals, first_refused_at)
        VALUES (:key, :proof, :salt, :key_id, :fence, :claim, \(EngineClock.moment) + :lifetime, :attempts, :created_at,
            :gate_kind, :gate, :outcome, :outcome_digest, :spent_reason, :import_end, :kept_until, :pair_kept_at,
            :refusals, :first_refused_at)
        ON CONFLICT DO NOTHING
        """)
    static let insertSession = Statement(
        "admin_insert_session",
        PostgreSQLSessionSQL.inserted + [
            "claim": .bytes, "claim_until": .integer, "taken_over_at": .integer, "taken_over_before": .truth,
            "answer_lost": .truth, "hold_until": .integer, "empty_refusals": .integer, "first_empty_at": .integer,
            "moment": .integer, "parent": .bytes, "place": .bytes, "presence_key": .text, "presence": .bytes,
            "version": .integer, "exported": .truth,
        ],
        """
        WITH inserted AS (
            INSERT INTO sessions (\(PostgreSQLSessionSQL.insertedColumns), parent, place, presence_key,
                presence, exported)
            VALUES (\(PostgreSQLSessionSQL.insertedValues), :parent, :place, :presence_key, :presence,
                :exported)
            ON CONFLICT DO NOTHING RETURNING token)
        INSERT INTO session_states (token, last_used_at, idle_expires_at, expires_at, token_expires_at, refreshable,
            token_version, fence, subject_unchecked, ended, claim, claim_until, taken_over_at, taken_over_before,
            answer_lost, hold_until, empty_refusals, first_empty_at, version)
        SELECT token, \(PostgreSQLSessionSQL.insertedState), :claim, \(EngineClock.moment) + :claim_until,
            \(EngineClock.moment) + :taken_over_at, :taken_over_before, :answer_lost, \(EngineClock.moment) + :hold_until,
            :empty_refusals, \(EngineClock.moment) + :first_empty_at, :version
        FROM inserted
        """)
    static let insertLogoutToken = Statement(
        "admin_insert_logout_token", ["id": .bytes, "until": .integer],
        "INSERT INTO logout_tokens (id, until) VALUES (:id, :until) ON CONFLICT DO NOTHING")
    static let insertLease = Statement(
        "admin_insert_lease", ["name": .text, "owner": .text, "until": .integer],
        "INSERT INTO leases (name, owner, until) VALUES (:name, :owner, :until) ON CONFLICT DO NOTHING")
    static let insertSeals = Statement(
        "admin_insert_seals", ["key": .text, "seals": .integer],
        "INSERT INTO key_seals (key, seals) VALUES (:key, :seals) ON CONFLICT DO NOTHING")

    /// A page of a column's sealed values: format, key, the row that the seal is bound to, the ring key, and the envelope.
    ///
    /// The envelope is left out if the ring key is `key_id`. `after` is the last page's last key.
    static func sealed(_ place: SealedPlace) -> Statement {
        let at = SealedColumn(of: place)
        return Statement(
            "admin_sealed_\(place.rawValue)", ["key_id": .text, "after": .bytes, "limit": .integer],
            """
            SELECT format, \(at.key), \(at.boundTo), \(at.keyID), CASE WHEN \(at.keyID) <> :key_id THEN \(at.envelope) END
            FROM \(at.table) WHERE \(after(at.key)) ORDER BY \(at.key) LIMIT :limit
            """)
    }

    /// Replaces sealed values; each parameter is a list.
    static func reseal(_ place: SealedPlace) -> Statement {
        let at = SealedColumn(of: place)
        return Statement(
            "admin_reseal_\(place.rawValue)",
            ["rows": .bytesList, "old_keys": .textList, "old": .bytesList, "new_keys": .textList, "new": .bytesList],
            """
            UPDATE \(at.table) t SET \(at.keyID) = n.new_key, \(at.envelope) = n.new
            FROM unnest(:rows, :old_keys, :old, :new_keys, :new) AS n (row, old_key, old, new_key, new)
            WHERE t.\(at.key) = n.row AND t.\(at.keyID) = n.old_key AND t.\(at.envelope) = n.old AND t.format = 1
            RETURNING t.\(at.key)
            """)
    }

    /// A page of the numbers of sealed values under each ring key: the ring key, its number, the page's last row, the page's
    /// number of rows.
    static func use(_ place: SealedPlace) -> Statement {
        let at = SealedColumn(of: place)
        return Statement(
            "admin_use_\(place.rawValue)", ["after": .bytes, "limit": .integer],
            """
            WITH page AS MATERIALIZED (
                SELECT \(at.key) AS place, \(at.keyID) AS key FROM \(at.table)
                    WHERE \(after(at.key)) ORDER BY \(at.key) LIMIT :limit)
            SELECT key, count(*), (SELECT place FROM page ORDER BY place DESC LIMIT 1), (SELECT count(*) FROM page)
            FROM page GROUP BY key
            """)
    }

    static let exchangeUse = Statement(
        "admin_use_exchanges", ["since": .integer],
        "SELECT key_id, count(*) FROM exchanges WHERE created_at >= :since GROUP BY key_id")
}
