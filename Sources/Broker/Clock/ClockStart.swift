/// The result of comparing the clock of a starting process with the last time that the store has seen.
package enum ClockStart: Sendable, Equatable {
    case believed
    /// The clock is more than a day past the last time that the store has seen. Lapsed sessions count as lapsed, but rows are
    /// not buried for a day.
    case uncertain
    /// The clock is more than a week past that time. For an hour, no session counts as lapsed, and sessions begin only if the
    /// store has a clock of its own.
    case doubted
    /// The clock is behind the last time that the store has seen, so it is certainly wrong. The rules of `doubted` hold until
    /// the clock has caught up.
    case behind
    /// The clock differs from the store's own clock, or was not yet compared with it. The broker uses the store's clock.
    case off
}
