import Broker

/// A session cookie as Zephr sets it, in a field or in a body's `cookie`.
struct ZephrCookie: Sendable {
    let session: Secret
    /// When it ends; nil when it does not say.
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
        // A cookie that ends now or before deletes a session and is none.
        if let end, end <= now { return nil }
        expiresAt = end.map { min($0, now.advanced(by: .seconds(365 * 86_400))) }
    }

    /// RFC 6265's cookie-octet: what may stand in a `Cookie` field without quoting.
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

/// Parses the one date form that cookies are sent with (RFC 9110's IMF-fixdate; dashes as in old cookies pass).
enum HTTPDate {
    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    /// Returns the moment, or nil: `Tue, 02 Nov 2027 10:00:00 GMT`.
    static func parse(_ text: String) -> WallTime? {
        let parts = text.split { $0 == " " || $0 == "-" || $0 == "," }
        guard parts.count == 6, parts[5] == "GMT", let day = Int64(parts[1]), (1...31).contains(day),
            let month = months.firstIndex(of: parts[2].lowercased()).map({ Int64($0) + 1 }),
            let year = Int64(parts[3]), (1970...9999).contains(year)
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int64($0) }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        // Days since 1970 of a Gregorian date, March counted as the year's first month.
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        return WallTime(seconds: days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2])
    }
}
