package import Broker
import GRDB

extension SQLiteStore {
    package func targetToken(_ key: Digest, of session: Digest) async throws(StoreFailure) -> TargetTokenRow? {
        guard endings.ending(session) == nil else { return nil }
        return try await readers.read { database in
            try database.first(TargetTokenSQL.byKey, ["key": key.sql, "session": session.sql]) {
                try TargetTokenRow(&$0)
            }
        }
    }

    package func keepTargetToken(
        _ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?
    ) async throws(StoreFailure) -> Bool {
        guard endings.ending(row.session) == nil else { return false }
        return try await writer.write { database in
            let values: Named<DatabaseValue> = [
                "session": row.session.sql, "token_version": tokenVersion.databaseValue,
                "fence": row.version.databaseValue, "tokens": tokens?.envelope.sql ?? .null,
            ]
            guard try database.change(TargetTokenSQL.giveBack, values) == 1 else { return false }
            try database.store(row)
            return true
        }
    }

    package func useTargetToken(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(TargetTokenSQL.use, ["used_at": now.sql, "key": key.sql])
        }
    }
}

extension Database {
    /// Stores a session's token for another API, and deletes the tokens beyond the allowed number.
    func store(_ row: TargetTokenRow) throws {
        try change(TargetTokenSQL.store, row.values)
        try change(
            TargetTokenSQL.evict,
            [
                "session": row.session.sql, "key": row.key.sql,
                "others": (TargetTokenRow.perSession - 1).databaseValue,
            ])
    }
}
