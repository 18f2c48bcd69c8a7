/// The times at which a session ends on its own, and the rule that decides the reason.
package struct SessionEnds: Sendable, Equatable {
    package let idleExpiresAt: WallTime
    package let expiresAt: WallTime
    package let tokenExpiresAt: WallTime?
    package let refreshable: Bool

    package init(idleExpiresAt: WallTime, expiresAt: WallTime, tokenExpiresAt: WallTime?, refreshable: Bool) {
        self.idleExpiresAt = idleExpiresAt
        self.expiresAt = expiresAt
        self.tokenExpiresAt = tokenExpiresAt
        self.refreshable = refreshable
    }

    package init(_ row: SessionRow) {
        idleExpiresAt = row.idleExpiresAt
        expiresAt = row.expiresAt
        tokenExpiresAt = row.tokenExpiresAt
        refreshable = row.refreshable
    }

    /// The reason that belongs to the earliest end.
    ///
    /// If the idle end equals another end, the reason of the other end is used.
    package var reason: EndReason {
        if idleExpiresAt < expiresAt { return .idleExpired }
        if !refreshable, let tokenExpiresAt, tokenExpiresAt <= expiresAt { return .tokenExpired }
        return .expired
    }

    /// Returns the reason why the session has lapsed; nil while it is alive.
    package func lapse(at now: WallTime) -> EndReason? { now >= min(idleExpiresAt, expiresAt) ? reason : nil }
}
