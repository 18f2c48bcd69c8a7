import CLibPQ

/// The rows of a libpq result.
///
/// The rows are valid for as long as the result, and only on the connection's thread.
struct ResultRows {
    fileprivate let result: OpaquePointer

    init(_ result: OpaquePointer) { self.result = result }

    var count: Int { Int(PQntuples(result)) }

    /// Decodes each row.
    func map<Value>(_ decode: (inout RowReader) throws -> Value) rethrows -> [Value] {
        try (0..<PQntuples(result)).map { index in
            var reader = RowReader(result: result, row: index)
            return try decode(&reader)
        }
    }

    /// Decodes the first row.
    func first<Value>(_ decode: (inout RowReader) throws -> Value) rethrows -> Value? {
        guard count > 0 else { return nil }
        var reader = RowReader(result: result, row: 0)
        return try decode(&reader)
    }
}
