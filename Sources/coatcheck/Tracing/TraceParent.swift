/// A `traceparent` field (W3C Trace Context, level 1).
struct TraceParent: Sendable, Equatable {
    let traceID: String
    let spanID: String
    let isSampled: Bool

    init(traceID: String, spanID: String, isSampled: Bool) {
        self.traceID = traceID
        self.spanID = spanID
        self.isSampled = isSampled
    }

    /// Reads a field; nil if the specification requires that the field is ignored.
    init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= 55, bytes[2] == 0x2D, bytes[35] == 0x2D, bytes[52] == 0x2D,
            let version = Self.hexadecimal(bytes[0..<2]), version != "ff",
            // A field of version 00 ends after 55 bytes. A later version may add text after another dash.
            bytes.count == 55 || (version != "00" && bytes[55] == 0x2D),
            let trace = Self.hexadecimal(bytes[3..<35]), let span = Self.hexadecimal(bytes[36..<52]),
            let flags = Self.hexadecimal(bytes[53..<55]).flatMap({ UInt8($0, radix: 16) }),
            trace.utf8.contains(where: { $0 != 0x30 }), span.utf8.contains(where: { $0 != 0x30 })
        else { return nil }
        self.init(traceID: trace, spanID: span, isSampled: flags & 1 == 1)
    }

    var text: String { "00-\(traceID)-\(spanID)-\(isSampled ? "01" : "00")" }

    private static func hexadecimal(_ bytes: ArraySlice<UInt8>) -> String? {
        guard bytes.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// Makes the ids of traces and spans.
///
/// The ids are random and public, and never all zeros.
enum TraceID {
    /// Returns 32 hexadecimal digits.
    static func fresh() -> String { hexadecimal(.random(in: 1 ... .max)) + hexadecimal(.random(in: 1 ... .max)) }

    /// Returns 16 hexadecimal digits.
    static func freshSpan() -> String { hexadecimal(.random(in: 1 ... .max)) }

    private static func hexadecimal(_ bits: UInt64) -> String {
        let text = String(bits, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }
}
