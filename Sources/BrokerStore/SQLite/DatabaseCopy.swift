package import Broker
import Dispatch
import GRDB

/// A copy of an SQLite database after its check: the copy is undamaged and Coatcheck's, and this version can work with it.
package struct DatabaseCopy: Sendable {
    package let bytes: Int
    package let schema: Int
    /// The number of sessions, tombstones included.
    package let sessions: Int
    /// A sample of the copy's sealed values, for testing a key ring.
    package let sample: [SealedRow]

    /// The latest time in the copy's sessions and logins; nil if the copy has neither.
    ///
    /// The backup was made at this time or later.
    package let lastMoment: WallTime?

    /// The number of sampled values for each sealed column.
    private static let sampled = 20

    /// Checks a closed copy; throws a sentence for the operator if it is unusable.
    package static func inspect(_ path: String) async throws(StoreOpenFailure) -> DatabaseCopy {
        let result: Result<DatabaseCopy, StoreOpenFailure> = await withUnsafeContinuation { continuation in
            DispatchQueue.global().async {
                do throws(StoreOpenFailure) {
                    continuation.resume(returning: .success(try inspectBlocking(path)))
                } catch { continuation.resume(returning: .failure(error)) }
            }
        }
        return try result.get()
    }

    /// Checks a closed copy; throws a sentence for the operator if it is unusable.
    ///
    /// The call blocks the thread.
    static func inspectBlocking(_ path: String) throws(StoreOpenFailure) -> DatabaseCopy {
        do {
            let queue = try DatabaseQueue(path: path)
            defer { try? queue.close() }
            return try queue.inDatabase { database in
                let id = try Int32.fetchOne(database, sql: "PRAGMA application_id") ?? 0
                guard id == Schema.applicationID else { throw StoreOpenFailure.notOurs(path) }
                let faults = try String.fetchAll(database, sql: "PRAGMA integrity_check(10)")
                guard faults == ["ok"] else { throw StoreOpenFailure.damaged(path) }
                let found = try Int.fetchOne(database, sql: "SELECT max(version) FROM schema_version") ?? 0
                let readableFrom = try Int.fetchOne(database, sql: "SELECT max(readable_from) FROM schema_version") ?? 0
                guard readableFrom <= Schema.newest else {
                    throw StoreOpenFailure.tooNew(found: found, known: Schema.newest)
                }
                return DatabaseCopy(
                    bytes: DatabaseFiles.size(path) ?? 0, schema: found,
                    sessions: try Int.fetchOne(database, sql: "SELECT count(*) FROM sessions") ?? 0,
                    sample: try sample(database), lastMoment: try lastMoment(database))
            }
        } catch let failure as StoreOpenFailure {
            throw failure
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_NOTADB: throw .notOurs(path)
            case .SQLITE_CORRUPT: throw .damaged(path)
            default: throw .database(error.message ?? "\(error.resultCode)")
            }
        } catch {
            throw .database("the copy cannot be opened")
        }
    }

    private static func lastMoment(_ database: Database) throws -> WallTime? {
        let moments = ["sessions": ["created_at", "last_used_at", "ended_at"], "logins": ["created_at"]]
        return try moments.flatMap { table, columns in
            try columns.compactMap { try Int64.fetchOne(database, sql: "SELECT max(\($0)) FROM \(table)") }
        }.max().map { WallTime(milliseconds: $0) }
    }

    private static func sample(_ database: Database) throws -> [SealedRow] {
        try SealedPlace.allCases.flatMap { place -> [SealedRow] in
            // An older schema may lack a table, or a column of one.
            let at = SealedColumn(of: place)
            guard try database.tableExists(at.table),
                try database.columns(in: at.table).contains(where: { $0.name == at.keyID })
            else { return [] }
            let values: Named = ["key_id": "".databaseValue, "after": [UInt8]().sql, "limit": sampled.databaseValue]
            return try database.rows(AdministrationSQL.sealed(place), values) { try $0.sealedValue(of: place) }
                .compactMap(\.row)
        }
    }
}
