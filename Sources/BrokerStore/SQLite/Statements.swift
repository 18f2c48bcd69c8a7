import Broker
import FoundationEssentials
import GRDB

extension Database {
    /// Runs a statement, prepared once per connection, and returns how many rows it changed.
    @discardableResult
    func change(_ sql: String, _ values: [DatabaseValue]) throws -> Int {
        let statement = try cachedStatement(sql: sql)
        statement.setUncheckedArguments(StatementArguments(values))
        try statement.execute()
        return changesCount
    }

    /// Runs a query, prepared once per connection, and returns its rows, decoded.
    func rows<Value>(
        _ sql: String, _ values: [DatabaseValue], _ decode: (inout Columns) throws -> Value
    ) throws -> [Value] {
        let statement = try cachedStatement(sql: sql)
        statement.setUncheckedArguments(StatementArguments(values))
        let cursor = try Row.fetchCursor(statement)
        var decoded: [Value] = []
        while let row = try cursor.next() {
            var columns = Columns(row)
            decoded.append(try decode(&columns))
        }
        return decoded
    }

    /// Runs a query whose rows are at most one.
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

/// The columns of a row of SQLite.
struct Columns: ColumnReader {
    static let rowFormat = Schema.rowFormat
    private let row: Row
    private var position = 0

    init(_ row: Row) { self.row = row }

    private mutating func next() -> Int {
        defer { position += 1 }
        return position
    }

    mutating func optionalInteger() -> Int64? {
        let index = next()
        guard index < row.count else { return nil }
        return row[index] as Int64?
    }

    mutating func optionalBytes() throws -> [UInt8]? {
        let index = next()
        guard index < row.count else { return nil }
        return try row.withUnsafeData(atIndex: index) { $0.map { [UInt8]($0) } }
    }

    mutating func optionalText() -> String? {
        let index = next()
        guard index < row.count else { return nil }
        return row[index] as String?
    }
}
