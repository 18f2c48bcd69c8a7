/// Reads a moment in the form of the configuration: a date, or an instant of RFC 3339 section 5.6.
package enum MomentText {
    /// Returns the moment; nil for other texts.
    ///
    /// A date means the last second of that day in UTC. Fractions of a second are cut off.
    package static func parse(_ text: String) -> WallTime? {
        let bytes = Array(text.utf8)
        guard bytes.count > 10 else { return utc(bytes[...], "23:59:59".utf8) }
        guard bytes.count >= 20, bytes[10] | 0x20 == UInt8(ascii: "t"), let local = utc(bytes[..<10], bytes[11..<19])
        else { return nil }
        var rest = bytes[19...]
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix(while: isDigit)
            guard (1...9).contains(digits.count) else { return nil }
            rest = rest.dropFirst(1 + digits.count)
        }
        return offset(rest).map { local.advanced(by: .seconds(-$0)) }
    }

    /// Returns a date and a time of UTC as a moment, if it is after the beginning of 1970.
    private static func utc(_ date: some Sequence<UInt8>, _ time: some Sequence<UInt8>) -> WallTime? {
        let text =
            String(decoding: Array(date), as: UTF8.self) + "T" + String(decoding: Array(time), as: UTF8.self) + "Z"
        guard let moment = WallTime(rfc3339: text), moment > WallTime(seconds: 0) else { return nil }
        return moment
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// Returns the difference between local time and UTC, in seconds.
    private static func offset(_ bytes: ArraySlice<UInt8>) -> Int64? {
        guard let sign = bytes.first else { return nil }
        let rest = bytes.dropFirst()
        if sign | 0x20 == UInt8(ascii: "z") { return rest.isEmpty ? 0 : nil }
        guard sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-"),
            let ahead = utc("1970-01-02".utf8, Array(rest) + Array(":00".utf8))
        else { return nil }
        let seconds = ahead.seconds - 86_400
        return sign == UInt8(ascii: "-") ? -seconds : seconds
    }
}
