package import Broker
import GRDB

extension SQLiteStore {
    package func claimImport(
        _ row: ExchangeRow, sparing spared: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        let claimClock = claimClock
        return try await writer.write { database in
            let clock = claimClock()
            let keptUntil: Named<DatabaseValue> = ["kept_until": (row.imported?.keptUntil).sql]
            if try database.change(ImportSQL.insert, row.values(clock) + keptUntil) == 1 { return .claimed(row) }
            guard
                var standing = try database.first(
                    ExchangeSQL.byKey, ["key": row.key.sql], { try ExchangeRow(&$0, clock) })
            else { throw StoreFailure.unavailable("an exchange vanished") }
            switch standing.verdict(on: row, sparing: spared) {
            case .standing: return .existing(standing)
            case .own: return .claimed(standing)
            case .again:
                let claimed = standing.claimedAgain(by: row)
                try database.change(ImportSQL.claimAgain, claimed.values(clock) + keptUntil)
                return .claimed(claimed)
            case .lost:
                try database.change(ImportSQL.lose, ["key": row.key.sql] + keptUntil)
                standing.outcome = .spent(.refreshLost)
                standing.imported = standing.imported ?? row.imported
                return .existing(standing)
            }
        }
    }

    package func releaseImport(
        _ key: Digest, fence: Int64, _ release: ImportRelease
    ) async throws(StoreFailure) -> Bool {
        let values: Named = [
            "calls": release.calls.databaseValue, "short": Optional(ImportMarks.shortPeriod).sql,
            "refused_at": release.refusedAt.sql, "key": key.sql, "fence": fence.databaseValue,
        ]
        return try await writer.write { database in try database.change(ImportSQL.release, values) == 1 }
    }

    package func countImportCall(
        _ key: Digest, fence: Int64, calls: Int
    ) async throws(StoreFailure) -> Bool {
        let values: Named = ["key": key.sql, "fence": fence.databaseValue, "calls": calls.databaseValue]
        return try await writer.write { database in try database.change(ImportSQL.count, values) == 1 }
    }

    package func keepPair(
        _ pair: ImportPair, as number: Int, fence: Int64, at now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await writer.write { database in
            let values: Named = [
                "now": now.sql, "key": pair.key.sql, "fence": fence.databaseValue,
                "number": number.databaseValue,
            ]
            guard try database.change(ImportSQL.keep, values) == 1 else { return false }
            try database.change(ImportSQL.insertPair, pair.values)
            return true
        }
    }

    package func keptPair(_ key: Digest) async throws(StoreFailure) -> ImportPair? {
        try await readers.read { database in
            try database.first(ImportSQL.pair, ["key": key.sql]) { try ImportPair(&$0) }
        }
    }

    package func noteImportGrant(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(ImportSQL.insertGrant, ["key": key.sql, "granted_at": now.sql])
        }
    }

    package func hasImportGrant(_ key: Digest) async throws(StoreFailure) -> Bool {
        try await readers.read { database in
            try database.first(ImportSQL.grant, ["key": key.sql]) { _ in true } ?? false
        }
    }
}

extension Database {
    /// Moves the pairs that were kept for too long to the outbox, and removes the imports whose time is over.
    ///
    /// Returns the number of changed rows.
    func sweepImports(now: WallTime, limit: Int, _ clock: ClaimClock) throws -> Int {
        let due: Named = [
            "before": now.advanced(by: .zero - ImportMarks.pairPeriod).sql, "claim_epoch": clock.epoch.databaseValue,
            "moment": Optional(clock.moment).sql, "limit": limit.databaseValue,
        ]
        let pairs = try rows(ImportSQL.duePairs, due) { try ImportPair(&$0) }
        for pair in pairs {
            let row = OutboxRow(
                id: pair.key, boundTo: pair.key, tokens: pair.tokens, createdAt: now, nextAttemptAt: now)
            try change(UpkeepSQL.addOutbox, row.values)
            try change(ImportSQL.expire, ["key": pair.key.sql])
        }
        return try pairs.count + change(ImportSQL.sweep, ["now": now.sql, "limit": limit.databaseValue])
    }
}
