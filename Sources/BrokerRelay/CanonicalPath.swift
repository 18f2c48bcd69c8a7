/// A path in a canonical form (SEC-73).
///
/// The allow-list checks this form and the upstream gets it, so the upstream gets exactly the path that was allowed.
///
/// The path begins with `/`. Letters, digits and `-._~` are never percent-encoded, and other encodings are in upper case. A
/// path that two servers could read differently is refused, in any encoding:
/// - dot segments and empty segments
/// - an encoded `/`, and `\`, `;`, `#` and control bytes
/// - encodings of encodings
/// - bytes that are not UTF-8
package struct CanonicalPath: Sendable, Equatable, CustomStringConvertible {
    /// The path, valid according to RFC 3986 and at least `/`.
    package let text: String

    package var description: String { text }

    /// The reason why a path is refused.
    package enum Fault: Error, Sendable, Equatable {
        case notAbsolute, emptySegment, dotSegment, forbiddenByte, badPercent, doubleEncoding, notUTF8
    }

    /// Validates and normalises `raw`, a path as received.
    package init(_ raw: Substring) throws(Fault) {
        var afterSlash = false
        var onlyDots = true
        var dots = 0
        guard raw.utf8.first == 0x2F else { throw .notAbsolute }
        for byte in raw.utf8 {
            if byte == 0x2F {
                if afterSlash { throw .emptySegment }
                if onlyDots, dots > 0 { throw .dotSegment }
                (afterSlash, onlyDots, dots) = (true, true, 0)
            } else if byte == 0x25 {
                self.text = try Self.normalise(raw.utf8)
                return
            } else if URIBytes.isSegment(byte) {
                if byte == 0x2E { dots &+= 1 } else { onlyDots = false }
                afterSlash = false
            } else {
                throw .forbiddenByte
            }
        }
        if onlyDots, dots > 0 { throw .dotSegment }
        self.text = String(raw)
    }

    /// Normalises a path that has percent-encodings.
    private static func normalise(_ raw: Substring.UTF8View) throws(Fault) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(raw.count)
        var segment: [UInt8] = []
        var bytes = raw.dropFirst().makeIterator()
        output.append(0x2F)
        var last: UInt8 = 0x2F
        while let byte = bytes.next() {
            switch byte {
            case 0x2F:
                if segment.isEmpty { throw .emptySegment }
                try check(segment)
                segment.removeAll(keepingCapacity: true)
                output.append(byte)
            case 0x25:
                guard let high = bytes.next().flatMap(URIBytes.hex), let low = bytes.next().flatMap(URIBytes.hex) else {
                    throw .badPercent
                }
                let decoded = high << 4 | low
                segment.append(decoded)
                if URIBytes.isUnreserved(decoded) {
                    output.append(decoded)
                } else {
                    URIBytes.appendEncoded(decoded, to: &output)
                }
            default:
                guard URIBytes.isSegment(byte) else { throw .forbiddenByte }
                segment.append(byte)
                output.append(byte)
            }
            last = byte
        }
        if last != 0x2F { try check(segment) }
        return String(decoding: output, as: UTF8.self)
    }

    /// Checks a path segment after decoding, as a server sees it.
    private static func check(_ segment: [UInt8]) throws(Fault) {
        var onlyDotsAndSpaces = true
        for byte in segment {
            switch byte {
            case 0...0x1F, 0x7F, 0x2F, 0x5C, 0x3B, 0x23: throw .forbiddenByte
            case 0x2E, 0x20: break
            default: onlyDotsAndSpaces = false
            }
        }
        // Some file systems drop trailing spaces and dots, so they read `..%20` as a dot segment.
        if onlyDotsAndSpaces { throw .dotSegment }
        // An upstream may decode the path a second time, and must get the same path. So `%25` followed by two hexadecimal
        // digits is refused.
        for (percent, pair) in zip(segment, zip(segment.dropFirst(), segment.dropFirst(2))) where percent == 0x25 {
            if URIBytes.hex(pair.0) != nil, URIBytes.hex(pair.1) != nil { throw .doubleEncoding }
        }
        // Some servers decode `%u0061` as `a`.
        for (index, byte) in segment.enumerated() where byte == 0x25 {
            let rest = segment[(index + 1)...].prefix(5)
            if rest.count == 5, let mark = rest.first, mark | 0x20 == 0x75,
                rest.dropFirst().allSatisfy({ URIBytes.hex($0) != nil })
            {
                throw .doubleEncoding
            }
        }
        // The standard decoder refuses overlong forms, surrogates and values above U+10FFFF.
        if String(validating: segment, as: UTF8.self) == nil { throw .notUTF8 }
    }
}

