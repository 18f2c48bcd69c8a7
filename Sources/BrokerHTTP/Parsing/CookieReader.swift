/// Reads cookies from the raw `Cookie` fields, strictly (SEC-38, library note 4).
enum CookieReader {
    enum Result: Equatable {
        case absent
        case one(String)
        /// The cookie occurs more than once, even with equal values; an attacker may have planted one of them.
        case several
        /// A value with a quotation mark at only one end.
        case halfQuoted
    }

    /// Returns the cookie of exactly this name.
    ///
    /// Names are compared byte by byte. Only SP and HTAB are trimmed. `$Version`, `$Path` and pairs that lack a name are
    /// ignored.
    ///
    /// One pair of quotes around the whole value is removed, because Java's cookie jars add it (decision 86). The pairs are
    /// split at `;` first, and escapes are kept.
    static func value(of name: String, in fields: [String]) -> Result {
        let prefix = Array(name.utf8) + [UInt8(ascii: "=")]
        var found: String?
        var isHalfQuoted = false
        for field in fields {
            // Read bytes by index, which costs no allocation for a pair. A stranger chooses the length of a field and its
            // number of pairs.
            var field = field
            let isPlanted = field.withUTF8 { bytes in
                var start = 0
                while start < bytes.count {
                    let pair = trimmed(bytes, start)
                    start = pair.next
                    guard pair.end - pair.start >= prefix.count, begins(bytes, at: pair.start, with: prefix) else {
                        continue
                    }
                    guard found == nil else { return true }
                    // Only the ends of the pair are trimmed, so spaces after the `=` belong to the value.
                    var value = (pair.start + prefix.count)..<pair.end
                    let quotes = value.isEmpty ? 0 : quotes(bytes, value)
                    if quotes == 2 { value = (value.lowerBound + 1)..<(value.upperBound - 1) }
                    if quotes == 1 { isHalfQuoted = true }
                    found = String(decoding: bytes[value], as: UTF8.self)
                }
                return false
            }
            guard !isPlanted else { return .several }
        }
        return isHalfQuoted ? .halfQuoted : found.map { .one($0) } ?? .absent
    }

    /// Returns the trimmed bounds of the pair that begins at `start`, and the start of the next pair.
    private static func trimmed(_ bytes: UnsafeBufferPointer<UInt8>, _ start: Int) -> (start: Int, end: Int, next: Int)
    {
        var stop = start
        while stop < bytes.count, bytes[stop] != UInt8(ascii: ";") { stop += 1 }
        var first = start
        var end = stop
        while first < end, bytes[first] == 0x20 || bytes[first] == 0x09 { first += 1 }
        while first < end, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return (first, end, stop + 1)
    }

    /// Returns the number of quotation marks at the ends of a value; a value that is a single mark counts as one.
    private static func quotes(_ bytes: UnsafeBufferPointer<UInt8>, _ value: Range<Int>) -> Int {
        let quote = UInt8(ascii: "\"")
        let opens = bytes[value.lowerBound] == quote
        let closes = value.count > 1 && bytes[value.upperBound - 1] == quote
        return (opens ? 1 : 0) + (closes ? 1 : 0)
    }

    private static func begins(_ bytes: UnsafeBufferPointer<UInt8>, at start: Int, with prefix: [UInt8]) -> Bool {
        for index in prefix.indices where bytes[start + index] != prefix[index] { return false }
        return true
    }
}
