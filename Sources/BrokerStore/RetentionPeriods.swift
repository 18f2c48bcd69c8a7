package import Broker

/// The periods for which used rows are kept, and other numbers that all engines share.
package enum RetentionPeriods {
    /// The period for logins and registrations, counted from their expiry, and for exchanges, counted from their creation.
    package static let spent = Duration.seconds(86_400)
    /// The period for tombstones, counted from the session's end.
    package static let tombstone = Duration.seconds(30 * 86_400)
    /// The period for lapsed sessions, until they become tombstones.
    ///
    /// Within this time a wrong clock can be corrected.
    package static let lapsed = SessionLimits.lapseGrace
    /// The longest time by which outbox work may be postponed.
    ///
    /// The broker never postpones work for as long as this.
    package static let longestPostponement = Duration.seconds(7200)
    /// The largest number of lapsed sessions that one sweep announces.
    package static let announcedLapses = 10_000
    /// The largest number of pending logins that are returned for one login token.
    package static let pendingLogins = 32
}

extension SessionRow {
    /// The row as a tombstone, without token columns and presence key.
    package func ended(_ reason: EndReason, at now: WallTime) -> SessionRow {
        var row = self
        row.endedAt = now
        row.endReason = reason
        row.tokens = nil
        row.presence = nil
        return row
    }
}
