package import Broker

extension PostgreSQLStore: StoreAdministration {
    /// The number of rows that one counting statement reads, because a statement may take only a few seconds.
    private static let counted = 5_000
    /// The number of rows that one transaction inserts.
    private static let inserted = 100

    package func rowCounts() async throws(StoreFailure) -> [StoredKind: Int] {
        var counts: [StoredKind: Int] = [:]
        for kind in StoredKind.allCases {
            counts[kind] = try await walk(PostgreSQLAdministrationSQL.count(kind), []) { rows in
                try rows.first { try $0.small() } ?? 0
            }
        }
        return counts
    }

    package func liveSessions(now: WallTime) async throws(StoreFailure) -> Int {
        try await walk(PostgreSQLAdministrationSQL.liveSessions, [.time(now)]) { rows in
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
            default: .bytes(cursor ?? [])
            }
        let moment = PostgreSQLAdministrationSQL.needsMoment(kind) ? [self.moment] : []
        return try await walk(PostgreSQLAdministrationSQL.page(kind), [start, .integer(limit)] + moment) { rows in
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
        let statements = rows.map { $0.insertion(moment) }
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
        let values: [Parameter] = [.text(keyID), .bytes(cursor?.bytes ?? []), .integer(limit)]
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
        let values: [Parameter] = [
            .list(of: .bytes, rows.map { .digest($0.old.key) }),
            .list(of: .text, rows.map { .text($0.old.sealed.keyID) }),
            .list(of: .bytes, rows.map { .bytes($0.old.sealed.envelope) }),
            .list(of: .text, rows.map { .text($0.new.keyID) }),
            .list(of: .bytes, rows.map { .bytes($0.new.envelope) }),
        ]
        return try await walk(PostgreSQLAdministrationSQL.reseal(place), values, isWrite: true) { $0.count }
    }

    package func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int] {
        var use: [String: Int] = [:]
        for place in SealedPlace.allCases {
            var last: [UInt8] = []
            while true {
                let values: [Parameter] = [.bytes(last), .integer(Self.counted)]
                let page = try await walk(PostgreSQLAdministrationSQL.use(place), values) { rows in
                    try rows.map { (try $0.optionalText(), try $0.small(), try $0.bytes(), try $0.small()) }
                }
                for (key, count, _, _) in page { if let key { use[key, default: 0] += count } }
                guard let (_, _, end, seen) = page.first, seen == Self.counted else { break }
                last = end
            }
        }
        let exchanges = try await walk(PostgreSQLAdministrationSQL.exchangeUse, [.time(exchangesSince)]) { rows in
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
    func insertion(_ moment: Parameter) -> BoundStatement {
        typealias SQL = PostgreSQLAdministrationSQL
        return switch self {
        case .login(let row): BoundStatement(SQL.insertLogin, row.parameters)
        case .handoff(let row): BoundStatement(SQL.insertHandoff, row.parameters)
        case .registration(let row):
            BoundStatement(SQL.insertRegistration, row.parameters + [.digest(row.exchange)])
        case .exchange(let row):
            BoundStatement(
                SQL.insertExchange,
                [
                    .digest(row.key), .digest(row.proof), .bytes(row.salt), .text(row.keyID), .integer(row.fence),
                    .bytes(row.claim.bytes), .duration(row.claimFor), .integer(row.attempts), .time(row.createdAt),
                ] + row.gate.parameters + [moment] + row.outcome.parameters)
        case .session(let row, let marks):
            BoundStatement(
                SQL.insertSession,
                row.parameters + [
                    .bytes(marks.claim?.bytes), .duration(marks.claimUntil), .duration(marks.takenOverAt),
                    .truth(marks.takenOverBefore), .truth(marks.answerLost), .duration(marks.holdUntil),
                    .integer(marks.emptyRefusals), .duration(marks.firstEmptyAt), moment,
                ] + Lineage.parameters(row.lineage)
                    + [
                        .text(row.presence?.sealed.keyID), .bytes(row.presence?.sealed.envelope),
                        .integer(row.version),
                    ])
        case .outbox(let row): BoundStatement(PostgreSQLUpkeepSQL.addOutbox, [row].parameters)
        case .targetToken(let row): BoundStatement(PostgreSQLTargetTokenSQL.insert, row.parameters)
        case .logoutToken(let id, let until): BoundStatement(SQL.insertLogoutToken, [.digest(id), .time(until)])
        case .lease(let name, let owner, let until):
            BoundStatement(SQL.insertLease, [.text(name), .text(owner), .time(until)])
        case .seals(let key, let count): BoundStatement(SQL.insertSeals, [.text(key), .integer(count)])
        case .audit(let row):
            BoundStatement(PostgreSQLUpkeepSQL.appendAudit, row.parameters)
        }
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
}
