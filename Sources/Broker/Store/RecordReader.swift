/// Reads the records of `RecordWriter`; throws for anything else, so that a damaged record is an error instead of a trap.
package struct RecordReader {
    private let bytes: [UInt8]
    private var position: Int

    /// Creates a reader.
    ///
    /// Throws `newerFormat` if the record's format is newer than `format`, and `malformed` if it is any other.
    package init(_ bytes: [UInt8], format: UInt8) throws(RecordFailure) {
        guard let found = bytes.first else { throw .malformed }
        guard found <= format else { throw .newerFormat }
        guard found == format else { throw .malformed }
        self.bytes = bytes
        position = 1
    }

    /// Whether the whole record has been read.
    package var isAtEnd: Bool { position == bytes.count }

    package mutating func integer() throws(RecordFailure) -> Int64 {
        guard bytes.count - position >= 8 else { throw .malformed }
        var value: UInt64 = 0
        for offset in 0..<8 { value |= UInt64(bytes[position + offset]) << (8 * UInt64(offset)) }
        position += 8
        return Int64(bitPattern: value)
    }

    private mutating func count() throws(RecordFailure) -> Int {
        let value = try integer()
        guard value >= 0, value <= bytes.count - position else { throw .malformed }
        return Int(value)
    }

    package mutating func string() throws(RecordFailure) -> String {
        let length = try count()
        defer { position += length }
        return String(decoding: bytes[position..<position + length], as: UTF8.self)
    }

    package mutating func secret() throws(RecordFailure) -> Secret { Secret(try string()) }

    private mutating func byte() throws(RecordFailure) -> UInt8 {
        guard position < bytes.count else { throw .malformed }
        defer { position += 1 }
        return bytes[position]
    }

    package mutating func flag() throws(RecordFailure) -> Bool { try byte() == 1 }

    package mutating func optionalString() throws(RecordFailure) -> String? { try flag() ? try string() : nil }
    package mutating func optionalInteger() throws(RecordFailure) -> Int64? { try flag() ? try integer() : nil }
    package mutating func optionalSecret() throws(RecordFailure) -> Secret? { try flag() ? try secret() : nil }
    package mutating func optionalTime() throws(RecordFailure) -> WallTime? {
        try optionalInteger().map(WallTime.init(milliseconds:))
    }

    package mutating func strings() throws(RecordFailure) -> [String] {
        try list { reader throws(RecordFailure) in try reader.string() }
    }

    package mutating func pairs() throws(RecordFailure) -> [(name: String, value: String)] {
        try list { reader throws(RecordFailure) in (try reader.string(), try reader.string()) }
    }

    package mutating func claims() throws(RecordFailure) -> [(name: String, value: JSONValue)] {
        try list { reader throws(RecordFailure) in (try reader.string(), try reader.value(depth: 0)) }
    }

    /// Reads the stored number of elements into an array of exactly that size, because the array may be kept in a cache.
    private mutating func list<Element>(
        _ element: (inout Self) throws(RecordFailure) -> Element
    ) throws(RecordFailure) -> [Element] {
        let count = try count()
        var values: [Element] = []
        values.reserveCapacity(count)
        for _ in 0..<count { values.append(try element(&self)) }
        return values
    }

    private mutating func value(depth: Int) throws(RecordFailure) -> JSONValue {
        guard depth < 8 else { throw .malformed }
        switch try byte() {
        case 0: return .null
        case 1: return .bool(false)
        case 2: return .bool(true)
        case 3: return .number(try string())
        case 4: return .string(try string())
        case 5: return .array(try list { reader throws(RecordFailure) in try reader.value(depth: depth + 1) })
        default: throw .malformed
        }
    }
}

extension RecordReader {
    /// Returns a reader that is positioned after the thumbprint, and the thumbprint itself; the thumbprint is nil for an
    /// unbound record.
    static func bindable(_ bytes: [UInt8]) throws(RecordFailure) -> (reader: RecordReader, thumbprint: Digest?) {
        guard bytes.first == BindableFormat.bound else {
            return (try RecordReader(bytes, format: BindableFormat.unbound), nil)
        }
        var reader = try RecordReader(bytes, format: BindableFormat.bound)
        guard let thumbprint = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        return (reader, thumbprint)
    }

    /// Returns the reader of a record that may also contain a key of the broker's.
    static func holding(
        _ bytes: [UInt8]
    ) throws(RecordFailure) -> (reader: RecordReader, thumbprint: Digest?, key: ProofKeyPair?) {
        guard bytes.first == BindableFormat.keyed else {
            let (reader, thumbprint) = try bindable(bytes)
            return (reader, thumbprint, nil)
        }
        var reader = try RecordReader(bytes, format: BindableFormat.keyed)
        let key = try reader.key()
        guard let text = try reader.optionalString() else { return (reader, nil, key) }
        guard let thumbprint = Base64URL.decode(text).flatMap(Digest.init) else { throw .malformed }
        return (reader, thumbprint, key)
    }
}
