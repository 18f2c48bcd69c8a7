/// The result of comparing the clock, at the start of a process, with the last time that the store has recorded.
package enum ClockStart: Sendable, Equatable {
    case believed
    /// The clock is between a day and a week past the last time that the store has recorded. Lapsed sessions count as lapsed,
    /// but for a day no row is buried.
    case uncertain
    /// The clock is more than a week past the last time that the store has recorded. For an hour, no session counts as lapsed,
    /// and a session can begin only if the store has a clock of its own.
    case doubted
    /// The clock is behind the last time that the store has recorded, so it is certainly wrong. The rules of `doubted` hold
    /// until the clock has caught up.
    case behind
    /// The clock differs from the store's own clock, or the two were not compared yet. The broker uses the store's clock.
    case off
}
