import Broker

/// A session cookie as Zephr sets it, in a field or in a body's `cookie`.
struct ZephrCookie: Sendable {
    let session: Secret
    /// The expiry of the cookie; nil if the cookie names none.
    let expiresAt: WallTime?

    /// Parses a `Set-Cookie` text; nil unless it sets the named cookie to a value that may be sent back.
    init?(_ text: String, name: String, now: WallTime) {
        var parts = text.split(separator: ";", omittingEmptySubsequences: false).map(Self.trimmed)
        let pair = parts.removeFirst()
        guard pair.hasPrefix(name + "=") else { return nil }
        let value = pair.dropFirst(name.utf8.count + 1)
        guard Self.isValue(value) else { return nil }
        session = Secret(String(value))
        var end: WallTime?
        for part in parts {
            let lower = part.lowercased()
            if lower.hasPrefix("max-age="), let seconds = Int64(lower.dropFirst(8)) {
                end = now.advanced(by: .seconds(min(max(seconds, 0), 365 * 86_400)))
                break
            }
            if lower.hasPrefix("expires=") { end = HTTPDate.parse(String(part.dropFirst(8))) }
        }
        // A `Set-Cookie` with a past expiry deletes a cookie instead of setting it, so ignore it.
        if let end, end <= now { return nil }
        expiresAt = end.map { min($0, now.advanced(by: .seconds(365 * 86_400))) }
    }

    /// Returns whether a text consists of RFC 6265's cookie-octets, so that a `Cookie` field may contain it unquoted.
    static func isValue(_ text: some StringProtocol) -> Bool {
        (1...4096).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"\",;\\".utf8.contains($0) }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}
