package import Broker

extension PostgreSQLStore: StoreAdministration {
    /// The number of rows that one counting statement reads, because a statement may take only a few seconds.
    private static let counted = 5_000
    /// The number of rows that one transaction inserts.
    private static let inserted = 100

    package func rowCounts() async throws(StoreFailure) -> [StoredKind: Int] {
        var counts: [StoredKind: Int] = [:]
        for kind in StoredKind.allCases {
            counts[kind] = try await walk(PostgreSQLAdministrationSQL.count(kind), [:]) { rows in
                try rows.first { try $0.small() } ?? 0
            }
        }
        return counts
    }

    package func liveSessions(now: WallTime) async throws(StoreFailure) -> Int {
        try await walk(PostgreSQLAdministrationSQL.liveSessions, ["now": .time(now)]) { rows in
            try rows.first { try $0.small() } ?? 0
        }
    }

    package func rows(
        of kind: StoredKind, after cursor: [UInt8]?, limit: Int
    ) async throws(StoreFailure) -> StoredPage {
        let limit = max(limit, 1)
        let start: Parameter =
            switch kind {
            case .audit: .integer(cursor.flatMap { Int64(bigEndianBytes: $0) } ?? -1)
            case .leases, .seals: .text(String(decoding: cursor ?? [], as: UTF8.self))
            default: .bytes(cursor ?? [])
            }
        let moment: Named<Parameter> = PostgreSQLAdministrationSQL.needsMoment(kind) ? ["moment": self.moment] : [:]
        let values: Named<Parameter> = ["after": start, "limit": .integer(limit)] + moment
        return try await walk(PostgreSQLAdministrationSQL.page(kind), values) { rows in
            let listed = try rows.map { row in
                let key = kind == .audit ? try row.integer().bigEndianBytes : try row.bytes()
                return (key: key, row: try? StoredRow(kind, &row))
            }
            let found = listed.compactMap(\.row)
            return StoredPage(
                rows: found, next: listed.count < limit ? nil : listed.last?.key,
                unreadable: listed.count - found.count)
        }
    }

    package func insert(_ rows: [StoredRow]) async throws(StoreFailure) {
        let statements = try rows.map { row throws(StoreFailure) in try row.insertion(moment) }
        var index = 0
        while index < statements.count {
            let end = min(index + Self.inserted, statements.count)
            try await run(lanes.writes, Array(statements[index..<end]), isWrite: true) { _ in () }
            index = end
        }
    }

    package func sealedRows(
        of place: SealedPlace, notUnder keyID: String, after cursor: Digest?, limit: Int
    ) async throws(StoreFailure) -> SealedPage {
        let limit = max(limit, 1)
        let values: Named<Parameter> = [
            "key_id": .text(keyID), "after": .bytes(cursor?.bytes ?? []), "limit": .integer(limit),
        ]
        return try await walk(PostgreSQLAdministrationSQL.sealed(place), values) { rows in
            SealedPage(try rows.map { try $0.sealedValue(of: place) }, limit: limit)
        }
    }

    package func reseal(_ rows: [ResealedRow]) async throws(StoreFailure) -> Int {
        var count = 0
        for place in SealedPlace.allCases {
            // All replicas lock the rows in the order of their keys. Otherwise two replicas could wait for each other's rows.
            let rows = rows.filter { $0.old.place == place }
                .sorted { $0.old.key.bytes.lexicographicallyPrecedes($1.old.key.bytes) }
            guard !rows.isEmpty else { continue }
            // A session's ending locks its tokens for other APIs in another order. So reseal each of these tokens in a transaction
            // of its own.
            for batch in place == .targetTokens ? rows.map({ [$0] }) : [rows] {
                count += try await reseal(place, batch)
            }
        }
        return count
    }

    private func reseal(_ place: SealedPlace, _ rows: [ResealedRow]) async throws(StoreFailure) -> Int {
        let values: Named<Parameter> = [
            "rows": .digests(rows.map(\.old.key)), "old_keys": .texts(rows.map(\.old.sealed.keyID)),
            "old": .bytesList(rows.map(\.old.sealed.envelope)), "new_keys": .texts(rows.map(\.new.keyID)),
            "new": .bytesList(rows.map(\.new.envelope)),
        ]
        return try await walk(PostgreSQLAdministrationSQL.reseal(place), values, isWrite: true) { $0.count }
    }

