/// Reads and writes sizes as the file has them: a number and `B`, `KiB`, `MiB` or `GiB`.
enum SizeText {
    private static let units: [(name: String, bytes: Int)] = [
        ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]

    /// Returns the size in bytes, or nil when the text is none.
    static func parse(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text.dropFirst(digits.count).drop { $0 == " " }
        guard let number = Int(digits), let bytes = units.first(where: { $0.name == unit })?.bytes else { return nil }
        let (product, overflow) = number.multipliedReportingOverflow(by: bytes)
        return overflow ? nil : product
    }

    /// Writes a size in its largest exact unit.
    static func write(_ bytes: Int) -> String {
        guard let unit = units.first(where: { bytes != 0 && bytes % $0.bytes == 0 }) else { return "0B" }
        return "\(bytes / unit.bytes)\(unit.name)"
    }
}
