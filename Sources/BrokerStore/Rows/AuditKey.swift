/// The key of an audit record: its number as bytes, which sort as it does.
extension Int64 {
    /// The number as eight bytes that sort as it does, from zero on.
    package var bigEndianBytes: [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: self >> Int64((7 - $0) * 8)) }
    }

    /// Reads what `bigEndianBytes` wrote; nil for anything else.
    package init?(bigEndianBytes bytes: [UInt8]) {
        guard bytes.count == 8 else { return nil }
        self = bytes.reduce(0) { $0 << 8 | Int64($1) }
    }
}