    package func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int] {
        var use: [String: Int] = [:]
        for place in SealedPlace.allCases {
            var last: [UInt8] = []
            while true {
                let values: Named<Parameter> = ["after": .bytes(last), "limit": .integer(Self.counted)]
                let page = try await walk(PostgreSQLAdministrationSQL.use(place), values) { rows in
                    try rows.map { (try $0.optionalText(), try $0.small(), try $0.bytes(), try $0.small()) }
                }
                for (key, count, _, _) in page { if let key { use[key, default: 0] += count } }
                guard let (_, _, end, seen) = page.first, seen == Self.counted else { break }
                last = end
            }
        }
        let exchanges = try await walk(
            PostgreSQLAdministrationSQL.exchangeUse, ["since": .time(exchangesSince)]
        ) { rows in
            try rows.map { (try $0.text(), try $0.small()) }
        }
        for (key, count) in exchanges { use[key, default: 0] += count }
        return use
    }
}

extension StoredRow {
    /// Reads the columns of `PostgreSQLAdministrationSQL.page` after the key.
    init(_ kind: StoredKind, _ columns: inout RowReader) throws {
        try self.init(kind, &columns) { columns in
            try ExchangeRow(&columns)
        } marks: { columns in
            try RefreshMarks(&columns)
        }
    }

    /// Returns the statement that inserts the row; `moment` is the time by the engine's clock.
    func insertion(_ moment: Parameter) throws(StoreFailure) -> BoundStatement {
        typealias SQL = PostgreSQLAdministrationSQL
        let (statement, values): (Statement, Named<Parameter>) =
            switch self {
            case .login(let row): (SQL.insertLogin, row.parameters)
            case .handoff(let row): (SQL.insertHandoff, row.parameters)
            case .registration(let row):
                (SQL.insertRegistration, row.parameters + ["exchange": .digest(row.exchange)])
            case .exchange(let row):
                (
                    SQL.insertExchange,
                    row.claimParameters + row.gate.parameters + ["moment": moment] + row.outcome.parameters
                        + ImportMarks.parameters(row.imported)
                )
            case .session(let row, let marks):
                (
                    SQL.insertSession,
                    row.parameters + marks.parameters + ["moment": moment] + Lineage.parameters(row.lineage)
                        + [
                            "presence_key": .text(row.presence?.sealed.keyID),
                            "presence": .bytes(row.presence?.sealed.envelope), "version": .integer(row.version),
                            "exported": .truth(row.endReason == .exported),
                        ]
                )
            case .outbox(let row): (PostgreSQLUpkeepSQL.addOutbox, [row].parameters)
            case .targetToken(let row): (PostgreSQLTargetTokenSQL.insert, row.parameters)
            case .importPair(let pair): (PostgreSQLImportSQL.insertPair, pair.parameters)
            case .importGrant(let key, let time):
                (PostgreSQLImportSQL.insertGrant, ["key": .digest(key), "granted_at": .time(time)])
            case .logoutToken(let id, let until):
                (SQL.insertLogoutToken, ["id": .digest(id), "until": .time(until)])
            case .lease(let name, let owner, let until):
                (SQL.insertLease, ["name": .text(name), "owner": .text(owner), "until": .time(until)])
            case .seals(let key, let count): (SQL.insertSeals, ["key": .text(key), "seals": .integer(count)])
            case .audit(let row): (PostgreSQLUpkeepSQL.appendAudit, row.parameters)
            }
        return try BoundStatement(statement, values)
    }
}

extension RefreshMarks {
    /// Reads the columns that follow a session's in `PostgreSQLAdministrationSQL.page`.
    fileprivate init(_ columns: inout RowReader) throws {
        self.init()
        claim = columns.optionalBytes().flatMap { ClaimID($0) }
        claimUntil = columns.optionalDuration()
        takenOverAt = columns.optionalDuration()
        takenOverBefore = try columns.truth()
        answerLost = try columns.truth()
        holdUntil = columns.optionalDuration()
        emptyRefusals = try columns.small()
        firstEmptyAt = columns.optionalDuration()
    }

    /// The values of the marks in `PostgreSQLAdministrationSQL.insertSession`.
    fileprivate var parameters: Named<Parameter> {
        [
            "claim": .bytes(claim?.bytes), "claim_until": .duration(claimUntil),
            "taken_over_at": .duration(takenOverAt),
            "taken_over_before": .truth(takenOverBefore), "answer_lost": .truth(answerLost),
            "hold_until": .duration(holdUntil), "empty_refusals": .integer(emptyRefusals),
            "first_empty_at": .duration(firstEmptyAt),
        ]
    }
}
