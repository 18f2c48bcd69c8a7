/// Computes a session's times (SEC-40; DESIGN section 4, lifetimes).
package enum SessionLimits {
    /// Returns when a session ends at the latest: its absolute lifetime, capped by the refresh token's known life, or by
    /// the access token's where nothing can refresh it.
    package static func end(
        created: WallTime, _ lifetimes: SessionLifetimes, tokens: TokenSet, refreshable: Bool
    ) -> WallTime {
        var end = created.advanced(by: lifetimes.absolute)
        if refreshable {
            if let refreshEnd = tokens.refreshExpiresAt { end = min(end, refreshEnd) }
        } else if let tokenEnd = tokens.expiresAt {
            end = min(end, tokenEnd)
        }
        return end
    }

    /// Returns when a session that was used at a time ends if nobody uses it again.
    ///
    /// The tokens' ends are not in it: a refresh moves them, and not this one, which is written rarely.
    static func idleEnd(usedAt now: WallTime, created: WallTime, _ lifetimes: SessionLifetimes) -> WallTime {
        min(now.advanced(by: lifetimes.idle), created.advanced(by: lifetimes.absolute))
    }

    /// Returns how long after the last write of the idle time the next is due: 1 % of it, at least a second.
    package static func slideInterval(idle: Duration) -> Duration { max(.seconds(1), idle / 100) }

    /// Returns why a session that is past its times has ended, or nil while it lives.
    package static func lapse(of row: SessionRow, at now: WallTime) -> EndReason? {
        if now >= row.expiresAt {
            if !row.refreshable, let tokenEnd = row.tokenExpiresAt, tokenEnd <= row.expiresAt { return .tokenExpired }
            return .expired
        }
        return now >= row.idleExpiresAt ? .idleExpired : nil
    }
}
