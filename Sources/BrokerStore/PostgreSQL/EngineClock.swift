import Broker

/// The SQL for the engine's own clock, which times claims.
enum EngineClock {
    /// The moment of the transaction in milliseconds, unless the parameter `moment` gives one, as tests do.
    static let moment = "coalesce(:moment, (extract(epoch FROM now()) * 1000)::bigint)"

    /// Whether the claim of `row` is valid at `moment`.
    ///
    /// If a claim ends later than a new claim could end, the clock was set back, so the claim does not count as valid.
    static func stands(_ row: String, _ moment: String) -> String {
        "(\(row).claim_until > \(moment) AND \(row).claim_until <= \(moment) + 600000)"
    }

    /// Whether the claim of `row` lapsed so shortly before `moment` that its owner may still return.
    static func justLapsed(_ row: String, _ moment: String) -> String {
        let grace = RefreshMarks.grace.components.seconds * 1000
        return "(\(row).claim_until <= \(moment) AND \(row).claim_until > \(moment) - \(grace))"
    }
}
