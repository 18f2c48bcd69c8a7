/// The patterns of `app_links.ios.paths`, with Apple's rules: `*` matches any characters, `?` matches one.
package enum PathPattern {
    /// Returns whether a pattern matches a path.
    package static func covers(_ pattern: String, _ path: some StringProtocol) -> Bool {
        matches(Array(pattern.utf8)[...], Array(path.utf8)[...])
    }

    /// Returns whether a pattern matches; the time is at most the product of both lengths, because only the last of several
    /// stars is retried.
    private static func matches(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>) -> Bool {
        var (p, t) = (pattern.startIndex, text.startIndex)
        var retry: (pattern: Int, text: Int)?
        while t < text.endIndex {
            if p < pattern.endIndex, pattern[p] == UInt8(ascii: "*") {
                retry = (p + 1, t)
                p += 1
            } else if p < pattern.endIndex, pattern[p] == UInt8(ascii: "?") || pattern[p] == text[t] {
                p += 1
                t += 1
            } else if let last = retry {
                retry = (last.pattern, last.text + 1)
                p = last.pattern
                t = last.text + 1
            } else {
                return false
            }
        }
        return pattern[p...].allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
