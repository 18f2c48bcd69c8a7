package import Broker
import GRDB

extension SQLiteStore {
    package func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        guard !rows.isEmpty else { return }
        try await writer.write { database in
            for row in rows { try database.change(MaintenanceSQL.addOutbox, row.values) }
        }
    }

    package func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow] {
        // Polled often and mostly empty: looking costs no transaction. Endings that wait take the chance to be written.
        if endings.count == 0 {
            let due = try await readers.read { database in
                try database.first(MaintenanceSQL.nothingDue, [now.sql]) { try $0.integer() } != nil
            }
            guard due else { return [] }
        }
        let rows = try await writer.write { database in
            try database.rows(
                MaintenanceSQL.takeOutbox, [now.sql, until.sql, max(limit, 0).databaseValue]
            ) { try OutboxRow(&$0) }
        }
        return rows.sorted { $0.createdAt < $1.createdAt }
    }

    package func removeOutbox(_ id: Digest) async throws(StoreFailure) {
        try await writer.write { database in _ = try database.change(MaintenanceSQL.removeOutbox, [id.sql]) }
    }

    package func outboxCount() async throws(StoreFailure) -> Int {
        try await readers.read { database in
            try database.first(MaintenanceSQL.countOutbox, []) { try $0.small() } ?? 0
        }
    }

    package func rememberLogoutToken(
        _ id: Digest, until: WallTime, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await writer.write { database in
            try database.change(MaintenanceSQL.rememberLogoutToken, [id.sql, until.sql, now.sql]) == 1
        }
    }

    package func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await writer.write { database in
            try database.change(
                MaintenanceSQL.acquireLease, [name.databaseValue, owner.databaseValue, until.sql, now.sql]) == 1
        }
    }

    package func appendAudit(_ row: AuditRow) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(
                MaintenanceSQL.appendAudit,
                [
                    row.at.sql, row.actor.databaseValue, row.action.databaseValue, row.target.databaseValue,
                    row.outcome.databaseValue,
                ])
        }
    }

    package func sweep(now: WallTime, limit: Int) async throws(StoreFailure) -> Int {
        let touched = try await writer.write { database in try database.sweep(now: now, limit: max(limit, 0)) }
        // Old frames of the log still hold what was deleted (SEC-51). A reader amid a query only puts it off.
        do throws(StoreFailure) {
            try await writer.exclusively { database in _ = try database.checkpoint(.truncate) }
        } catch {
            guard case .unavailable(let cause) = error, cause.hasPrefix("SQLite 5") else { throw error }
        }
        return touched
    }
}

extension Database {
    fileprivate func sweep(now: WallTime, limit: Int) throws -> Int {
        let spent = now.advanced(by: .zero - RetentionPeriods.spent).sql
        let buried = now.advanced(by: .zero - RetentionPeriods.tombstone).sql
        let limit = limit.databaseValue
        var touched = 0
        touched += try change(LoginSQL.sweep, [spent, limit])
        touched += try change(RegistrationSQL.sweep, [spent, limit])
        touched += try change(HandoffSQL.sweep, [now.sql, limit])
        touched += try change(ExchangeSQL.sweep, [spent, limit])
        touched += try change(MaintenanceSQL.sweepLogoutTokens, [now.sql, limit])
        touched += try change(SessionSQL.sweep, [buried, limit])
        let lapsed = try rows(SessionSQL.lapsed, [now.sql, limit]) { columns in
            let name = try NamedSession(&columns)
            let idle = try columns.time()
            return (name, try columns.time() <= idle ? EndReason.expired : .idleExpired)
        }
        for (name, reason) in lapsed where try end(name, reason, now) { touched += 1 }
        return touched
    }
}
