/// Reads cookies out of the raw `Cookie` fields, strictly (SEC-38, engineering note 5).
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
        var found: String?
        for field in fields {
            var rest = field.utf8[...]
            while !rest.isEmpty {
                let end = rest.firstIndex(of: UInt8(ascii: ";")) ?? rest.endIndex
                let pair = trim(rest[..<end])
                rest = rest[end...].dropFirst()
                guard pair.starts(with: name.utf8) else { continue }
                let value = pair.dropFirst(name.utf8.count)
                guard value.first == UInt8(ascii: "=") else { continue }
                guard found == nil else { return .several }
                found = String(value.dropFirst()) ?? ""
            }
        }
        return found.map { .one($0) } ?? .absent
    }

    private static func trim(_ text: Substring.UTF8View) -> Substring.UTF8View {
        var text = text
        while let first = text.first, first == 0x20 || first == 0x09 { text = text.dropFirst() }
        while let last = text.last, last == 0x20 || last == 0x09 { text = text.dropLast() }
        return text
    }
}
