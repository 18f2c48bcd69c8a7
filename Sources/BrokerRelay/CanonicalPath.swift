/// A path in the one form that policy and upstream share (SEC-73): what the allow-list matched is what is sent.
///
/// It begins with `/`; letters, digits and `-._~` are never percent-encoded, other encodings are in upper case. What
/// two servers could read differently is refused, in any encoding: dot segments, `/`, `\`, `;`, `#`, control bytes,
/// encodings of encodings, empty segments, bytes that are no UTF-8.
package struct CanonicalPath: Sendable, Equatable, CustomStringConvertible {
    /// The path, valid by RFC 3986, `/` at least.
    package let text: String

    package var description: String { text }

    /// Why a path is refused.
    package enum Fault: Error, Sendable, Equatable {
        case notAbsolute, emptySegment, dotSegment, forbiddenByte, badPercent, doubleEncoding, notUTF8
    }

    /// Validates and normalises `raw`, a path as it came on the wire.
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

    /// Does the whole work for a path with percent-encodings.
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

    /// Checks a segment as a server would see it after decoding.
    private static func check(_ segment: [UInt8]) throws(Fault) {
        var onlyDotsAndSpaces = true
        for byte in segment {
            switch byte {
            case 0...0x1F, 0x7F, 0x2F, 0x5C, 0x3B, 0x23: throw .forbiddenByte
            case 0x2E, 0x20: break
            default: onlyDotsAndSpaces = false
            }
        }
        // Some file systems drop trailing spaces and dots: `..%20` is a dot segment there.
        if onlyDotsAndSpaces { throw .dotSegment }
        // One more decoding anywhere behind us must not find anything new.
        for (percent, pair) in zip(segment, zip(segment.dropFirst(), segment.dropFirst(2))) where percent == 0x25 {
            if URIBytes.hex(pair.0) != nil, URIBytes.hex(pair.1) != nil { throw .doubleEncoding }
        }
        // The standard decoder refuses overlong forms, surrogates and what lies beyond U+10FFFF.
        if String(validating: segment, as: UTF8.self) == nil { throw .notUTF8 }
    }
}
