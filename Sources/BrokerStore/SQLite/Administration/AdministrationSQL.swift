import Broker

/// The statements that move, count and reseal rows.
enum AdministrationSQL {
    /// A page of rows of a kind: each row's key, followed by its columns.
    ///
    /// Values: the last page's last key and the limit.
    static func page(_ kind: StoredKind) -> String {
        let (table, key, columns) = parts(kind)
        return "SELECT \(key), \(columns) FROM \(table) WHERE \(key) > ? ORDER BY \(key) LIMIT ?"
    }

    static func count(_ kind: StoredKind) -> String { "SELECT count(*) FROM \(parts(kind).table)" }

    /// Counts the sessions that are live at a time.
    ///
    /// For a single count with the whole condition, SQLite would read every row, because each index lacks one of its columns.
    /// These three counts read only indexes, except for the rows of lapsed sessions that wait for the sweeper.
    static let liveSessions = """
        SELECT (SELECT count(*) FROM sessions) - (SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL)
            - (SELECT count(*) FROM sessions WHERE ended_at IS NULL AND min(idle_expires_at, expires_at) <= ?1)
        """

    private static func parts(_ kind: StoredKind) -> (table: String, key: String, columns: String) {
        switch kind {
        case .logins: ("logins", "state", LoginSQL.columns)
        case .handoffs: ("handoffs", "login", HandoffSQL.columns)
        case .registrations: ("registrations", "key", RegistrationSQL.columns)
        case .exchanges: ("exchanges", "key", ExchangeSQL.columns)
        case .sessions: ("sessions", "token", "\(SessionSQL.columns), \(RefreshSQL.markColumns)")
        case .outbox: ("outbox", "key", UpkeepSQL.outboxColumns)
        case .targetTokens: ("audience_tokens", "key", TargetTokenRow.columns)
        case .leases: ("leases", "name", "format, name, owner, until")
        case .seals: ("key_seals", "key", "1, key, seals")
        case .audit: ("audit", "id", "format, at, actor, action, target, outcome")
        case .logoutTokens: ("logout_tokens", "id", "format, id, until")
        }
    }

    static let insertHandoff = """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
        """
    static let insertExchange = """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim_until, attempts, created_at, gate_kind, gate, claim,
            claim_epoch, outcome, outcome_digest, spent_reason)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
        """
    static let insertLogoutToken = "INSERT INTO logout_tokens (id, until) VALUES (?, ?) ON CONFLICT DO NOTHING"
    static let insertLease = "INSERT INTO leases (name, owner, until) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    static let insertSeals = "INSERT INTO key_seals (key, seals) VALUES (?, ?) ON CONFLICT DO NOTHING"

    /// A page of a column's sealed values: format, key, the row that the seal is bound to, the ring key, and the envelope.
    ///
    /// The envelope is left out if the ring key is the first value. Further values: the last page's last key and the limit.
    static func sealed(_ place: SealedPlace) -> String {
        let at = SealedColumn(of: place)
        return """
            SELECT format, \(at.key), \(at.boundTo), \(at.keyID), CASE WHEN \(at.keyID) <> ?1 THEN \(at.envelope) END
            FROM \(at.table) WHERE \(at.key) > ?2 ORDER BY \(at.key) LIMIT ?3
            """
    }

    /// Replaces a sealed value.
    ///
    /// Values: new ring key, new envelope, the row's key, old ring key, old envelope.
    static func reseal(_ place: SealedPlace) -> String {
        let at = SealedColumn(of: place)
        return """
            UPDATE \(at.table) SET \(at.keyID) = ?1, \(at.envelope) = ?2
            WHERE \(at.key) = ?3 AND \(at.keyID) = ?4 AND \(at.envelope) = ?5 AND format = 1
            """
    }

    /// A page of the numbers of sealed values under each ring key: the ring key, its number, the page's last row, the page's
    /// number of rows.
    static func use(_ place: SealedPlace) -> String {
        let at = SealedColumn(of: place)
        return """
            WITH page AS (SELECT id AS place, \(at.keyID) AS key FROM \(at.table) WHERE id > ?1 ORDER BY id LIMIT ?2)
            SELECT key, count(*), (SELECT max(place) FROM page), (SELECT count(*) FROM page) FROM page GROUP BY key
            """
    }

    static let exchangeUse = "SELECT key_id, count(*) FROM exchanges WHERE created_at >= ? GROUP BY key_id"
}
