import Broker
import FoundationEssentials
import GRDB

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
