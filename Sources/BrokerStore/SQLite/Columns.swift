import GRDB
import GRDBSQLite

/// The columns of an SQLite row.
struct Columns: ColumnReader {
    static let rowFormat = Schema.rowFormat
    private let statement: SQLiteStatement
    private let count: CInt
    private var position: CInt = 0

    /// Creates the columns of a statement's current row.
    ///
    /// After the statement's next step, the columns are invalid.
    init(_ statement: SQLiteStatement) {
        self.statement = statement
        count = sqlite3_column_count(statement)
    }

    /// Returns the next column's index; nil if the column is missing or null.
    private mutating func next() -> CInt? {
        defer { position += 1 }
        guard position < count, sqlite3_column_type(statement, position) != SQLITE_NULL else { return nil }
        return position
    }

    mutating func optionalInteger() -> Int64? { next().map { sqlite3_column_int64(statement, $0) } }

    mutating func optionalBytes() throws -> [UInt8]? {
        guard let index = next() else { return nil }
        // Call `sqlite3_column_blob` before `sqlite3_column_bytes`, because the calls may convert the value (SQLite, "Result
        // Values From A Query").
        let start = sqlite3_column_blob(statement, index)
        return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, index))))
    }

    mutating func optionalText() -> String? {
        next().flatMap { sqlite3_column_text(statement, $0) }.map { String(cString: $0) }
    }
}
