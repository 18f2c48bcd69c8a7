import Broker
import CLibPQ

/// Reads the columns of a PostgreSQL row in their binary form.
struct RowReader: ColumnReader {
    static let rowFormat = PostgreSQLSchema.rowFormat
    private let result: OpaquePointer
    private let row: CInt
    private var position: CInt = 0

    init(result: OpaquePointer, row: CInt) {
        self.result = result
        self.row = row
    }

    mutating func optionalBytes() -> [UInt8]? {
        defer { position += 1 }
        guard position < PQnfields(result), PQgetisnull(result, row, position) == 0,
            let start = PQgetvalue(result, row, position)
        else { return nil }
        return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, position))))
    }

    mutating func optionalInteger() -> Int64? {
        defer { position += 1 }
        guard position < PQnfields(result), PQgetisnull(result, row, position) == 0,
            let start = PQgetvalue(result, row, position)
        else { return nil }
        let bytes = UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, position)))
        guard let first = bytes.first, bytes.count <= 8 else { return nil }
        if bytes.count == 1 { return Int64(first) }
        var value: Int64 = first & 0x80 == 0 ? 0 : -1
        for byte in bytes { value = value << 8 | Int64(byte) }
        return value
    }

    mutating func optionalText() throws -> String? {
        guard let bytes = optionalBytes() else { return nil }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw StoreFailure.unavailable("a row is damaged")
        }
        return text
    }
}
