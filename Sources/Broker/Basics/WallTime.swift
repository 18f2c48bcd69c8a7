/// A moment of the calendar, as milliseconds since 1970-01-01 UTC in 64 bits (SEC-128).
package struct WallTime: Sendable, Hashable, Comparable {
    /// Milliseconds since 1970 UTC.
    package let milliseconds: Int64

    /// Creates a moment from milliseconds since 1970 UTC.
    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Creates a moment from whole seconds since 1970 UTC; saturates.
    package init(seconds: Int64) {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        milliseconds = overflow ? (seconds < 0 ? .min : .max) : product
    }

    /// Whole seconds since 1970 UTC, rounded down.
    package var seconds: Int64 {
        let quotient = milliseconds / 1000
        return milliseconds % 1000 < 0 ? quotient - 1 : quotient
    }

    /// Returns the moment `duration` later (or earlier, if negative); saturates.
    package func advanced(by duration: Duration) -> WallTime {
        let (sum, overflow) = milliseconds.addingReportingOverflow(duration.wholeMilliseconds)
        return WallTime(milliseconds: overflow ? (duration < .zero ? .min : .max) : sum)
    }

    /// Returns the time from `earlier` to this moment; negative if `earlier` is later; saturates.
    package func since(_ earlier: WallTime) -> Duration {
        let (difference, overflow) = milliseconds.subtractingReportingOverflow(earlier.milliseconds)
        return .milliseconds(overflow ? (self < earlier ? Int64.min : Int64.max) : difference)
    }

    package static func < (left: WallTime, right: WallTime) -> Bool { left.milliseconds < right.milliseconds }
}

extension Duration {
    /// Whole milliseconds, rounded towards zero; saturates.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let (sum, overflowed) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return overflowed ? (seconds < 0 ? .min : .max) : sum
    }

    /// Whole seconds, rounded towards zero.
    package var wholeSeconds: Int64 { components.seconds }
}

/// A moment in the proleptic Gregorian calendar, in UTC.
///
/// The fields are computed here for speed, because every answer contains such a time, and a session object contains five.
struct CivilTime {
    let year: Int64
    let month: Int64
    let day: Int64
    /// Days since Sunday.
    let weekday: Int64
    /// Seconds since midnight.
    let second: Int64

    /// Creates the calendar time of a moment; years outside 0–9999 are clamped, so that texts keep their length.
    init(_ time: WallTime) {
        let clamped = min(max(time.seconds, -62_167_219_200), 253_402_300_799)
        var days = clamped / 86_400
        var rest = clamped % 86_400
        if rest < 0 {
            rest += 86_400
            days -= 1
        }
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        // The first of January 1970 was a Thursday.
        weekday = ((days % 7) + 11) % 7
        second = rest
    }

    /// Appends a number in decimal, with leading zeros.
    static func append(_ value: Int64, digits: Int, to text: inout [UInt8]) {
        var divisor: Int64 = digits == 4 ? 1000 : 10
        while divisor > 0 {
            text.append(48 + UInt8(truncatingIfNeeded: value / divisor % 10))
            divisor /= 10
        }
    }

    /// Appends the time of day in the form `21:00:00`.
    func appendClock(to text: inout [UInt8]) {
        Self.append(second / 3600, digits: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.append(second / 60 % 60, digits: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.append(second % 60, digits: 2, to: &text)
    }
}

extension WallTime {
    /// The moment as an RFC 3339 UTC text with whole seconds (`2026-11-20T21:00:00Z`).
    package var rfc3339: String {
        var text: [UInt8] = []
        text.reserveCapacity(20)
        appendRFC3339(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends the moment as an RFC 3339 UTC text.
    func appendRFC3339(to text: inout [UInt8]) {
        let time = CivilTime(self)
        CivilTime.append(time.year, digits: 4, to: &text)
        text.append(UInt8(ascii: "-"))
        CivilTime.append(time.month, digits: 2, to: &text)
        text.append(UInt8(ascii: "-"))
        CivilTime.append(time.day, digits: 2, to: &text)
        text.append(UInt8(ascii: "T"))
        time.appendClock(to: &text)
        text.append(UInt8(ascii: "Z"))
    }
}

extension WallTime {
    /// Parses exactly the form that `rfc3339` writes; nil for any other text.
    package init?(rfc3339 text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count == 20 else { return nil }
        func number(_ range: Range<Int>) -> Int64? {
            var value: Int64 = 0
            for byte in bytes[range] {
                guard (0x30...0x39).contains(byte) else { return nil }
                value = value * 10 + Int64(byte - 0x30)
            }
            return value
        }
        guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10),
            let hour = number(11..<13), let minute = number(14..<16), let second = number(17..<19),
            (1...12).contains(month)
        else { return nil }
        // Computes the days since 1970 in the proleptic Gregorian calendar. The year begins in March, so that a leap day is its
        // last day.
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        self.init(seconds: days * 86_400 + hour * 3600 + minute * 60 + second)
        // Only the text that the broker itself writes for this time is accepted. So a 30th of February and unusual separators
        // are refused.
        guard rfc3339 == text else { return nil }
    }
}

extension WallTime {
    /// The moment in HTTP's form (`Fri, 20 Nov 2026 21:00:00 GMT`, RFC 9110 section 5.6.7).
    package var httpDate: String { date(" ") }

    /// The moment in the form of cookies (`Fri, 20-Nov-2026 21:00:00 GMT`, RFC 6265 section 5.1.1).
    ///
    /// Apache HttpClient 4 drops a cookie with any other form.
    package var cookieDate: String { date("-") }

    private func date(_ separator: Unicode.Scalar) -> String {
        let separator = UInt8(ascii: separator)
        let time = CivilTime(self)
        var text: [UInt8] = []
        text.reserveCapacity(29)
        Self.append(3, of: Self.weekdays, at: time.weekday, to: &text)
        text.append(contentsOf: ", ".utf8)
        CivilTime.append(time.day, digits: 2, to: &text)
        text.append(separator)
        Self.append(3, of: Self.months, at: time.month - 1, to: &text)
        text.append(separator)
        CivilTime.append(time.year, digits: 4, to: &text)
        text.append(UInt8(ascii: " "))
        time.appendClock(to: &text)
        text.append(contentsOf: " GMT".utf8)
        return String(decoding: text, as: UTF8.self)
    }

    private static let weekdays = "SunMonTueWedThuFriSat"
    private static let months = "JanFebMarAprMayJunJulAugSepOctNovDec"

    private static func append(_ count: Int, of names: String, at index: Int64, to text: inout [UInt8]) {
        text.append(contentsOf: names.utf8.dropFirst(count * Int(index)).prefix(count))
    }
}
