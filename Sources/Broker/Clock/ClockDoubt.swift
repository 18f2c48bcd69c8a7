/// A reason to doubt the clock.
package enum ClockDoubt: String, Sendable, CaseIterable {
    /// The wall clock and the monotonic clock have diverged by more than a minute since they were last read.
    case jumped
    /// At the start of the process, its clock was more than a week past the last time that the store has recorded.
    case absent
    /// The clock is behind the last time that the store has recorded.
    case behind
    /// The machine's wall clock differs from the database's clock by more than a minute.
    case apart
    /// The database has yet to report its time.
    case uncompared
    /// The database's clock has jumped by more than a minute.
    case storeJumped = "database_jumped"
    /// The clock is trusted for most acts. But a doubt has ended recently, or the clock was more than a day past the store's
    /// mark at the start. (The mark is the last time that the store has recorded.) Only two acts are refused: burying rows, and
    /// moving the mark.
    case uncertain
}
