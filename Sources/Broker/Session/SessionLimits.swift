/// Computes a session's times (SEC-40).
package enum SessionLimits {
    /// Returns when a session ends at the latest.
    ///
    /// It is its absolute lifetime, capped by the refresh token's known life, or by the access token's where nothing can
    /// refresh it; without tokens it is the absolute lifetime alone.
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

    /// Returns when a session that was used at a time ends if nobody uses it again.
    ///
    /// The tokens' ends are not in it: a refresh moves them, and not this one, which is written rarely.
    static func idleEnd(usedAt now: WallTime, created: WallTime, _ lifetimes: SessionLifetimes) -> WallTime {
        min(now.advanced(by: lifetimes.idle), created.advanced(by: lifetimes.absolute))
    }

    /// Returns how long after the last write of the idle time the next is due: 1 % of it, at least a second.
    package static func slideInterval(idle: Duration) -> Duration { max(.seconds(1), idle / 100) }

    /// The time for which a session that has lapsed stays whole before its tombstone: a clock that was wrong can be set right.
    package static let lapseGrace = Duration.seconds(86_400)

    /// Returns why a session that is past its times has ended, or nil while it lives.
    package static func lapse(of row: SessionRow, at now: WallTime) -> EndReason? {
        SessionEnds(row).lapse(at: now)
    }
}

/// The times by which a session ends that nobody ends, and the one rule of why it did.
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

    /// The reason of its end: whichever end comes first, and of two at once not the idle time.
    package var reason: EndReason {
        if idleExpiresAt < expiresAt { return .idleExpired }
        if !refreshable, let tokenExpiresAt, tokenExpiresAt <= expiresAt { return .tokenExpired }
        return .expired
    }

    /// Returns why it has ended, or nil while it lives.
    package func lapse(at now: WallTime) -> EndReason? { now >= min(idleExpiresAt, expiresAt) ? reason : nil }
}

/// The standing, by its times, of a session that nobody has ended.
enum SessionStanding: Sendable, Equatable {
    case lives
    case lapsed(EndReason)
    /// It has lapsed by a clock that is doubted: nobody can know, and nothing is concluded from it.
    case doubted

    /// Judges a row by the time, and by the uses that are kept while the time is doubted.
    init(_ row: SessionRow, _ context: BrokerContext) {
        guard let reason = SessionLimits.lapse(of: row, at: context.lapseTime), !context.isKeptAlive(row) else {
            self = .lives
            return
        }
        self = context.may(.concludeLapse) ? .lapsed(reason) : .doubted
    }
}
