package import Broker
import GRDB

extension SQLiteStore: StoreAdministration {
    /// The number of rows that one read of a count covers.
    ///
    /// Between two such reads, other reads can run.
    private static let counted = 20_000

    package func rowCounts() async throws(StoreFailure) -> [StoredKind: Int] {
        var counts: [StoredKind: Int] = [:]
        for kind in StoredKind.allCases {
            counts[kind] = try await scans.read { database in
                try database.first(AdministrationSQL.count(kind), []) { try $0.small() } ?? 0
            }
        }
        return counts
    }

    package func liveSessions(now: WallTime) async throws(StoreFailure) -> Int {
        try await scans.read { database in
            try database.first(AdministrationSQL.liveSessions, [now.sql]) { try $0.small() } ?? 0
        }
    }

    package func rows(
        of kind: StoredKind, after cursor: [UInt8]?, limit: Int
    ) async throws(StoreFailure) -> StoredPage {
        let limit = max(limit, 1)
        let clock = claimClock()
        let start: DatabaseValue =
            switch kind {
            case .audit: (cursor.flatMap { Int64(bigEndianBytes: $0) } ?? .min).databaseValue
            case .leases, .seals: String(decoding: cursor ?? [], as: UTF8.self).databaseValue
            default: (cursor ?? []).sql
            }
        return try await scans.read { database in
            let listed = try database.rows(AdministrationSQL.page(kind), [start, limit.databaseValue]) { columns in
                let key: [UInt8] =
                    switch kind {
                    case .audit: try columns.integer().bigEndianBytes
                    case .leases, .seals: Array(try columns.text().utf8)
                    default: try columns.bytes()
                    }
                return (key: key, row: try? StoredRow(kind, &columns, clock))
            }
            let rows = listed.compactMap(\.row)
            return StoredPage(
                rows: rows, next: listed.count < limit ? nil : listed.last?.key, unreadable: listed.count - rows.count)
        }
    }

    package func insert(_ rows: [StoredRow]) async throws(StoreFailure) {
        let clock = claimClock()
        try await writer.write { database in
            for row in rows { try database.insert(row, clock) }
        }
        pendingLogins.invalidate()
    }

    package func sealedRows(
        of place: SealedPlace, notUnder keyID: String, after cursor: Digest?, limit: Int
    ) async throws(StoreFailure) -> SealedPage {
        let limit = max(limit, 1)
        let values = [keyID.databaseValue, (cursor?.bytes ?? []).sql, limit.databaseValue]
        return try await scans.read { database in
            let listed = try database.rows(AdministrationSQL.sealed(place), values) { try $0.sealedValue(of: place) }
            return SealedPage(listed, limit: limit)
        }
    }

    package func reseal(_ rows: [ResealedRow]) async throws(StoreFailure) -> Int {
        guard !rows.isEmpty else { return 0 }
        return try await writer.write { database in
            try rows.reduce(0) { count, row in
                let (old, new) = (row.old, row.new)
                return try count
                    + database.change(
                        AdministrationSQL.reseal(old.place),
                        [
                            new.keyID.databaseValue, new.envelope.sql, old.key.sql, old.sealed.keyID.databaseValue,
                            old.sealed.envelope.sql,
                        ])
            }
        }
    }

    package func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int] {
        var use: [String: Int] = [:]
        for place in SealedPlace.allCases {
            var last = Int64.min
            while true {
                let values = [last.databaseValue, Self.counted.databaseValue]
                let page = try await scans.read { database in
                    try database.rows(AdministrationSQL.use(place), values) { columns in
                        (columns.optionalText(), try columns.small(), try columns.integer(), try columns.small())
                    }
                }
                for (key, count, _, _) in page { if let key { use[key, default: 0] += count } }
                guard let (_, _, end, seen) = page.first, seen == Self.counted else { break }
                last = end
            }
        }
        let exchanges = try await scans.read { database in
            try database.rows(AdministrationSQL.exchangeUse, [exchangesSince.sql]) { columns in
                (try columns.text(), try columns.small())
            }
        }
        for (key, count) in exchanges { use[key, default: 0] += count }
        return use
    }
}

extension StoredRow {
    /// Reads the columns of `AdministrationSQL.page` after the key.
    fileprivate init(_ kind: StoredKind, _ columns: inout Columns, _ clock: ClaimClock) throws {
        try self.init(kind, &columns) { columns in
            try ExchangeRow(&columns, clock)
        } marks: { columns in
            try StoredMarks(&columns, clock).marks.moved(by: .zero - clock.moment)
        }
    }
}

extension Database {
    fileprivate func insert(_ row: StoredRow, _ clock: ClaimClock) throws {
        switch row {
        case .login(let row): try change(LoginSQL.insert + " ON CONFLICT DO NOTHING", row.values)
        case .handoff(let row): try change(AdministrationSQL.insertHandoff, row.values)
        case .registration(let row): try change(RegistrationSQL.insert, row.values)
        case .exchange(let row):
            try change(AdministrationSQL.insertExchange, row.values(clock) + row.outcome.values)
        case .session(let row, let marks):
            guard try change(SessionSQL.insert + " ON CONFLICT DO NOTHING", row.values) == 1, row.endedAt == nil else {
                return
            }
            if let sealed = row.presence?.sealed {
                let values = [
                    row.tokenDigest.sql, sealed.keyID.databaseValue, sealed.envelope.sql, 0.databaseValue,
                ]
                try change(SessionSQL.registerPresence, values)
            }
            let moved = marks.moved(by: clock.moment)
            let values = StoredMarks.values(row.tokenDigest, row.fence, moved, clock)
            try change(SessionSQL.mark, values)
        case .outbox(let row): try change(MaintenanceSQL.addOutbox, row.values)
        case .targetToken(let row): try change(TargetTokenSQL.insert, row.values)
        case .logoutToken(let id, let until): try change(AdministrationSQL.insertLogoutToken, [id.sql, until.sql])
        case .lease(let name, let owner, let until):
            try change(AdministrationSQL.insertLease, [name.databaseValue, owner.databaseValue, until.sql])
        case .seals(let key, let count):
            try change(AdministrationSQL.insertSeals, [key.databaseValue, count.databaseValue])
        case .audit(let row): try change(MaintenanceSQL.appendAudit, row.values)
        }
    }
}

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
        case .sessions: ("sessions", "token", "\(SessionSQL.columns), \(SessionSQL.markColumns)")
        case .outbox: ("outbox", "key", MaintenanceSQL.outboxColumns)
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
