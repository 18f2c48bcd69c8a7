package import Broker
import GRDB

extension SQLiteStore {
    package func ping() async throws(StoreFailure) {
        let version = try await readers.read { database in
            try database.first(UpkeepSQL.version, [:]) { try $0.small() }
        }
        guard let version, version >= Schema.newest else { throw .unavailable("not migrated") }
    }

    package func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        guard !rows.isEmpty else { return }
        try await writer.write { database in
            for row in rows { try database.change(UpkeepSQL.addOutbox, row.values) }
        }
    }

    package func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow] {
        let impossible = now.advanced(by: RetentionPeriods.longestPostponement).sql
        // Calls are frequent and due work is rare, so look first and avoid a transaction. If endings are still unwritten,
        // skip this check, because every transaction also writes them.
        if endings.count == 0 {
            let due = try await readers.read { database in
                try database.first(UpkeepSQL.nothingDue, ["now": now.sql]) { try $0.integer() } != nil
                    || database.first(UpkeepSQL.putOffTooFar, ["impossible": impossible]) { try $0.integer() } != nil
            }
            guard due else { return [] }
        }
        let rows = try await writer.write { database in
            try database.change(UpkeepSQL.recallOutbox, ["now": now.sql, "impossible": impossible])
            return try database.rows(
                UpkeepSQL.takeOutbox,
                ["until": until.sql, "now": now.sql, "limit": max(limit, 0).databaseValue]
            ) { try? OutboxRow(&$0) }.compactMap { $0 }
        }
        return rows.sorted { $0.createdAt < $1.createdAt }
    }

    package func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure) {
        guard !work.isEmpty else { return }
        try await writer.write { database in
            for row in work {
                let values: Named = [
                    "until": row.until.sql, "uncounted": (counting ? 0 : 1).databaseValue, "key": row.id.sql,
                ]
                _ = try database.change(UpkeepSQL.postponeOutbox, values)
            }
        }
    }

    package func removeOutbox(_ ids: [Digest]) async throws(StoreFailure) {
        guard !ids.isEmpty else { return }
        try await writer.write { database in
            for id in ids { _ = try database.change(UpkeepSQL.removeOutbox, ["key": id.sql]) }
        }
    }

    package func outboxCount() async throws(StoreFailure) -> Int {
        try await scans.read { database in
            try database.first(UpkeepSQL.countOutbox, [:]) { try $0.small() } ?? 0
        }
    }

    package func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await writer.write { database in
            try database.change(
                UpkeepSQL.acquireLease,
                [
                    "name": name.databaseValue, "owner": owner.databaseValue, "until": until.sql, "now": now.sql,
                ]) == 1
        }
    }

    package func releaseLease(_ name: String, owner: String) async throws(StoreFailure) {
        try await writer.write { database in
            let values: Named = ["name": name.databaseValue, "owner": owner.databaseValue]
            try database.change(UpkeepSQL.releaseLease, values)
            return
        }
    }

    package func lease(_ name: String) async throws(StoreFailure) -> WallTime? {
        try await readers.read { database in
            try database.first(UpkeepSQL.lease, ["name": name.databaseValue]) { try $0.time() }
        }
    }

    package func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int] {
        try await writer.write { database in
            var totals: [String: Int] = [:]
            for (key, count) in counts {
                let values: Named = ["key": key.databaseValue, "seals": count.databaseValue]
                totals[key] = try database.first(UpkeepSQL.countSeals, values) { try $0.small() }
            }
            return totals
        }
    }

    package func appendAudit(_ row: AuditRow) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(
                UpkeepSQL.appendAudit, row.values)
        }
    }

    package func sweep(
        now: WallTime, limit: Int, lapsedSince: WallTime?
    ) async throws(StoreFailure) -> SweepResult {
        writer.makeReserve()
        let claimClock = claimClock
        let result = try await writer.write { database in
            try database.sweep(now: now, limit: max(limit, 0), lapsedSince: lapsedSince, claimClock())
        }
        // If a full batch was swept, the next sweep follows soon and overwrites the log.
        if result.touched < limit { try await emptyLog() }
        return result
    }

    /// Copies SQLite's log into the database and empties the log, because its old frames still contain deleted data (SEC-51).
    ///
    /// The writer does not wait for readers. If a reader is in the middle of a query, or begins a query now, the log is
    /// emptied after a later sweep.
    private func emptyLog() async throws(StoreFailure) {
        do throws(StoreFailure) {
            try await writer.exclusively { database in
                let copied = try database.checkpoint(.passive)
                guard copied.walFrameCount == copied.checkpointedFrameCount else { return }
                try database.execute(sql: "PRAGMA busy_timeout = 20")
                defer { try? database.execute(sql: "PRAGMA busy_timeout = 5000") }
                _ = try database.checkpoint(.truncate)
            }
        } catch {
            guard case .unavailable(let cause) = error, cause.hasPrefix("SQLite 5") else { throw error }
        }
    }
}

extension Database {
    fileprivate func sweep(
        now: WallTime, limit: Int, lapsedSince: WallTime?, _ clock: ClaimClock
    ) throws -> SweepResult {
        let spent: Named = [
            "spent": now.advanced(by: .zero - RetentionPeriods.spent).sql, "limit": limit.databaseValue,
        ]
        let over: Named = ["now": now.sql, "limit": limit.databaseValue]
        let buried = now.advanced(by: .zero - RetentionPeriods.tombstone).sql
        var touched = 0
        touched += try change(UpkeepSQL.sweepLogins, spent)
        touched += try change(UpkeepSQL.sweepRegistrations, spent)
        touched += try change(UpkeepSQL.sweepHandoffs, over)
        guard let lapsedSince else { return SweepResult(touched: touched) }
        touched += try change(UpkeepSQL.sweepExchanges, spent)
        touched += try sweepImports(now: now, limit: limit, clock)
        touched += try change(UpkeepSQL.sweepLogoutTokens, over)
        touched += try change(UpkeepSQL.sweepSessions, ["buried": buried, "limit": limit.databaseValue])
        let known: Named = [
            "now": now.sql, "since": lapsedSince.sql, "limit": RetentionPeriods.announcedLapses.databaseValue,
        ]
        let ended = try rows(UpkeepSQL.lapsedSince, known) { columns in
            (try NamedSession(&columns), try SessionEnds(&columns).reason)
        }
        let certain = now.advanced(by: .zero - RetentionPeriods.lapsed).sql
        let lapsed = try rows(UpkeepSQL.lapsed, ["certain": certain, "limit": limit.databaseValue]) { columns in
            (try NamedSession(&columns), try SessionEnds(&columns).reason)
        }
        for (name, reason) in lapsed where try end(name, reason, now) { touched += 1 }
        return SweepResult(
            touched: touched,
            ended: ended.compactMap { name, reason in
                name.tokenDigest.map { EndedSession(tokenDigest: $0, reason: reason) }
            })
    }
}
