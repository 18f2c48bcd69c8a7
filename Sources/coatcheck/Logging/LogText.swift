/// Writes texts into a JSON log line so that nothing in them can be taken for anything else (SEC-115).
enum LogText {
    /// How many characters of one text are kept.
    static let limit = 1024

    /// Appends a JSON string.
    ///
    /// Controls, line and paragraph separators, and marks that change the reading direction are escaped; what is longer
    /// than the limit is cut and says so.
    static func append(_ text: String, to line: inout [UInt8]) {
        line.append(UInt8(ascii: "\""))
        defer { line.append(UInt8(ascii: "\"")) }
        // Nearly every text is short and plain.
        var text = text
        let isPlain = text.withUTF8 { bytes in
            guard bytes.count <= limit, bytes.allSatisfy({ $0 &- 0x20 < 0x5F && $0 != 0x22 && $0 != 0x5C }) else {
                return false
            }
            line.append(contentsOf: bytes)
            return true
        }
        guard !isPlain else { return }
        var count = 0
        for scalar in text.unicodeScalars {
            guard count < limit else {
                line.append(contentsOf: "…".utf8)
                break
            }
            count += 1
            switch scalar.value {
            case 0x22: line.append(contentsOf: [0x5C, 0x22])
            case 0x5C: line.append(contentsOf: [0x5C, 0x5C])
            case 0x0A: line.append(contentsOf: [0x5C, 0x6E])
            case 0x20...0x7E: line.append(UInt8(truncatingIfNeeded: scalar.value))
            case 0x00...0x1F, 0x7F...0x9F, 0x061C, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2069, 0xFEFF,
                0xFFF9...0xFFFB,
                0xE0000...0xE007F:
                appendEscape(scalar, to: &line)
            default: line.append(contentsOf: String(scalar).utf8)
            }
        }
    }

    private static func appendEscape(_ scalar: Unicode.Scalar, to line: inout [UInt8]) {
        for unit in String(scalar).utf16 {
            line.append(contentsOf: [0x5C, 0x75])
            for shift in [12, 8, 4, 0] {
                let digit = UInt8(truncatingIfNeeded: unit >> shift & 15)
                line.append(digit < 10 ? 0x30 + digit : 0x61 + digit - 10)
            }
        }
    }
}
