import Broker
import GRDB

/// A session's refresh marks as stored in its row, with the columns for judging a claim.
struct StoredMarks {
    let tokenVersion: Int64
    var fence: Int64
    var marks: RefreshMarks
    private let endedAt: WallTime?
    private let idleExpiresAt: WallTime
    private let expiresAt: WallTime

    /// Reads the columns of `RefreshSQL.marks`.
    ///
    /// If another process wrote the marks, their periods start again, because each process has its own monotonic clock.
    init(_ columns: inout Columns, _ clock: ClaimClock) throws {
        try columns.requireFormat()
        tokenVersion = try columns.integer()
        fence = try columns.integer()
        var marks = RefreshMarks()
        marks.claim = try columns.optionalBytes().flatMap { ClaimID($0) }
        marks.claimUntil = columns.optionalDuration()
        let isOurs = columns.optionalInteger() == clock.epoch
        marks.takenOverAt = columns.optionalDuration()
        marks.takenOverBefore = try columns.integer() != 0
        marks.answerLost = try columns.integer() != 0
        marks.holdUntil = columns.optionalDuration()
        let holdFor = columns.optionalDuration()
        marks.emptyRefusals = try columns.small()
        marks.firstEmptyAt = columns.optionalDuration()
        self.marks = isOurs ? marks : marks.inherited(at: clock.moment, by: clock.begun, holdFor: holdFor)
        endedAt = columns.optionalTime()
        idleExpiresAt = try columns.time()
        expiresAt = try columns.time()
    }

    func isLive(at now: WallTime) -> Bool { endedAt == nil && now < idleExpiresAt && now < expiresAt }
    var isEnded: Bool { endedAt != nil }

    /// The values of `RefreshSQL.mark`, from these marks.
    func values(_ tokenDigest: Digest, _ clock: ClaimClock) -> Named<DatabaseValue> {
        Self.values(tokenDigest, fence, marks, clock)
    }

    /// The values of `RefreshSQL.mark`.
    static func values(
        _ tokenDigest: Digest, _ fence: Int64, _ marks: RefreshMarks, _ clock: ClaimClock
    ) -> Named<DatabaseValue> {
        [
            "fence": fence.databaseValue, "claim": marks.claim.map { $0.bytes.sql } ?? .null,
            "claim_until": marks.claimUntil.sql, "claim_epoch": clock.epoch.databaseValue,
            "taken_over_at": marks.takenOverAt.sql, "taken_over_before": marks.takenOverBefore.databaseValue,
            "answer_lost": marks.answerLost.databaseValue, "hold_until": marks.holdUntil.sql,
            "empty_refusals": marks.emptyRefusals.databaseValue, "first_empty_at": marks.firstEmptyAt.sql,
            "hold_for": marks.holdUntil.map { max($0 - clock.moment, .zero) }.sql, "token": tokenDigest.sql,
        ]
    }
}
