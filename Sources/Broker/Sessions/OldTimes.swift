/// The times of the old system's session that a new session was moved from.
struct OldTimes: Sendable {
    /// The beginning that the new session shows; its own lifetimes count from the move.
    var createdAt: WallTime?
    /// The latest end of the new session.
    var expiresAt: WallTime?

    /// Returns lifetimes that begin at `now`, and end with the old session at the latest.
    func bounding(_ lifetimes: SessionLifetimes, from now: WallTime) -> SessionLifetimes {
        var bounded = lifetimes
        if let expiresAt { bounded.absolute = min(lifetimes.absolute, max(expiresAt.since(now), .zero)) }
        return bounded
    }

    /// Returns the beginning to show; nil if it is unknown or lies in the future.
    func shown(at now: WallTime) -> WallTime? { createdAt.flatMap { $0 < now ? $0 : nil } }
}
