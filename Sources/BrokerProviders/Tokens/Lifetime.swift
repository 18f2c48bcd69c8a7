import Broker

/// Reads a lifetime as providers write it (SEC-21): absent, zero, negative, fractional, as text, huge or as a moment.
enum Lifetime {
    /// No token is believed to live longer.
    static let longest: Int64 = 400 * 86_400
    /// A "duration" from here up is a moment since 1970.
    private static let earliestMoment: Double = 1_000_000_000

    /// Returns the moment that the value means, or nil when it means none (absent, past, zero, nonsense).
    static func end(_ value: JSONValue?, unit: TokenResponseSettings.Unit, now: WallTime) -> WallTime? {
        guard let number = number(value), number > 0 else { return nil }
        let present = Double(now.milliseconds) / 1000
        var remaining = number
        if unit == .epochSeconds || number >= earliestMoment {
            // Some servers count milliseconds: nothing else is that far away.
            remaining = (number >= 100_000_000_000 ? number / 1000 : number) - present
        }
        guard remaining >= 1 else { return nil }
        let seconds = remaining >= Double(longest) ? longest : Int64(exactly: remaining.rounded(.down)) ?? longest
        return now.advanced(by: .seconds(seconds))
    }

    private static func number(_ value: JSONValue?) -> Double? {
        switch value {
        case .number: value?.double
        case .string(let text) where text.utf8.count <= 32: Double(text).flatMap { $0.isFinite ? $0 : nil }
        default: nil
        }
    }
}
