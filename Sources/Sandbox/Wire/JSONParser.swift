extension JSON {
    /// The parser's error, at the offset of an unexpected byte.
    package struct Malformed: Error {
        /// The offset in bytes.
        package let offset: Int
    }

    /// Parses one JSON text.
    ///
    /// The depth is at most 64. Two members with equal names are both kept.
    package static func parse(_ bytes: [UInt8]) throws(Malformed) -> JSON {
        var parser = JSONParser(bytes: bytes)
        let value = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.peek == nil else { throw Malformed(offset: parser.offset) }
        return value
    }

    /// Parses the UTF-8 of a text.
    package static func parse(_ text: String) throws(Malformed) -> JSON {
        try parse(Array(text.utf8))
    }
}

private struct JSONParser {
    let bytes: [UInt8]
    var offset = 0

    var peek: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { offset += 1 }
    }

    func fail() -> JSON.Malformed { JSON.Malformed(offset: offset) }

    mutating func value(depth: Int) throws(JSON.Malformed) -> JSON {
        guard depth < 64 else { throw fail() }
        skipSpace()
        switch peek {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    mutating func word(_ text: String, _ value: JSON) throws(JSON.Malformed) -> JSON {
        for byte in text.utf8 {
            guard peek == byte else { throw fail() }
            offset += 1
        }
        return value
    }

    mutating func object(depth: Int) throws(JSON.Malformed) -> JSON {
        offset += 1
        var members: [JSON.Member] = []
        skipSpace()
        if peek == UInt8(ascii: "}") {
            offset += 1
            return .object(members)
        }
        while true {
            skipSpace()
            guard peek == UInt8(ascii: "\"") else { throw fail() }
            let name = try string()
            skipSpace()
            guard peek == UInt8(ascii: ":") else { throw fail() }
            offset += 1
            members.append(JSON.Member(name: name, value: try value(depth: depth + 1)))
            skipSpace()
            if peek == UInt8(ascii: ",") {
                offset += 1
                continue
            }
            guard peek == UInt8(ascii: "}") else { throw fail() }
            offset += 1
            return .object(members)
        }
    }

    mutating func array(depth: Int) throws(JSON.Malformed) -> JSON {
        offset += 1
        var values: [JSON] = []
        skipSpace()
        if peek == UInt8(ascii: "]") {
            offset += 1
            return .array(values)
        }
        while true {
            values.append(try value(depth: depth + 1))
            skipSpace()
            if peek == UInt8(ascii: ",") {
                offset += 1
                continue
            }
            guard peek == UInt8(ascii: "]") else { throw fail() }
            offset += 1
            return .array(values)
        }
    }

    mutating func number() throws(JSON.Malformed) -> JSON {
        let start = offset
        while let byte = peek, (byte >= 0x30 && byte <= 0x39) || "+-.eE".utf8.contains(byte) { offset += 1 }
        let text = String(decoding: bytes[start..<offset], as: UTF8.self)
        guard let first = text.utf8.first, first == UInt8(ascii: "-") || (first >= 0x30 && first <= 0x39) else {
            throw fail()
        }
        if let whole = Int(text) { return .int(whole) }
        guard Double(text) != nil else { throw fail() }
        return .raw(text)
    }

    mutating func string() throws(JSON.Malformed) -> String {
        offset += 1
        var out: [UInt8] = []
        while let byte = peek {
            offset += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: out, as: UTF8.self) else { throw fail() }
                return text
            case UInt8(ascii: "\\"): try escape(into: &out)
            case 0..<0x20: throw fail()
            default: out.append(byte)
            }
        }
        throw fail()
    }

    mutating func escape(into out: inout [UInt8]) throws(JSON.Malformed) {
        guard let byte = peek else { throw fail() }
        offset += 1
        switch byte {
        case UInt8(ascii: "n"): out.append(0x0A)
        case UInt8(ascii: "r"): out.append(0x0D)
        case UInt8(ascii: "t"): out.append(0x09)
        case UInt8(ascii: "b"): out.append(0x08)
        case UInt8(ascii: "f"): out.append(0x0C)
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): out.append(byte)
        case UInt8(ascii: "u"):
            var unit = UInt32(try hex4())
            if unit >= 0xD800, unit < 0xDC00 {
                guard peek == UInt8(ascii: "\\") else { throw fail() }
                offset += 1
                guard peek == UInt8(ascii: "u") else { throw fail() }
                offset += 1
                let low = UInt32(try hex4())
                guard low >= 0xDC00, low < 0xE000 else { throw fail() }
                unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(unit) else { throw fail() }
            out.append(contentsOf: String(Character(scalar)).utf8)
        default: throw fail()
        }
    }

    mutating func hex4() throws(JSON.Malformed) -> UInt16 {
        guard offset + 4 <= bytes.count else { throw fail() }
        let text = String(decoding: bytes[offset..<offset + 4], as: UTF8.self)
        guard let value = UInt16(text, radix: 16) else { throw fail() }
        offset += 4
        return value
    }
}
