extension StringProtocol {
    /// Returns whether both are the same bytes.
    ///
    /// For texts of others, where `==` and hashing are no option: those look for canonical equivalence, which takes
    /// seconds for some 10,000 combining marks (SEC-106).
    package func hasBytes(of other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }

    /// Whether there is nothing but ASCII in it: then every operation takes time in proportion to the length.
    ///
    /// Any other character takes more bytes than UTF-16 units; of a plain `String` both counts are at hand.
    package var isASCII: Bool { utf8.count == utf16.count }

    /// Returns the first `maximum` Unicode scalars; a `Character` may be as long as the whole text.
    package func firstScalars(_ maximum: Int) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: unicodeScalars.prefix(maximum))
        return String(text)
    }
}

extension String {
    /// Returns the same for two whole strings, whose bytes lie side by side in memory.
    package func hasBytes(of other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let isSame: Bool?? = utf8.withContiguousStorageIfAvailable { own in
            other.utf8.withContiguousStorageIfAvailable { own.elementsEqual($0) }
        }
        return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
