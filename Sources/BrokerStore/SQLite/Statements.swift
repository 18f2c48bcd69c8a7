import Broker
import FoundationEssentials
import GRDB

extension Database {
    /// Runs a statement, prepared once for each connection, and returns the number of changed rows.
    @discardableResult
    func change(_ sql: String, _ values: [DatabaseValue]) throws -> Int {
        let statement = try cachedStatement(sql: sql)
        statement.setUncheckedArguments(StatementArguments(of: values))
        try statement.execute()
        return changesCount
    }

    /// Runs a query, prepared once for each connection, and returns its decoded rows.
    func rows<Value>(
        _ sql: String, _ values: [DatabaseValue], _ decode: (inout Columns) throws -> Value
    ) throws -> [Value] {
        let statement = try cachedStatement(sql: sql)
        statement.setUncheckedArguments(StatementArguments(of: values))
        let cursor = try CurrentRow.fetchCursor(statement)
        var decoded: [Value] = []
        while let row = try cursor.next() {
            var columns = Columns(row.statement)
            decoded.append(try decode(&columns))
        }
        return decoded
    }

    /// Runs a query that returns at most one row.
    func first<Value>(
        _ sql: String, _ values: [DatabaseValue], _ decode: (inout Columns) throws -> Value
    ) throws -> Value? {
        try rows(sql, values, decode).first
    }

    /// Runs a statement without values (BEGIN, COMMIT, savepoints), prepared once.
    func run(_ sql: String) throws { try cachedStatement(sql: sql).execute() }
}

extension Digest {
    var sql: DatabaseValue { Data(bytes).databaseValue }
}

extension Optional<Digest> {
    var sql: DatabaseValue { map { $0.sql } ?? .null }
}

extension WallTime {
    var sql: DatabaseValue { milliseconds.databaseValue }
}

extension Optional<WallTime> {
    var sql: DatabaseValue { map { $0.sql } ?? .null }
}

extension [UInt8] {
    var sql: DatabaseValue { Data(self).databaseValue }
}

extension Optional<Duration> {
    var sql: DatabaseValue { map { $0.wholeMilliseconds.databaseValue } ?? .null }
}

extension StatementArguments {
    /// Creates arguments from database values.
    ///
    /// GRDB's initializer for a sequence of one type is slower, because it uses a key path for each value.
    fileprivate init(of values: [DatabaseValue]) { self.init(values.map { $0 as (any DatabaseValueConvertible)? }) }
}

/// The current row of a statement, valid until its next step.
///
/// GRDB's `Row` builds a dictionary of column names for each query, which costs as much as the query. This type avoids the
/// dictionary, because the broker reads columns by position.
private struct CurrentRow: DatabaseValueConvertible, StatementColumnConvertible {
    let statement: SQLiteStatement

    init(sqliteStatement: SQLiteStatement, index: CInt) { statement = sqliteStatement }

    /// Returns the row for any first column, null included.
    static func fromStatement(_ statement: SQLiteStatement, atUncheckedIndex index: CInt) -> CurrentRow? {
        CurrentRow(sqliteStatement: statement, index: index)
    }

    /// Required by the protocol; a row is never stored.
    var databaseValue: DatabaseValue { .null }
    static func fromDatabaseValue(_ value: DatabaseValue) -> CurrentRow? { nil }
}
