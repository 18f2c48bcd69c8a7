/// The lines of an endings file: words, and a check of them in eight hexadecimal digits.
///
/// The check tells a line that a crash or a bad disk has changed; it is no proof against somebody who writes there.
enum EndingsLine {
    static func text(_ words: [String]) -> String {
        let text = words.joined(separator: " ")
        return "\(text) \(check(text.utf8))\n"
    }

    /// Returns the words of a line without its end; nil where the check is not theirs.
    static func words(_ line: some Collection<UInt8>) -> [Substring]? {
        guard let text = String(validating: line, as: UTF8.self), let space = text.lastIndex(of: " "),
            check(text[..<space].utf8) == text[text.index(after: space)...]
        else { return nil }
        return text[..<space].split(separator: " ", omittingEmptySubsequences: false)
    }

    /// FNV-1a of 64 bits, folded into 32.
    private static func check(_ bytes: some Sequence<UInt8>) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        let text = String(UInt32(truncatingIfNeeded: hash ^ hash >> 32), radix: 16)
        return String(repeating: "0", count: 8 - text.count) + text
    }
}
