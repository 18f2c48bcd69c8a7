/// The memory that a session row has of its refreshes, and the rules of claims.
///
/// SQLite and the store of tests run this code inside their transactions; PostgreSQL says the same in SQL
/// (`PostgreSQLSessionSQL.claim`, `release` and `commit`), and `RefreshContract` holds them together. The moments are the
/// engine's own monotonic time.
package struct RefreshMarks: Sendable, Equatable {
    package var claim: ClaimID?
    package var claimUntil: Duration?
    /// When a claim of this version was last taken over from a lapsed one.
    package var takenOverAt: Duration?
    /// Whether the refresh token of the version before may have gone out twice; the next good refresh clears it.
    package var takenOverBefore = false
    package var answerLost = false
    package var holdUntil: Duration?
    package var emptyRefusals = 0
    package var firstEmptyAt: Duration?

    package init() {}

    /// How long a claim that lapsed is left alone: its owner may be cut off with a new pair in hand, and comes back.
    package static let grace = Duration.seconds(60)

    /// The answer to a claim; `granted(again:)` says whether it was granted before under the same name.
    package enum Decision: Sendable, Equatable {
        case granted(again: Bool), busy(for: Duration), heldBack(for: Duration)
    }

    /// Claims for `lifetime` from `now`.
    ///
    /// The same name gets its claim again. A lapsed claim of another is taken over only where `takesOver`, and when
    /// its owner has had `grace` to come back.
    package mutating func claim(
        _ name: ClaimID, for lifetime: Duration, takesOver: Bool, at now: Duration
    ) -> Decision {
        if let until = claimUntil {
            if claim == name {
                claimUntil = now + lifetime
                return .granted(again: true)
            }
            if now < until { return .busy(for: until - now) }
            guard takesOver, now - until >= Self.grace else { return .busy(for: .seconds(1)) }
            takenOverAt = now
        } else if let until = holdUntil, now < until {
            return .heldBack(for: until - now)
        }
        claim = name
        claimUntil = now + lifetime
        holdUntil = nil
        return .granted(again: false)
    }

    /// Returns what a granted claim has to know.
    package func grant(fence: Int64, at now: Duration) -> RefreshGrant {
        RefreshGrant(
            fence: fence, takenOverFor: takenOverAt.map { now - $0 }, takenOverBefore: takenOverBefore,
            answerLost: answerLost, emptyRefusals: emptyRefusals,
            emptyFor: firstEmptyAt.map { now - $0 } ?? .zero)
    }

    /// Gives the claim back; the take-over stays remembered.
    ///
    /// Without a claim it was given back before: one whose answer was lost comes twice, and a refusal counts once.
    package mutating func release(_ release: RefreshRelease, at now: Duration) {
        guard claimUntil != nil else { return }
        claim = nil
        claimUntil = nil
        holdUntil = release.holdBack > .zero ? now + release.holdBack : nil
        if release.answerLost { answerLost = true }
        if release.emptyRefusal {
            emptyRefusals += 1
            firstEmptyAt = firstEmptyAt ?? now
        }
    }

    /// Returns the marks of the version that a commit begins: only that this one's refresh token may have gone out twice
    /// goes along.
    package func afterCommit(answerLost: Bool) -> RefreshMarks {
        var next = RefreshMarks()
        next.takenOverBefore = takenOverAt != nil || self.answerLost || answerLost
        return next
    }

    /// Returns the marks as a process finds them that began at `begun`: the former process is gone, so its claims have lapsed
    /// and nobody comes back for them, and what was counted from one of its moments counts from now.
    ///
    /// A provider that asked to be left alone is left alone for as long as it asked, from the beginning.
    package func inherited(at now: Duration, by begun: Duration, holdFor: Duration?) -> RefreshMarks {
        var marks = self
        if claimUntil != nil {
            marks.claim = nil
            marks.claimUntil = now - Self.grace
        }
        if takenOverAt != nil { marks.takenOverAt = now }
        if firstEmptyAt != nil { marks.firstEmptyAt = now }
        marks.holdUntil = holdUntil == nil ? nil : holdFor.map { begun + $0 }
        return marks
    }
}
