import Broker
import FoundationEssentials
import GRDB

/// Reads a row's columns one after the other, in the order of the query.
///
/// A column that is not what the schema says is an error and never a trap, whoever wrote the file.
struct Columns {
    private let row: Row
    private var position = 0

    init(_ row: Row) { self.row = row }

    private mutating func next() -> Int {
        defer { position += 1 }
        return position
    }

    private func damaged() -> StoreFailure { .unavailable("a row is damaged") }

    mutating func optionalInteger() -> Int64? {
        let index = next()
        guard index < row.count else { return nil }
        return row[index] as Int64?
    }

    mutating func integer() throws -> Int64 {
        guard let value = optionalInteger() else { throw damaged() }
        return value
    }

    mutating func small() throws -> Int {
        guard let value = Int(exactly: try integer()) else { throw damaged() }
        return value
    }

    mutating func time() throws -> WallTime { WallTime(milliseconds: try integer()) }

    mutating func optionalTime() -> WallTime? { optionalInteger().map { WallTime(milliseconds: $0) } }

    mutating func optionalDuration() -> Duration? { optionalInteger().map { .milliseconds($0) } }

    mutating func optionalBytes() throws -> [UInt8]? {
        let index = next()
        guard index < row.count else { return nil }
        return try row.withUnsafeData(atIndex: index) { $0.map { [UInt8]($0) } }
    }

    mutating func bytes() throws -> [UInt8] {
        guard let bytes = try optionalBytes() else { throw damaged() }
        return bytes
    }

    mutating func digest() throws -> Digest {
        guard let digest = Digest(try bytes()) else { throw damaged() }
        return digest
    }

    mutating func optionalDigest() throws -> Digest? {
        guard let bytes = try optionalBytes() else { return nil }
        guard let digest = Digest(bytes) else { throw damaged() }
        return digest
    }

    mutating func optionalText() -> String? {
        let index = next()
        guard index < row.count else { return nil }
        return row[index] as String?
    }

    mutating func text() throws -> String {
        guard let text = optionalText() else { throw damaged() }
        return text
    }

    mutating func sealed() throws -> Sealed { Sealed(keyID: try text(), envelope: try bytes()) }

    mutating func optionalSealed() throws -> Sealed? {
        let keyID = optionalText()
        let envelope = try optionalBytes()
        guard let keyID, let envelope else { return nil }
        return Sealed(keyID: keyID, envelope: envelope)
    }

    /// Reads the row's format, which every query names first: a newer one is left alone (SEC-130).
    mutating func requireFormat() throws {
        guard try integer() <= Schema.rowFormat else { throw StoreFailure.newerFormat }
    }
}
