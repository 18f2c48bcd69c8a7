/// Reads cookies out of the raw `Cookie` fields, strictly (SEC-38, library note 4).
enum CookieReader {
    enum Result: Equatable {
        case absent
        case one(String)
        /// Two values for one name: somebody planted one of them.
        case several
    }

    /// Returns the cookie of exactly this name: SP and HTAB are trimmed and nothing else, names are compared byte by
    /// byte, quotes and `$Version` mean nothing, pairs without a name are not looked at.
    static func value(of name: String, in fields: [String]) -> Result {
        let prefix = Array(name.utf8) + [UInt8(ascii: "=")]
        var found: String?
        for field in fields {
            // Bytes by number: a field is as long, and has as many pairs, as a stranger likes.
            let bytes = Array(field.utf8)
            var start = 0
            while start < bytes.count {
                let pair = trimmed(bytes, start)
                start = pair.next
                guard pair.end - pair.start >= prefix.count, begins(bytes, at: pair.start, with: prefix) else {
                    continue
                }
                guard found == nil else { return .several }
                // Trimmed at the pair's ends only: what stands behind the `=` is the value.
                found = String(decoding: bytes[(pair.start + prefix.count)..<pair.end], as: UTF8.self)
            }
        }
        return found.map { .one($0) } ?? .absent
    }

    /// Returns the bounds of the pair that begins at `start`, trimmed, and where the next one begins.
    private static func trimmed(_ bytes: [UInt8], _ start: Int) -> (start: Int, end: Int, next: Int) {
        var stop = start
        while stop < bytes.count, bytes[stop] != UInt8(ascii: ";") { stop += 1 }
        var first = start
        var end = stop
        while first < end, bytes[first] == 0x20 || bytes[first] == 0x09 { first += 1 }
        while first < end, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return (first, end, stop + 1)
    }

    private static func begins(_ bytes: [UInt8], at start: Int, with prefix: [UInt8]) -> Bool {
        for index in prefix.indices where bytes[start + index] != prefix[index] { return false }
        return true
    }
}
