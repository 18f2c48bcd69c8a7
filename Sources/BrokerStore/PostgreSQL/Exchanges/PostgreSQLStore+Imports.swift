package import Broker

extension PostgreSQLStore {
    package func claimImport(
        _ row: ExchangeRow, sparing spared: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        let values: Named<Parameter> =
            row.claimParameters
            + [
                "kept_until": .time(row.imported?.keptUntil),
                "most_calls": .integer(row.imported?.mostCalls ?? ImportMarks.maximumCalls),
                "moment": moment, "spared_from": .duration(spared.lapsedFor?.lowerBound),
                "spared_to": .duration(spared.lapsedFor?.upperBound),
            ]
        let (verdict, standing) = try await write(
            PostgreSQLImportSQL.claim, values, repeatingDuplicates: true
        ) { rows in
            try rows.first { columns -> (PostgreSQLImportSQL.Verdict?, ExchangeRow?) in
                let verdict = PostgreSQLImportSQL.Verdict(rawValue: try columns.small())
                return (verdict, verdict == .missing ? nil : try ExchangeRow(&columns))
            } ?? (nil, nil)
        }
        switch (verdict, standing) {
        case (.missing, _): return .claimed(row)
        case (.own, let standing?), (.again, let standing?): return .claimed(standing)
        case (.standing, let standing?), (.lapsed, let standing?):
            switch standing.outcome {
            case .session, .continued: try await confirm()
            case .calling, .released, .registration, .spent: break
            }
            return .existing(standing)
        default: throw .unavailable("an exchange changed")
        }
    }

    package func releaseImport(
        _ key: Digest, fence: Int64, _ release: ImportRelease
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLImportSQL.release,
            [
                "key": .digest(key), "fence": .integer(fence), "calls": .integer(release.calls),
                "refused_at": .time(release.refusedAt), "short": .duration(ImportMarks.shortPeriod),
            ]
        ) { $0.count == 1 }
    }

    package func countImportCall(
        _ key: Digest, fence: Int64, calls: Int
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLImportSQL.count,
            ["key": .digest(key), "fence": .integer(fence), "calls": .integer(calls)]
        ) { $0.count == 1 }
    }

    package func keepPair(
        _ pair: ImportPair, as number: Int, fence: Int64, at now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLImportSQL.keep,
            pair.parameters
                + [
                    "fence": .integer(fence), "now": .time(now),
                    "number": .integer(number),
                ]
        ) { rows in try rows.first { try $0.truth() } ?? false }
    }

    package func keptPair(_ key: Digest) async throws(StoreFailure) -> ImportPair? {
        try await read(PostgreSQLImportSQL.pair, ["key": .digest(key)]) { rows in
            try rows.first { try ImportPair(&$0) }
        }
    }

    package func noteImportGrant(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await write(
            PostgreSQLImportSQL.insertGrant, ["key": .digest(key), "granted_at": .time(now)]
        ) { _ in () }
    }

    package func hasImportGrant(_ key: Digest) async throws(StoreFailure) -> Bool {
        try await read(PostgreSQLImportSQL.grant, ["key": .digest(key)]) { rows in rows.count > 0 }
    }

    /// Moves the pairs that were kept for too long to the outbox, and removes the imports whose time is over.
    ///
    /// Returns the number of changed rows.
    func sweepImports(now: WallTime, limit: Int) async throws(StoreFailure) -> Int {
        let count: @Sendable (ResultRows) throws -> Int = { rows in try rows.first { try $0.small() } ?? 0 }
        let before = now.advanced(by: .zero - ImportMarks.pairPeriod)
        let revoked = try await scan(
            PostgreSQLImportSQL.revokePairs,
            ["before": .time(before), "now": .time(now), "limit": .integer(limit), "moment": moment], isWrite: true,
            count)
        return try await revoked
            + scan(
                PostgreSQLImportSQL.sweep, ["now": .time(now), "limit": .integer(limit)], isWrite: true, count)
    }
}