/// A query as received, with all characters that RFC 3986 forbids percent-encoded.
///
/// An upstream's URL parser then leaves the query unchanged. For example, one forbidden character makes Foundation's `URL`
/// encode the whole query a second time.
package struct CanonicalQuery: Sendable, Equatable {
    /// The query, without its `?`.
    package let text: String

    /// Encodes `raw`; returns nil if it contains a control byte, a space or `#`.
    package init?(_ raw: Substring) {
        if Self.isClean(raw.utf8) {
            self.text = String(raw)
            return
        }
        let bytes = Array(raw.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count &+ 16)
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case 0...0x20, 0x7F, 0x23: return nil
            case 0x25 where Self.isEncoding(bytes.dropFirst(index + 1)): output.append(byte)
            default:
                if URIBytes.isQuery(byte) { output.append(byte) } else { URIBytes.appendEncoded(byte, to: &output) }
            }
        }
        self.text = String(decoding: output, as: UTF8.self)
    }

    /// Returns whether the query is valid as it is; false for every query with `%`, which the caller then checks byte by byte.
    private static func isClean(_ bytes: Substring.UTF8View) -> Bool {
        for byte in bytes where !URIBytes.isQuery(byte) { return false }
        return true
    }

    private static func isEncoding(_ rest: ArraySlice<UInt8>) -> Bool {
        let pair = rest.prefix(2)
        return pair.count == 2 && pair.allSatisfy { URIBytes.hex($0) != nil }
    }
}

/// The bytes that RFC 3986 allows in a path or query, as far as the relay needs them.
enum URIBytes {
    /// For each byte, the parts of a URL in which it is allowed.
    private static let classes: [UInt8] = (0...255).map { byte in
        switch UInt8(truncatingIfNeeded: byte) {
        case 0x61...0x7A, 0x41...0x5A, 0x30...0x39, 0x2D, 0x2E, 0x5F, 0x7E: unreservedBit | pathBit | queryBit
        case 0x3B: queryBit  // `;` begins path parameters in servlet containers, so no path has one (SEC-73)
        case 0x21, 0x24, 0x26...0x2C, 0x3D, 0x3A, 0x40: pathBit | queryBit
        case 0x2F, 0x3F: queryBit
        default: 0
        }
    }
    private static let unreservedBit: UInt8 = 1
    private static let pathBit: UInt8 = 2
    private static let queryBit: UInt8 = 4

    /// Returns whether `byte` is unreserved, so that it means the same with or without percent-encoding.
    static func isUnreserved(_ byte: UInt8) -> Bool { classes[Int(byte)] & unreservedBit != 0 }
    /// Returns whether `byte` is allowed unencoded in a path segment; `;` is forbidden.
    static func isSegment(_ byte: UInt8) -> Bool { classes[Int(byte)] & pathBit != 0 }
    /// Returns whether `byte` is allowed unencoded in a query.
    static func isQuery(_ byte: UInt8) -> Bool { classes[Int(byte)] & queryBit != 0 }

    /// Returns the value of a hexadecimal digit, or nil.
    static func hex(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte &- 0x30
        case 0x41...0x46: byte &- 0x37
        case 0x61...0x66: byte &- 0x57
        default: nil
        }
    }

    /// Appends `byte` to `output` as `%XX`, in the upper case that RFC 3986 section 6.2.2.1 prefers.
    static func appendEncoded(_ byte: UInt8, to output: inout [UInt8]) {
        output.append(0x25)
        output.append(digit(byte >> 4))
        output.append(digit(byte & 15))
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 &+ value : 0x37 &+ value }
}
