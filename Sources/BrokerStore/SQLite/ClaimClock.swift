/// The time of a transaction by the process's monotonic clock, and the id of this process.
struct ClaimClock: Sendable {
    let epoch: Int64
    /// The time when this process opened the store.
    let begun: Duration
    let moment: Duration
}
