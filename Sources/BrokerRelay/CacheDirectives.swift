/// What `Cache-Control` values say, as far as it decides whether a shared cache may keep the answer (RFC 9111 section
/// 5.2).
///
/// Directives are read as the grammar has them: a word within a quoted value is none, and neither is one with an argument
/// that it does not take. Where a value is malformed, what follows is not read: what is not certainly said is not said.
struct CacheDirectives {
    /// Whether a shared cache may keep the answer by the upstream's own word: `public`, or `s-maxage` with seconds.
    private(set) var allowSharedCaches = false
    /// Whether it is `private` as a whole; `private="Field"` is of that field only.
    private(set) var isPrivate = false

    /// Reads one value.
    mutating func read(_ value: String) {
        var rest = value.utf8[...]
        while true {
            // An empty member of the list is none.
            rest = rest.drop { $0 == UInt8(ascii: ",") || Self.isSpace($0) }
            guard let directive = Self.next(&rest) else { return }
            switch (directive.name, directive.argument) {
            case ("public", nil): allowSharedCaches = true
            case ("private", nil): isPrivate = true
            case ("s-maxage", let seconds?) where Self.isNumber(seconds): allowSharedCaches = true
            default: break
            }
        }
    }

    /// Takes a directive, or returns nil at the end and at what is none.
    private static func next(_ rest: inout Substring.UTF8View) -> (name: String, argument: [UInt8]?)? {
        let name = rest.prefix(while: isTokenByte)
        guard !name.isEmpty else { return nil }
        rest = rest[name.endIndex...]
        var argument: [UInt8]?
        if rest.first == UInt8(ascii: "=") {
            rest = rest.dropFirst()
            guard let text = rest.first == UInt8(ascii: "\"") ? quoted(&rest) : token(&rest) else { return nil }
            argument = text
        }
        rest = rest.drop(while: isSpace)
        guard rest.first.map({ $0 == UInt8(ascii: ",") }) ?? true else { return nil }
        return (Substring(name).lowercased(), argument)
    }

    private static func token(_ rest: inout Substring.UTF8View) -> [UInt8]? {
        let text = rest.prefix(while: isTokenByte)
        guard !text.isEmpty else { return nil }
        rest = rest[text.endIndex...]
        return Array(text)
    }

    private static func quoted(_ rest: inout Substring.UTF8View) -> [UInt8]? {
        var text: [UInt8] = []
        var isEscaped = false
        rest = rest.dropFirst()
        while let byte = rest.popFirst() {
            switch byte {
            case _ where isEscaped:
                text.append(byte)
                isEscaped = false
            case UInt8(ascii: "\\"): isEscaped = true
            case UInt8(ascii: "\""): return text
            default: text.append(byte)
            }
        }
        return nil
    }

    private static func isNumber(_ text: [UInt8]) -> Bool {
        !text.isEmpty && text.allSatisfy { (0x30...0x39).contains($0) }
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Whether the byte may stand in a token (RFC 9110 section 5.6.2).
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
