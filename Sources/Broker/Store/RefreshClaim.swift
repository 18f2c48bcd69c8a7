/// A claim to refresh one version of a session's tokens.
package struct RefreshClaim: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let name: ClaimID
    /// The lifetime of the claim by the engine's own clock; the owner may renew it.
    package let lifetime: Duration
    /// Whether a claim that lapsed long enough ago may be taken over; otherwise that claim counts as valid.
    package let takesOver: Bool
    /// The caller's wall time, at which the session must be live.
    package let now: WallTime

    package init(
        tokenDigest: Digest, tokenVersion: Int64, name: ClaimID, lifetime: Duration, takesOver: Bool = true,
        now: WallTime
    ) {
        self.tokenDigest = tokenDigest
        self.tokenVersion = tokenVersion
        self.name = name
        self.lifetime = lifetime
        self.takesOver = takesOver
        self.now = now
    }
}

/// The result of a refresh claim.
package enum RefreshClaimResult: Sendable, Equatable {
    case claimed(RefreshGrant)
    /// Another owner's claim is valid for this time.
    case busy(for: Duration)
    /// The caller must wait for this time before it calls the provider.
    case heldBack(for: Duration)
    /// The session's token version has changed, so the row must be read again.
    case moved
    /// The session is missing, has ended, or is past its lifetime.
    case gone
}

/// The terms of a granted refresh claim: its fence, and the row's refresh marks for this token version.
package struct RefreshGrant: Sendable, Equatable {
    package let fence: Int64
    /// The time since a lapsed claim of this token version was last taken over; nil if there was no take-over.
    package let takenOverFor: Duration?
    /// Whether a claim of the previous token version was taken over, so its refresh token may have been sent twice.
    package let takenOverBefore: Bool
    /// Whether a refresh call for this token version was sent and its answer lost.
    package let answerLost: Bool
    /// The number of refusals for this token version that may mean a dead grant, and the time since the first.
    package let emptyRefusals: Int
    package let emptyFor: Duration

    package init(
        fence: Int64, takenOverFor: Duration? = nil, takenOverBefore: Bool = false, answerLost: Bool = false,
        emptyRefusals: Int = 0, emptyFor: Duration = .zero
    ) {
        self.fence = fence
        self.takenOverFor = takenOverFor
        self.takenOverBefore = takenOverBefore
        self.answerLost = answerLost
        self.emptyRefusals = emptyRefusals
        self.emptyFor = emptyFor
    }
}

/// The release of a claim, with the facts about the claim's provider call that the row has to remember.
package struct RefreshRelease: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let fence: Int64
    /// The time during which no further claim is granted.
    package let holdBack: Duration
    /// Whether a refresh call was sent and its answer lost.
    package let answerLost: Bool
    /// Whether the provider refused the call without a usable error code, so that the grant may be dead.
    package let emptyRefusal: Bool

    package init(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, holdBack: Duration = .zero, answerLost: Bool = false,
        emptyRefusal: Bool = false
    ) {
        self.tokenDigest = tokenDigest
        self.tokenVersion = tokenVersion
        self.fence = fence
        self.holdBack = holdBack
        self.answerLost = answerLost
        self.emptyRefusal = emptyRefusal
    }
}

/// The state of a session's refresh, for waiting callers; it is read without the sealed values.
package struct RefreshState: Sendable, Equatable {
    package let tokenVersion: Int64
    /// The remaining time of a claim, zero or negative after its lapse; nil without a claim.
    package let claimRest: Duration?
    package let isEnded: Bool

    package init(tokenVersion: Int64, claimRest: Duration?, isEnded: Bool) {
        self.tokenVersion = tokenVersion
        self.claimRest = claimRest
        self.isEnded = isEnded
    }

    /// The remaining time of a claim that is still valid; nil otherwise.
    package var claimFor: Duration? { claimRest.flatMap { $0 > .zero ? $0 : nil } }
}

/// A refreshed token set to store.
package struct RefreshCommit: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let tokens: Sealed
    /// The facts, sealed again because the scope shrank; nil leaves the stored facts unchanged.
    package let facts: Sealed?
    /// The stored facts that `facts` were made from.
    ///
    /// If the row has other facts by now, a step-up has written them, so the row's facts stay.
    package let formerFacts: Sealed?
    package let tokenExpiresAt: WallTime?
    package let refreshable: Bool
    /// The new end of the session, if the new refresh token's life changes it; nil leaves the stored end unchanged.
    package let expiresAt: WallTime?
    /// Whether the subject of the new id_token must be checked before any caller gets these tokens.
    package let subjectUnchecked: Bool
    /// Whether another call under this claim was sent and its answer lost.
    package let answerLost: Bool
    /// The access token for another API that the refresh brought; nil if the session's own access token was refreshed.
    package var audience: AudienceRow?
    /// The stored tokens that `tokens` were made from.
    ///
    /// If the row has other tokens of the same version by now, the commit is refused.
    ///
    /// Nil skips this check, for a refresh of the session's own access token, because the new token is newer than every
    /// stored one.
    package var formerTokens: Sealed?

    package init(
        tokenDigest: Digest, tokenVersion: Int64, tokens: Sealed, facts: Sealed?, formerFacts: Sealed? = nil,
        tokenExpiresAt: WallTime?, refreshable: Bool, expiresAt: WallTime?, subjectUnchecked: Bool = false,
        answerLost: Bool = false
    ) {
        self.answerLost = answerLost
        self.subjectUnchecked = subjectUnchecked
        self.tokenDigest = tokenDigest
        self.tokenVersion = tokenVersion
        self.tokens = tokens
        self.facts = facts
        self.formerFacts = formerFacts
        self.tokenExpiresAt = tokenExpiresAt
        self.refreshable = refreshable
        self.expiresAt = expiresAt
    }
}

/// The result of committing a refresh.
package enum RefreshCommitResult: Sendable, Equatable {
    case committed
    /// A newer version of the same grant is stored, so the new token pair is dropped without a revocation.
    case superseded
    /// A step-up has begun another grant since the claim. The new token pair belongs to the old grant, so it is revoked if
    /// the revocation spares the session's new tokens.
    case outgrown
    /// The row has other tokens of the same version than the commit was made from, so the commit must be made again.
    case changed
    /// The session has ended meanwhile, so the new token pair must be revoked.
    case ended
}

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
    /// If there is no claim, an earlier attempt of the same release was stored and only its response was lost. Its refusal
    /// must count only one time.
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

    /// Returns the refresh marks as a process that began at `begun` has to read them.
    ///
    /// The former process is gone, so its claims have lapsed and their owners are dead. Its monotonic times are useless in
    /// this process, so the periods start again at `now`. If a provider asked for a pause, the rest of the pause that was
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
