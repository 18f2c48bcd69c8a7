extension WallTime {
    /// The moment as an RFC 3339 UTC text with whole seconds (`2026-11-20T21:00:00Z`).
    ///
    /// Written out here because a session object carries five of them on the hot path; the days-to-date arithmetic is
    /// the proleptic Gregorian calendar's. Years outside 0–9999 are clamped, so that the text keeps its shape.
    package var rfc3339: String {
        let clamped = min(max(seconds, -62_167_219_200), 253_402_300_799)
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
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)

        var text: [UInt8] = []
        text.reserveCapacity(20)
        func append(_ value: Int64, digits: Int) {
            var divisor: Int64 = digits == 4 ? 1000 : 10
            while divisor > 0 {
                text.append(48 + UInt8(truncatingIfNeeded: value / divisor % 10))
                divisor /= 10
            }
        }
        append(year, digits: 4)
        text.append(UInt8(ascii: "-"))
        append(month, digits: 2)
        text.append(UInt8(ascii: "-"))
        append(day, digits: 2)
        text.append(UInt8(ascii: "T"))
        append(rest / 3600, digits: 2)
        text.append(UInt8(ascii: ":"))
        append(rest / 60 % 60, digits: 2)
        text.append(UInt8(ascii: ":"))
        append(rest % 60, digits: 2)
        text.append(UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }
}
