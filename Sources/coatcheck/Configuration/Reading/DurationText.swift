/// Reads and writes durations in the file's form, such as `30d` or `1h 30m`.
///
/// The form is one or more numbers with `d`, `h`, `m`, `s` or `ms`, with or without spaces in between.
enum DurationText {
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    /// Returns the duration; nil if the text is not a duration.
    ///
    /// Each unit may occur once, from large to small.
    static func parse(_ text: String) -> Duration? {
        var rest = Substring(text)
        var total: Int64 = 0
        var smallest = -1
        guard !rest.isEmpty else { return nil }
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            rest = rest.dropFirst(digits.count)
            let letters = rest.prefix { $0.isASCII && $0.isLetter }
            rest = rest.dropFirst(letters.count).drop { $0 == " " }
            guard let number = Int64(digits), let index = units.firstIndex(where: { $0.name == letters }),
                index > smallest
            else { return nil }
            smallest = index
            let (product, overflow) = number.multipliedReportingOverflow(by: units[index].milliseconds)
            let (sum, overflowed) = total.addingReportingOverflow(product)
            guard !overflow, !overflowed else { return nil }
            total = sum
        }
        return text.hasSuffix(" ") ? nil : .milliseconds(total)
    }

    /// Writes a duration in its largest exact unit.
    static func write(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
        guard let unit = units.first(where: { milliseconds != 0 && milliseconds % $0.milliseconds == 0 }) else {
            return "0s"
        }
        return "\(milliseconds / unit.milliseconds)\(unit.name)"
    }
}
