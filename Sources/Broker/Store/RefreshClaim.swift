/// A claim to refresh one version of a session's tokens.
package struct RefreshClaim: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let name: ClaimID
    /// The time for which it stands, by the engine's own clock, unless it is renewed.
    package let lifetime: Duration
    /// Whether a claim that lapsed long enough ago may be taken over; otherwise it counts as standing.
    package let takesOver: Bool
    /// The caller's calendar time, by which the session has to live.
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

/// The answer to a refresh claim.
package enum RefreshClaimResult: Sendable, Equatable {
    case claimed(RefreshGrant)
    /// Another's claim stands, for so long.
    case busy(for: Duration)
    /// The provider is to be left alone, for so long.
    case heldBack(for: Duration)
    /// The version moved on: read the row again.
    case moved
    /// Not there, ended or past its lifetime.
    case gone
}

/// The terms on which a refresh claim was granted: its fence, and what the row remembers of this version.
package struct RefreshGrant: Sendable, Equatable {
    package let fence: Int64
    /// The time since a claim of this version was last taken over from a lapsed one, or nil.
    package let takenOverFor: Duration?
    /// Whether a claim of the version before was taken over: its refresh token may have gone out twice.
    package let takenOverBefore: Bool
    /// Whether a call of this version was sent and not answered.
    package let answerLost: Bool
    /// The number of this version's refusals that may mean a dead grant, and the time since the first.
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

/// A claim given back, with what the row has to remember of its call.
package struct RefreshRelease: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let fence: Int64
    /// The time for which nobody claims again.
    package let holdBack: Duration
    /// Whether a call was sent and not answered.
    package let answerLost: Bool
    /// Whether the provider refused in a way that may mean a dead grant: without a body, or by an error of another name.
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

/// The state of a session's refresh, for those who wait: read without a blob.
package struct RefreshState: Sendable, Equatable {
    package let tokenVersion: Int64
    /// The rest of a claim, zero or negative after its lapse; nil once it is given back.
    package let claimRest: Duration?
    package let isEnded: Bool

    package init(tokenVersion: Int64, claimRest: Duration?, isEnded: Bool) {
        self.tokenVersion = tokenVersion
        self.claimRest = claimRest
        self.isEnded = isEnded
    }

    /// The rest of a claim that has not lapsed.
    package var claimFor: Duration? { claimRest.flatMap { $0 > .zero ? $0 : nil } }
}

/// A refreshed token set to store.
package struct RefreshCommit: Sendable {
    package let tokenDigest: Digest
    package let tokenVersion: Int64
    package let tokens: Sealed
    /// The facts sealed anew, when the scope shrank; nil leaves them.
    package let facts: Sealed?
    /// The facts that `facts` were made of: where others stand by now, a step-up wrote them, and they stay.
    package let formerFacts: Sealed?
    package let tokenExpiresAt: WallTime?
    package let refreshable: Bool
    /// The new end of the session, when the new refresh token's life moves it; nil leaves it.
    package let expiresAt: WallTime?
    /// Whether the new id_token's subject is still to be looked at, before anybody gets these tokens.
    package let subjectUnchecked: Bool
    /// Whether another call of this claim was sent and not answered.
    package let answerLost: Bool
    /// The access token that it brought for another API; nil for a refresh of the session's own.
    package var audience: AudienceRow?
    /// The tokens that `tokens` were made of; where others stand by now, of the same version, nothing is stored.
    ///
    /// Nil asks for none: a refresh of the session's own access token has a newer one than whatever stands.
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

/// The result of a commit.
package enum RefreshCommitResult: Sendable, Equatable {
    case committed
    /// A newer version stands: drop the pair, do not revoke it.
    case superseded
    /// A step-up has begun another grant since: the pair is the old one's, never stored, and revoked as its reach allows.
    case outgrown
    /// Other tokens of the same version stand than the commit was made of: it is to be made anew.
    case changed
    /// The session ended meanwhile: revoke the pair.
    case ended
}

/// The memory that a session row has of its refreshes, and the rules of claims.
///
/// SQLite and the store of tests run this code inside their transactions; PostgreSQL says the same in SQL
/// (`PostgreSQLSessionSQL.claim`, `release` and `commit`), and `RefreshContract` holds them together. The moments are the
/// engine's own monotonic time.
package struct RefreshMarks: Sendable, Equatable {
    package var claim: ClaimID?
    package var claimUntil: Duration?
    /// The time at which a claim of this version was last taken over from a lapsed one.
    package var takenOverAt: Duration?
    /// Whether the refresh token of the version before may have gone out twice; the next good refresh clears it.
    package var takenOverBefore = false
    package var answerLost = false
    package var holdUntil: Duration?
    package var emptyRefusals = 0
    package var firstEmptyAt: Duration?

    package init() {}

    /// The time for which a claim that lapsed is left alone: its owner may be cut off with a new pair in hand, and comes back.
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
