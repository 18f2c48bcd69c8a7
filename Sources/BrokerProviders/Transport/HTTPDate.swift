import Broker

/// Parses the date format of HTTP and cookies (RFC 9110's IMF-fixdate); dashes as in old cookies are accepted.
enum HTTPDate {
    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    /// Returns the time of a text such as `Tue, 02 Nov 2027 10:00:00 GMT`; nil if the text has another format.
    static func parse(_ text: String) -> WallTime? {
        let parts = text.split { $0 == " " || $0 == "-" || $0 == "," }
        guard parts.count == 6, parts[5] == "GMT", let day = Int64(parts[1]), (1...31).contains(day),
            let month = months.firstIndex(of: parts[2].lowercased()).map({ Int64($0) + 1 }),
            let year = Int64(parts[3]), (1970...9999).contains(year)
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int64($0) }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        // The days since 1970 of a Gregorian date, with March as the first month of the year.
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        return WallTime(seconds: days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2])
    }
}
