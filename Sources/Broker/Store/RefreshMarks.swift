/// The history of refreshes in a session's row (its refresh marks), and the rules for claims.
///
/// SQLite and the test store run this code inside their transactions. PostgreSQL has the same rules in SQL
/// (`PostgreSQLSessionSQL.claim`, `release` and `commit`), and `RefreshContract` tests all engines alike. Moments are in the
/// engine's own monotonic time.
package struct RefreshMarks: Sendable, Equatable {
    package var claim: ClaimID?
    package var claimUntil: Duration?
    /// The time when a lapsed claim of this token version was last taken over.
    package var takenOverAt: Duration?
    /// Whether the refresh token of the previous token version may have been sent twice; the next successful refresh clears
    /// this.
    package var takenOverBefore = false
    package var answerLost = false
    package var holdUntil: Duration?
    package var emptyRefusals = 0
    package var firstEmptyAt: Duration?

    package init() {}

    /// The time between a claim's lapse and the first possible take-over.
    ///
    /// Until then, the owner may return with a new token pair, for example after a lost connection.
    package static let grace = Duration.seconds(60)

    /// The verdict on a request for a claim; `again` is true if the same name already had the claim.
    package enum Decision: Sendable, Equatable {
        case granted(again: Bool), busy(for: Duration), heldBack(for: Duration)
    }

    /// Grants a claim for `lifetime` from `now`, or refuses it.
    ///
    /// A repeated request under the same name gets the claim again. Another owner's lapsed claim is taken over only if
    /// `takesOver` is true and `grace` has passed since the lapse.
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

    /// Returns the facts that the owner of a granted claim needs.
    package func grant(fence: Int64, at now: Duration) -> RefreshGrant {
        RefreshGrant(
            fence: fence, takenOverFor: takenOverAt.map { now - $0 }, takenOverBefore: takenOverBefore,
            answerLost: answerLost, emptyRefusals: emptyRefusals,
            emptyFor: firstEmptyAt.map { now - $0 } ?? .zero)
    }

    /// Releases the claim; `takenOverAt` stays.
    ///
    /// If there is no claim, an earlier attempt of the same release was stored and only its response was lost. The marks then
    /// stay unchanged, because the refusal must count only one time.
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

    /// Returns the refresh marks for the new token version after a commit.
    ///
    /// Of the old marks, only one fact stays: whether the refresh token of the version before may have been sent twice.
    package func afterCommit(answerLost: Bool) -> RefreshMarks {
        var next = RefreshMarks()
        next.takenOverBefore = takenOverAt != nil || self.answerLost || answerLost
        return next
    }

    /// Returns the refresh marks of a former process, converted for the present process, which began at `begun`.
    ///
    /// The former process is gone, so its claims have lapsed and their owners are dead. The monotonic times of the former process
    /// are useless here, so the periods start again at `now`. If a provider asked for a pause, the rest of the pause that was
    /// stored counts from `begun`.
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
