/// The file of a `sqlite:` URL, and the fault of a spelling that other programs read differently.
struct SQLiteAddress: Sendable, Equatable {
    /// The path of the database file, taken from the URL by the same rule as in version 0.1.0.
    let path: String
    /// The fault of the URL and the correct spelling, in words for the operator; nil if the URL is correct.
    ///
    /// The text leaves out the URL, because a server's URL with the wrong scheme may contain a password.
    let misspelling: String?
    /// Whether exactly three slashes precede the path.
    ///
    /// Some other programs read such a path as a relative path.
    let isRelativeElsewhere: Bool

    /// Splits a URL; returns nil if the URL names no file or has parameters.
    init?(_ url: String) {
        guard url.hasPrefix("sqlite:"), !url.contains("?"), !url.contains("#") else { return nil }
        let rest = url.dropFirst(7)
        var path = rest
        while path.hasPrefix("//") { path = path.dropFirst() }
        guard !path.isEmpty, path != "/" else { return nil }
        self.path = String(path)
        misspelling = Self.misspelling(rest, path)
        isRelativeElsewhere = rest.hasPrefix("///") && !rest.hasPrefix("////")
    }

    private static let spellings =
        "Write `sqlite:` and a path relative to the file's folder (`sqlite:data/coatcheck.db`), or `sqlite:///` and an "
        + "absolute one (`sqlite:///var/lib/coatcheck/coatcheck.db`)"

    private static func misspelling(_ rest: Substring, _ path: Substring) -> String? {
        if path.lowercased().contains(":memory:") {
            return "asks for a database in memory, which would end with the process and all sessions with it. "
                + spellings
        }
        if path.hasPrefix("file:") { return "has a `file:` URL behind `sqlite:`. " + spellings }
        if rest.hasPrefix("//"), !rest.hasPrefix("///") {
            return "has two slashes, which begin a host. " + spellings
        }
        if path.hasPrefix("/./") || path.hasPrefix("/../") {
            return "has a relative path behind three slashes, which begin an absolute one. " + spellings
        }
        if path.hasPrefix("~") || path.hasPrefix("/~") {
            return "has a `~`, which stays a character of the path. " + spellings
        }
        if hasEscape(path) {
            return "has a percent-escape, which stays as it is in the path. Write the character itself"
        }
        if path.hasSuffix("/") { return "names a folder. " + spellings }
        return nil
    }

    private static func hasEscape(_ path: Substring) -> Bool {
        path.split(separator: "%", omittingEmptySubsequences: false).dropFirst().contains { behind in
            behind.count >= 2 && behind.prefix(2).allSatisfy(\.isHexDigit)
        }
    }
}
