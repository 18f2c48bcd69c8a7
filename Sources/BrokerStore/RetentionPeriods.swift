package import Broker

/// The times for which rows stay after they have served, and other numbers that all engines share.
package enum RetentionPeriods {
    /// Logins and registrations, after they expired; exchanges, after they were made.
    package static let spent = Duration.seconds(86_400)
    /// Tombstones, after the session ended.
    package static let tombstone = Duration.seconds(30 * 86_400)
    /// Sessions that have lapsed, before they become tombstones: a clock that was wrong can be set right.
    package static let lapsed = SessionLimits.lapseGrace
    /// No work of the outbox is put off for so long.
    package static let longestPostponement = Duration.seconds(7200)
    /// The most lapses that one sweep makes known.
    package static let announcedLapses = 10_000
    /// The most pending logins of one login token that are returned.
    package static let pendingLogins = 32
}

extension SessionRow {
    /// The row as a tombstone: no token column and no presence key stays.
    package func ended(_ reason: EndReason, at now: WallTime) -> SessionRow {
        var row = self
        row.endedAt = now
        row.endReason = reason
        row.tokens = nil
        row.presence = nil
        return row
    }
}

/// The time that never goes back, by which stores time their claims.
package enum MonotonicTime {
    private static let start = ContinuousClock.now

    /// Returns how long ago this process first asked.
    package static func now() -> Duration { start.duration(to: .now) }
}
