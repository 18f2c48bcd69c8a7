extension StringProtocol {
    /// Returns whether both texts have the same bytes.
    ///
    /// Use this for texts from outside instead of `==` and hashing. The standard operations compare by canonical equivalence,
    /// which takes seconds for some 10,000 combining marks (SEC-106).
    package func hasBytes(of other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }

    /// Whether the text is only ASCII, so that every operation takes time in proportion to its length.
    ///
    /// Any other character takes more bytes than UTF-16 units. A plain `String` knows both counts.
    package var isASCII: Bool { utf8.count == utf16.count }

    /// Returns the first `maximum` Unicode scalars, because a single `Character` may be as long as the whole text.
    package func firstScalars(_ maximum: Int) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: unicodeScalars.prefix(maximum))
        return String(text)
    }
}

extension String {
    /// Returns whether both strings have the same bytes.
    ///
    /// This overload is faster, because the bytes of whole strings are contiguous in memory.
    package func hasBytes(of other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let isSame: Bool?? = utf8.withContiguousStorageIfAvailable { own in
            other.utf8.withContiguousStorageIfAvailable { own.elementsEqual($0) }
        }
        return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
