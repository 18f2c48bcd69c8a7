extension WallTime {
    /// The moment as HTTP writes it (`Fri, 20 Nov 2026 21:00:00 GMT`, RFC 9110 section 5.6.7).
    package var httpDate: String {
        let time = CivilTime(self)
        var text: [UInt8] = []
        text.reserveCapacity(29)
        Self.append(3, of: Self.weekdays, at: time.weekday, to: &text)
        text.append(contentsOf: ", ".utf8)
        CivilTime.append(time.day, digits: 2, to: &text)
        text.append(UInt8(ascii: " "))
        Self.append(3, of: Self.months, at: time.month - 1, to: &text)
        text.append(UInt8(ascii: " "))
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
