import Broker

extension ColumnReader {
    /// Reads one line of a page of sealed values, which is the row's key and its sealed value.
    ///
    /// The value is nil if a newer version wrote the row, or if the value is already sealed with the right key.
    mutating func sealedValue(of place: SealedPlace) throws -> (key: Digest, row: SealedRow?) {
        let isKnown = try integer() <= Self.rowFormat
        let key = try digest()
        let boundTo = try digest()
        let sealed = try optionalSealed()
        guard isKnown, let sealed else { return (key, nil) }
        return (key, SealedRow(place: place, key: key, boundTo: boundTo, sealed: sealed))
    }
}

/// A reader of a row, column by column in the query's order, for any engine.
///
/// An unexpected column is an error and never a trap, because other programs may have written it. Engines read the stored
/// forms, and this file interprets them. The decoding functions are generic, so the compiler specialises them for each engine.
protocol ColumnReader {
    /// The newest format of rows that this version reads.
    static var rowFormat: Int64 { get }

    /// Reads an integer of any width, or a truth value.
    mutating func optionalInteger() -> Int64?
    mutating func optionalBytes() throws -> [UInt8]?
    mutating func optionalText() throws -> String?
}

extension ColumnReader {
    private func damaged() -> StoreFailure { .unavailable("a row is damaged") }

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

    mutating func text() throws -> String {
        guard let text = try optionalText() else { throw damaged() }
        return text
    }

    mutating func sessionHandle() throws -> SessionHandle {
        guard let handle = SessionHandle(try text()) else { throw damaged() }
        return handle
    }

    mutating func sealed() throws -> Sealed { Sealed(keyID: try text(), envelope: try bytes()) }

    mutating func optionalSealed() throws -> Sealed? {
        let keyID = try optionalText()
        let envelope = try optionalBytes()
        guard let keyID, let envelope else { return nil }
        return Sealed(keyID: keyID, envelope: envelope)
    }

    /// Reads the row's format, which is every query's first column.
    ///
    /// Rows of a newer format are left alone (SEC-130).
    mutating func requireFormat() throws {
        guard try integer() <= Self.rowFormat else { throw StoreFailure.newerFormat }
    }
}
