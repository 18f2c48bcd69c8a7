extension WallTime {
    /// The moment as an RFC 3339 UTC text with whole seconds (`2026-11-20T21:00:00Z`).
    package var rfc3339: String {
        let time = CivilTime(self)
        var text: [UInt8] = []
        text.reserveCapacity(20)
        CivilTime.append(time.year, digits: 4, to: &text)
        text.append(UInt8(ascii: "-"))
        CivilTime.append(time.month, digits: 2, to: &text)
        text.append(UInt8(ascii: "-"))
        CivilTime.append(time.day, digits: 2, to: &text)
        text.append(UInt8(ascii: "T"))
        time.appendClock(to: &text)
        text.append(UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }
}
