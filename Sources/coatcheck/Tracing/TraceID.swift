/// Makes the ids of traces and spans: random, never all zeros, and no secrets.
enum TraceID {
    /// Returns 32 hexadecimal digits.
    static func fresh() -> String { hexadecimal(.random(in: 1 ... .max)) + hexadecimal(.random(in: 1 ... .max)) }

    /// Returns 16 hexadecimal digits.
    static func freshSpan() -> String { hexadecimal(.random(in: 1 ... .max)) }

    private static func hexadecimal(_ bits: UInt64) -> String {
        let text = String(bits, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }
}
