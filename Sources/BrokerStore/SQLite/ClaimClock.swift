/// The moment of a transaction by the process's monotonic clock, and what tells this process from those before.
struct ClaimClock: Sendable {
    let epoch: Int64
    /// When this process opened the store.
    let begun: Duration
    let moment: Duration
}
