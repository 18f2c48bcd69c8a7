/// Computes the times at which a session ends on its own (SEC-40).
package enum SessionLimits {
    /// Returns the latest end that a session can have.
    ///
    /// The session ends after its absolute lifetime, or earlier with the refresh token if the token's end is known. If a
    /// refresh is impossible, the end of the access token counts instead. Without tokens, the absolute lifetime is the only
    /// limit.
    package static func end(
        created: WallTime, _ lifetimes: SessionLifetimes, tokens: TokenSet?, refreshable: Bool
    ) -> WallTime {
        var end = created.advanced(by: lifetimes.absolute)
        if refreshable {
            if let refreshEnd = tokens?.refreshExpiresAt { end = min(end, refreshEnd) }
        } else if let tokenEnd = tokens?.expiresAt {
            end = min(end, tokenEnd)
        }
        return end
    }

    /// Returns the idle end of a session that was used at `now`.
    ///
    /// The ends of the tokens are left out, because refreshes move them often, but the idle end is rarely written.
    static func idleEnd(usedAt now: WallTime, created: WallTime, _ lifetimes: SessionLifetimes) -> WallTime {
        min(now.advanced(by: lifetimes.idle), created.advanced(by: lifetimes.absolute))
    }

    /// Returns the time between two writes of the idle end: 1 % of the idle time, at least a second.
    package static func slideInterval(idle: Duration) -> Duration { max(.seconds(1), idle / 100) }

    /// The time between a session's lapse and the moment when it becomes a tombstone.
    ///
    /// The session is kept for this time so that a wrong clock can be corrected.
    package static let lapseGrace = Duration.seconds(86_400)
}
