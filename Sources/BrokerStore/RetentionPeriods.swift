import Broker

/// The times for which rows stay after they have served, and other numbers that both engines share.
enum RetentionPeriods {
    /// Logins and registrations, after they expired; exchanges, after they were made.
    static let spent = Duration.seconds(86_400)
    /// Tombstones, after the session ended.
    static let tombstone = Duration.seconds(30 * 86_400)
    /// Sessions that have lapsed, before they become tombstones: a clock that was wrong can be set right.
    static let lapsed = SessionLimits.lapseGrace
    /// No work of the outbox is put off for so long.
    static let longestPostponement = Duration.seconds(7200)
    /// The most lapses that one sweep makes known.
    static let announcedLapses = 10_000
    /// The most pending logins of one login token that are returned.
    static let pendingLogins = 32
}

extension SessionRow {
    /// The row as a tombstone: no token column stays.
    func ended(_ reason: EndReason, at now: WallTime) -> SessionRow {
        var row = self
        row.endedAt = now
        row.endReason = reason
        row.tokens = nil
        return row
    }

    /// The revocation work that ending the session leaves; its id is the session's own digest, which ends once.
    func revocation(at now: WallTime) -> OutboxRow? {
        tokens.map { OutboxRow(id: token, boundTo: token, tokens: $0, createdAt: now, nextAttemptAt: now) }
    }
}
