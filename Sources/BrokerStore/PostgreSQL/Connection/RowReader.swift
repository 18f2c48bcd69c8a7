import Broker
import CLibPQ

/// Reads a row's columns one after the other, in the order of the query, from PostgreSQL's binary form.
///
/// A column that is not what the schema says is an error and never a trap.
struct RowReader {
    private let result: OpaquePointer
    private let row: CInt
    private var position: CInt = 0

    init(result: OpaquePointer, row: CInt) {
        self.result = result
        self.row = row
    }

    private func damaged() -> StoreFailure { .unavailable("a row is damaged") }

    mutating func optionalBytes() -> [UInt8]? {
        defer { position += 1 }
        guard position < PQnfields(result), PQgetisnull(result, row, position) == 0,
            let start = PQgetvalue(result, row, position)
        else { return nil }
        return [UInt8](UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, position))))
    }

    /// Reads an integer of any width, or a truth value.
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

    mutating func integer() throws -> Int64 {
        guard let value = optionalInteger() else { throw damaged() }
        return value
    }

    mutating func small() throws -> Int {
        guard let value = Int(exactly: try integer()) else { throw damaged() }
        return value
    }

    mutating func truth() throws -> Bool { try integer() != 0 }
    mutating func time() throws -> WallTime { WallTime(milliseconds: try integer()) }
    mutating func optionalTime() -> WallTime? { optionalInteger().map { WallTime(milliseconds: $0) } }
    mutating func duration() throws -> Duration { .milliseconds(try integer()) }
    mutating func optionalDuration() -> Duration? { optionalInteger().map { .milliseconds($0) } }

    mutating func bytes() throws -> [UInt8] {
        guard let bytes = optionalBytes() else { throw damaged() }
        return bytes
    }

    mutating func digest() throws -> Digest {
        guard let digest = Digest(try bytes()) else { throw damaged() }
        return digest
    }

    mutating func optionalDigest() throws -> Digest? {
        guard let bytes = optionalBytes() else { return nil }
        guard let digest = Digest(bytes) else { throw damaged() }
        return digest
    }

    mutating func optionalText() throws -> String? {
        guard let bytes = optionalBytes() else { return nil }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw damaged() }
        return text
    }

    mutating func text() throws -> String {
        guard let text = try optionalText() else { throw damaged() }
        return text
    }

    mutating func sealed() throws -> Sealed { Sealed(keyID: try text(), envelope: try bytes()) }

    mutating func optionalSealed() throws -> Sealed? {
        let keyID = try optionalText()
        let envelope = optionalBytes()
        guard let keyID, let envelope else { return nil }
        return Sealed(keyID: keyID, envelope: envelope)
    }

    /// Reads the row's format, which every query names first: a newer one is left alone (SEC-130).
    mutating func requireFormat() throws {
        guard try integer() <= PostgreSQLSchema.rowFormat else { throw StoreFailure.newerFormat }
    }
}
