import Broker
import FoundationEssentials
import GRDB

extension Database {
    /// Runs a statement, prepared once for each connection, and returns the number of changed rows.
    @discardableResult
    func change(_ sql: NamedSQL, _ values: Named<DatabaseValue>) throws -> Int {
        let statement = try cachedStatement(sql: sql.text)
        statement.setUncheckedArguments(try StatementArguments(of: values, for: sql))
        try statement.execute()
        return changesCount
    }

    /// Runs a query, prepared once for each connection, and returns its decoded rows.
    func rows<Value>(
        _ sql: NamedSQL, _ values: Named<DatabaseValue>, _ decode: (inout Columns) throws -> Value
    ) throws -> [Value] {
        let statement = try cachedStatement(sql: sql.text)
        statement.setUncheckedArguments(try StatementArguments(of: values, for: sql))
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
        _ sql: NamedSQL, _ values: Named<DatabaseValue>, _ decode: (inout Columns) throws -> Value
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
    /// Creates arguments from the values of a statement; throws unless the names are exactly those of the parameters.
    ///
    /// GRDB's arguments with names are slower, because they make a dictionary for each call. Its initializer for a sequence
    /// of one type is slower as well, because it uses a key path for each value.
    fileprivate init(of values: Named<DatabaseValue>, for sql: NamedSQL) throws(StatementFault) {
        self.init(try values.ordered(by: sql.names).pairs.map { _, value in value as (any DatabaseValueConvertible)? })
    }
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
