import Broker

/// The SQL of the engine's own clock, by which claims stand and lapse.
enum EngineClock {
    /// The moment of the transaction in milliseconds, unless parameter `number` gives one, as tests do.
    static func moment(_ number: Int) -> String {
        "coalesce($\(number), (extract(epoch FROM now()) * 1000)::bigint)"
    }

    /// Whether the claim of `row` stands at `moment`.
    ///
    /// One that ends further away than any claim lasts was made by a clock that has been set back since.
    static func stands(_ row: String, _ moment: String) -> String {
        "(\(row).claim_until > \(moment) AND \(row).claim_until <= \(moment) + 600000)"
    }

    /// Whether the claim of `row` lapsed so short a time before `moment` that its owner may come back.
    static func justLapsed(_ row: String, _ moment: String) -> String {
        let grace = RefreshMarks.grace.components.seconds * 1000
        return "(\(row).claim_until <= \(moment) AND \(row).claim_until > \(moment) - \(grace))"
    }
}
