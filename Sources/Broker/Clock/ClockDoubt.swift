/// A reason to doubt the clock.
package enum ClockDoubt: String, Sendable, CaseIterable {
    /// The wall clock and the monotonic clock differ by more than a minute since the last look.
    case jumped
    /// At its start, the process's clock was more than a week past the last time that the store has seen.
    case absent
    /// The clock is behind the last time that the store has seen.
    case behind
    /// The wall clock differs from the database's clock by more than a minute.
    case apart
    /// The database has yet to report its time.
    case uncompared
    /// The database's clock has jumped.
    case storeJumped = "database_jumped"
    /// A doubt has ended a short time ago. Or the clock, at the start, was more than a day past the last time that the store
    /// has seen. Then only two acts are refused: burying rows, and moving the last time that the store has seen.
    case uncertain
}
