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
                try database.first(AdministrationSQL.count(kind), [:]) { try $0.small() } ?? 0
            }
        }
        return counts
    }

    package func liveSessions(now: WallTime) async throws(StoreFailure) -> Int {
        try await scans.read { database in
            try database.first(AdministrationSQL.liveSessions, ["now": now.sql]) { try $0.small() } ?? 0
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
            let values: Named = ["after": start, "limit": limit.databaseValue]
            let listed = try database.rows(AdministrationSQL.page(kind), values) { columns in
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
        let values: Named = [
            "key_id": keyID.databaseValue, "after": (cursor?.bytes ?? []).sql, "limit": limit.databaseValue,
        ]
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
                            "new_key": new.keyID.databaseValue, "new": new.envelope.sql, "row": old.key.sql,
                            "old_key": old.sealed.keyID.databaseValue, "old": old.sealed.envelope.sql,
                        ])
            }
        }
    }

    package func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int] {
        var use: [String: Int] = [:]
        for place in SealedPlace.allCases {
            var last = Int64.min
            while true {
                let values: Named = ["after": last.databaseValue, "limit": Self.counted.databaseValue]
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
            try database.rows(AdministrationSQL.exchangeUse, ["since": exchangesSince.sql]) { columns in
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
        case .login(let row): try change(AdministrationSQL.insertLogin, row.values)
        case .handoff(let row): try change(AdministrationSQL.insertHandoff, row.values)
        case .registration(let row): try change(RegistrationSQL.insert, row.values)
        case .exchange(let row):
            try change(
                AdministrationSQL.insertExchange,
                row.values(clock) + row.outcome.values + ImportMarks.values(row.imported))
        case .session(let row, let marks):
            guard try change(AdministrationSQL.insertSession, row.values) == 1, row.endedAt == nil else {
                return
            }
            if let sealed = row.presence?.sealed {
                let values: Named = [
                    "presence_key": sealed.keyID.databaseValue, "presence": sealed.envelope.sql,
                    "version_step": 0.databaseValue, "token": row.tokenDigest.sql,
                ]
                try change(StepUpSQL.registerPresence, values)
            }
            let moved = marks.moved(by: clock.moment)
            let values = StoredMarks.values(row.tokenDigest, row.fence, moved, clock)
            try change(RefreshSQL.mark, values)
        case .outbox(let row): try change(UpkeepSQL.addOutbox, row.values)
        case .targetToken(let row): try change(TargetTokenSQL.insert, row.values)
        case .importPair(let pair): try change(ImportSQL.insertPair, pair.values)
        case .importGrant(let key, let time):
            try change(ImportSQL.insertGrant, ["key": key.sql, "granted_at": time.sql])
        case .logoutToken(let id, let until):
            try change(AdministrationSQL.insertLogoutToken, ["id": id.sql, "until": until.sql])
        case .lease(let name, let owner, let until):
            let values: Named = ["name": name.databaseValue, "owner": owner.databaseValue, "until": until.sql]
            try change(AdministrationSQL.insertLease, values)
        case .seals(let key, let count):
            let values: Named = ["key": key.databaseValue, "seals": count.databaseValue]
            try change(AdministrationSQL.insertSeals, values)
        case .audit(let row): try change(UpkeepSQL.appendAudit, row.values)
        }
    }
}
