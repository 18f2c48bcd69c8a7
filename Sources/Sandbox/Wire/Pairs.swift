/// Name and value pairs of a query or a form body, in order, decoded as `application/x-www-form-urlencoded`.
package struct Pairs: Sendable {
    /// One pair.
    package struct Pair: Sendable, Equatable {
        /// The decoded name.
        package var name: String
        /// The decoded value.
        package var value: String
    }

    /// The pairs in the order in which they came.
    package var all: [Pair] = []

    /// No pairs.
    package init() {}

    /// The pairs of a raw query or form body.
    package init(parsing raw: some StringProtocol) {
        for part in raw.split(separator: "&") {
            let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = halves.first else { continue }
            all.append(
                Pair(
                    name: FormCoding.decode(name),
                    value: halves.count > 1 ? FormCoding.decode(halves[1]) : ""))
        }
    }

    /// The pairs as given.
    package init(_ pairs: [(String, String)]) {
        all = pairs.map { Pair(name: $0.0, value: $0.1) }
    }

    /// The first value under a name.
    package subscript(name: String) -> String? { all.first { $0.name == name }?.value }

    /// A name that occurs twice, if one does (RFC 6749 section 3.1 forbids it).
    package var repeatedName: String? {
        var seen: Set<String> = []
        return all.first { !seen.insert($0.name).inserted }?.name
    }

    /// Adds a pair at the end.
    package mutating func add(_ name: String, _ value: String?) {
        if let value { all.append(Pair(name: name, value: value)) }
    }

    /// The pairs as a form body or query.
    package var encoded: String {
        all.map { FormCoding.encode($0.name) + "=" + FormCoding.encode($0.value) }.joined(separator: "&")
    }
}

/// `application/x-www-form-urlencoded` coding of one text.
enum FormCoding {
    static func decode(_ text: some StringProtocol) -> String {
        let bytes = Array(text.utf8)
        var out: [UInt8] = []
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            if byte == UInt8(ascii: "+") {
                out.append(0x20)
            } else if byte == UInt8(ascii: "%"), index + 2 < bytes.count,
                let value = UInt8(String(decoding: bytes[(index + 1)...(index + 2)], as: UTF8.self), radix: 16)
            {
                out.append(value)
                index += 2
            } else {
                out.append(byte)
            }
            index += 1
        }
        return String(decoding: out, as: UTF8.self)
    }

    static func encode(_ text: String) -> String {
        var out = ""
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                out.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let hex = String(byte, radix: 16, uppercase: true)
                out += hex.utf8.count == 1 ? "%0" + hex : "%" + hex
            }
        }
        return out
    }
}
