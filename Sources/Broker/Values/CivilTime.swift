/// A moment as the proleptic Gregorian calendar and the UTC clock name it.
///
/// Worked out here because every answer carries such a time and a session object five.
struct CivilTime {
    let year: Int64
    let month: Int64
    let day: Int64
    /// Days since Sunday.
    let weekday: Int64
    /// Seconds since midnight.
    let second: Int64

    /// Years outside 0–9999 are clamped, so that texts keep their shape.
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

    /// Appends `21:00:00`.
    func appendClock(to text: inout [UInt8]) {
        Self.append(second / 3600, digits: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.append(second / 60 % 60, digits: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.append(second % 60, digits: 2, to: &text)
    }
}
