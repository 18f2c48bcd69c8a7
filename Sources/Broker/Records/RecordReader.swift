/// Reads what `RecordWriter` wrote; throws for anything else, so that a damaged record is an error and not a trap.
package struct RecordReader {
    /// That a record is not what it should be.
    package struct Malformed: Error {}

    private let bytes: [UInt8]
    private var position: Int

    /// Creates a reader; throws unless the record has this format.
    package init(_ bytes: [UInt8], format: UInt8) throws(Malformed) {
        guard bytes.first == format else { throw Malformed() }
        self.bytes = bytes
        position = 1
    }

    /// Whether everything has been read.
    package var isAtEnd: Bool { position == bytes.count }

    package mutating func integer() throws(Malformed) -> Int64 {
        guard bytes.count - position >= 8 else { throw Malformed() }
        var value: UInt64 = 0
        for offset in 0..<8 { value |= UInt64(bytes[position + offset]) << (8 * UInt64(offset)) }
        position += 8
        return Int64(bitPattern: value)
    }

    private mutating func count() throws(Malformed) -> Int {
        let value = try integer()
        guard value >= 0, value <= bytes.count - position else { throw Malformed() }
        return Int(value)
    }

    package mutating func string() throws(Malformed) -> String {
        let length = try count()
        defer { position += length }
        return String(decoding: bytes[position..<position + length], as: UTF8.self)
    }

    package mutating func secret() throws(Malformed) -> Secret { Secret(try string()) }

    private mutating func byte() throws(Malformed) -> UInt8 {
        guard position < bytes.count else { throw Malformed() }
        defer { position += 1 }
        return bytes[position]
    }

    package mutating func flag() throws(Malformed) -> Bool { try byte() == 1 }

    package mutating func optionalString() throws(Malformed) -> String? { try flag() ? try string() : nil }
    package mutating func optionalInteger() throws(Malformed) -> Int64? { try flag() ? try integer() : nil }
    package mutating func optionalSecret() throws(Malformed) -> Secret? { try flag() ? try secret() : nil }
    package mutating func optionalTime() throws(Malformed) -> WallTime? {
        try optionalInteger().map(WallTime.init(milliseconds:))
    }

    package mutating func strings() throws(Malformed) -> [String] {
        var values: [String] = []
        for _ in 0..<(try count()) { values.append(try string()) }
        return values
    }

    package mutating func pairs() throws(Malformed) -> [(name: String, value: String)] {
        var values: [(name: String, value: String)] = []
        for _ in 0..<(try count()) { values.append((try string(), try string())) }
        return values
    }

    package mutating func claims() throws(Malformed) -> [(name: String, value: JSONValue)] {
        var values: [(name: String, value: JSONValue)] = []
        for _ in 0..<(try count()) { values.append((try string(), try value(depth: 0))) }
        return values
    }

    private mutating func value(depth: Int) throws(Malformed) -> JSONValue {
        guard depth < 8 else { throw Malformed() }
        switch try byte() {
        case 0: return .null
        case 1: return .bool(false)
        case 2: return .bool(true)
        case 3: return .number(try string())
        case 4: return .string(try string())
        case 5:
            var items: [JSONValue] = []
            for _ in 0..<(try count()) { items.append(try value(depth: depth + 1)) }
            return .array(items)
        default: throw Malformed()
        }
    }
}
