package import Broker
import GRDB

extension SQLiteStore {
    package func ping() async throws(StoreFailure) {
        let version = try await readers.read { database in
            try database.first(UpkeepSQL.version, []) { try $0.small() }
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
                try database.first(UpkeepSQL.nothingDue, [now.sql]) { try $0.integer() } != nil
                    || database.first(UpkeepSQL.putOffTooFar, [impossible]) { try $0.integer() } != nil
            }
            guard due else { return [] }
        }
        let rows = try await writer.write { database in
            try database.change(UpkeepSQL.recallOutbox, [now.sql, impossible])
            return try database.rows(
                UpkeepSQL.takeOutbox, [now.sql, until.sql, max(limit, 0).databaseValue]
            ) { try? OutboxRow(&$0) }.compactMap { $0 }
        }
        return rows.sorted { $0.createdAt < $1.createdAt }
    }

    package func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure) {
        guard !work.isEmpty else { return }
        try await writer.write { database in
            for row in work {
                let values = [row.until.sql, (counting ? 0 : 1).databaseValue, row.id.sql]
                _ = try database.change(UpkeepSQL.postponeOutbox, values)
            }
        }
    }

    package func removeOutbox(_ ids: [Digest]) async throws(StoreFailure) {
        guard !ids.isEmpty else { return }
        try await writer.write { database in
            for id in ids { _ = try database.change(UpkeepSQL.removeOutbox, [id.sql]) }
        }
    }

    package func outboxCount() async throws(StoreFailure) -> Int {
        try await scans.read { database in
            try database.first(UpkeepSQL.countOutbox, []) { try $0.small() } ?? 0
        }
    }

    package func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await writer.write { database in
            try database.change(
                UpkeepSQL.acquireLease, [name.databaseValue, owner.databaseValue, until.sql, now.sql]) == 1
        }
    }

    package func releaseLease(_ name: String, owner: String) async throws(StoreFailure) {
        try await writer.write { database in
            try database.change(UpkeepSQL.releaseLease, [name.databaseValue, owner.databaseValue])
            return
        }
    }

    package func lease(_ name: String) async throws(StoreFailure) -> WallTime? {
        try await readers.read { database in
            try database.first(UpkeepSQL.lease, [name.databaseValue]) { try $0.time() }
        }
    }

    package func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int] {
        try await writer.write { database in
            var totals: [String: Int] = [:]
            for (key, count) in counts {
                let values = [key.databaseValue, count.databaseValue]
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
        let result = try await writer.write { database in
            try database.sweep(now: now, limit: max(limit, 0), lapsedSince: lapsedSince)
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
    fileprivate func sweep(now: WallTime, limit: Int, lapsedSince: WallTime?) throws -> SweepResult {
        let spent = now.advanced(by: .zero - RetentionPeriods.spent).sql
        let buried = now.advanced(by: .zero - RetentionPeriods.tombstone).sql
        let limit = limit.databaseValue
        var touched = 0
        touched += try change(UpkeepSQL.sweepLogins, [spent, limit])
        touched += try change(UpkeepSQL.sweepRegistrations, [spent, limit])
        touched += try change(UpkeepSQL.sweepHandoffs, [now.sql, limit])
        guard let lapsedSince else { return SweepResult(touched: touched) }
        touched += try change(UpkeepSQL.sweepExchanges, [spent, limit])
        touched += try change(UpkeepSQL.sweepLogoutTokens, [now.sql, limit])
        touched += try change(UpkeepSQL.sweepSessions, [buried, limit])
        let known = [now.sql, lapsedSince.sql, RetentionPeriods.announcedLapses.databaseValue]
        let ended = try rows(UpkeepSQL.lapsedSince, known) { columns in
            (try NamedSession(&columns), try SessionEnds(&columns).reason)
        }
        let certain = now.advanced(by: .zero - RetentionPeriods.lapsed).sql
        let lapsed = try rows(UpkeepSQL.lapsed, [certain, limit]) { columns in
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
