import Broker

/// The statements that move, count and reseal rows.
enum AdministrationSQL {
    /// A page of rows of a kind: each row's key, followed by its columns.
    ///
    /// `after` is the last page's last key.
    static func page(_ kind: StoredKind) -> NamedSQL {
        let (table, key, columns) = parts(kind)
        return NamedSQL(
            "SELECT \(key), \(columns) FROM \(table) WHERE \(key) > :after ORDER BY \(key) LIMIT :limit")
    }

    static func count(_ kind: StoredKind) -> NamedSQL { NamedSQL("SELECT count(*) FROM \(parts(kind).table)") }

    /// Counts the sessions that are live at a time.
    ///
    /// For a single count with the whole condition, SQLite would read every row, because each index lacks one of its columns.
    /// These three counts read only indexes, except for the rows of lapsed sessions that wait for the sweeper.
    static let liveSessions = NamedSQL(
        """
        SELECT (SELECT count(*) FROM sessions) - (SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL)
            - (SELECT count(*) FROM sessions WHERE ended_at IS NULL AND min(idle_expires_at, expires_at) <= :now)
        """)

    private static func parts(_ kind: StoredKind) -> (table: String, key: String, columns: String) {
        switch kind {
        case .logins: ("logins", "state", LoginSQL.columns)
        case .handoffs: ("handoffs", "login", HandoffSQL.columns)
        case .registrations: ("registrations", "key", RegistrationSQL.columns)
        case .exchanges: ("exchanges", "key", ExchangeSQL.columns)
        case .sessions: ("sessions", "token", "\(SessionSQL.columns), \(RefreshSQL.markColumns)")
        case .outbox: ("outbox", "key", UpkeepSQL.outboxColumns)
        case .targetTokens: ("audience_tokens", "key", TargetTokenRow.columns)
        case .importPairs: ("import_pairs", "key", ImportPair.columns)
        case .importGrants: ("import_grants", "key", "format, key, granted_at")
        case .leases: ("leases", "name", "format, name, owner, until")
        case .seals: ("key_seals", "key", "1, key, seals")
        case .audit: ("audit", "id", "format, at, actor, action, target, outcome")
        case .logoutTokens: ("logout_tokens", "id", "format, id, until")
        }
    }

    static let insertLogin = NamedSQL(LoginSQL.insert.text + " ON CONFLICT DO NOTHING")
    static let insertSession = NamedSQL(SessionSQL.insert.text + " ON CONFLICT DO NOTHING")
    static let insertHandoff = NamedSQL(
        """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES (:login, :key, :created_at, :expires_at, :kept_until, :sealed_key, :sealed) ON CONFLICT DO NOTHING
        """)
    static let insertExchange = NamedSQL(
        """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim_until, attempts, created_at, gate_kind, gate, claim,
            claim_epoch, outcome, outcome_digest, spent_reason, import_end, kept_until, pair_kept_at, refusals, first_refused_at)
        VALUES (:key, :proof, :salt, :key_id, :fence, :claim_until, :attempts, :created_at, :gate_kind, :gate, :claim,
            :claim_epoch, :outcome, :outcome_digest, :spent_reason, :import_end, :kept_until, :pair_kept_at,
            :refusals, :first_refused_at) ON CONFLICT DO NOTHING
        """)
    static let insertLogoutToken = NamedSQL(
        "INSERT INTO logout_tokens (id, until) VALUES (:id, :until) ON CONFLICT DO NOTHING")
    static let insertLease = NamedSQL(
        "INSERT INTO leases (name, owner, until) VALUES (:name, :owner, :until) ON CONFLICT DO NOTHING")
    static let insertSeals = NamedSQL("INSERT INTO key_seals (key, seals) VALUES (:key, :seals) ON CONFLICT DO NOTHING")

    /// A page of a column's sealed values: format, key, the row that the seal is bound to, the ring key, and the envelope.
    ///
    /// The envelope is left out if the ring key is `key_id`. `after` is the last page's last key.
    static func sealed(_ place: SealedPlace) -> NamedSQL {
        let at = SealedColumn(of: place)
        return NamedSQL(
            """
            SELECT format, \(at.key), \(at.boundTo), \(at.keyID), CASE WHEN \(at.keyID) <> :key_id THEN \(at.envelope) END
            FROM \(at.table) WHERE \(at.key) > :after ORDER BY \(at.key) LIMIT :limit
            """)
    }

    /// Replaces a sealed value.
    static func reseal(_ place: SealedPlace) -> NamedSQL {
        let at = SealedColumn(of: place)
        return NamedSQL(
            """
            UPDATE \(at.table) SET \(at.keyID) = :new_key, \(at.envelope) = :new
            WHERE \(at.key) = :row AND \(at.keyID) = :old_key AND \(at.envelope) = :old AND format = 1
            """)
    }

    /// A page of the numbers of sealed values under each ring key: the ring key, its number, the page's last row, the page's
    /// number of rows.
    static func use(_ place: SealedPlace) -> NamedSQL {
        let at = SealedColumn(of: place)
        return NamedSQL(
            """
            WITH page AS (SELECT id AS place, \(at.keyID) AS key FROM \(at.table) WHERE id > :after ORDER BY id LIMIT :limit)
            SELECT key, count(*), (SELECT max(place) FROM page), (SELECT count(*) FROM page) FROM page GROUP BY key
            """)
    }

    static let exchangeUse = NamedSQL(
        "SELECT key_id, count(*) FROM exchanges WHERE created_at >= :since GROUP BY key_id")
}
