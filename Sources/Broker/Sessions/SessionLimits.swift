/// Computes the times at which a session ends on its own (SEC-40).
package enum SessionLimits {
    /// Returns the latest time at which a session ends.
    ///
    /// The absolute lifetime is capped by the known life of the refresh token, or by the access token's if a refresh is
    /// impossible. Without tokens, the absolute lifetime is the only limit.
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
    /// The ends of the tokens are left out: refreshes move them often, but the idle end is rarely written.
    static func idleEnd(usedAt now: WallTime, created: WallTime, _ lifetimes: SessionLifetimes) -> WallTime {
        min(now.advanced(by: lifetimes.idle), created.advanced(by: lifetimes.absolute))
    }

    /// Returns the time between two writes of the idle end: 1 % of the idle time, at least a second.
    package static func slideInterval(idle: Duration) -> Duration { max(.seconds(1), idle / 100) }

    /// The time between a session's lapse and the moment when it becomes a tombstone.
    ///
    /// The session is kept for this time so that a wrong clock can be corrected.
    package static let lapseGrace = Duration.seconds(86_400)

    /// Returns the reason why a session has lapsed; nil while it is alive.
    package static func lapse(of row: SessionRow, at now: WallTime) -> EndReason? {
        SessionEnds(row).lapse(at: now)
    }
}

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
        self.init(
            idleExpiresAt: row.idleExpiresAt, expiresAt: row.expiresAt, tokenExpiresAt: row.tokenExpiresAt,
            refreshable: row.refreshable)
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

/// The state of a session according to its times, before an ending is stored.
enum SessionStanding: Sendable, Equatable {
    case lives
    case lapsed(EndReason)
    /// The session has lapsed according to a clock in doubt, so the broker draws no conclusion.
    case doubted

    /// Judges a row by the time, and by the session's uses that are kept in memory while the clock is in doubt.
    init(_ row: SessionRow, _ context: BrokerContext) {
        guard let reason = SessionLimits.lapse(of: row, at: context.lapseTime), !context.isKeptAlive(row) else {
            self = .lives
            return
        }
        self = context.may(.concludeLapse) ? .lapsed(reason) : .doubted
    }
}
