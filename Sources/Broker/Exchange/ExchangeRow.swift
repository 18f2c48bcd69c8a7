/// One exchange: a code, native code, handoff, Zephr session or (state key, attributes), at most one provider call, and
/// its outcome.
///
/// It holds no secret: the session token is derived again from `salt` and the starter's proof.
package struct ExchangeRow: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        /// An owner is calling the provider while its claim stands; after that the owner is dead.
        case calling
        /// Surely not used, or 429/5xx: the same starter may call again.
        case released
        /// Became the session of this token digest.
        case session(Digest)
        /// Became the registration of this key.
        case registration(Digest)
        /// Used up without a session.
        case spent(SpentReason)
    }

    /// The reason for which a code is used up; the same starter gets the same answer.
    package enum SpentReason: Int, Sendable {
        case rejected = 1
        case providerError = 2
        case identityRejected = 3
        /// Sent, no whole answer, or the owner died: nobody knows.
        case unknown = 4
        case registrationUserExists = 5
        case registrationDomainDenied = 6
        case registrationRejected = 7
        case registrationKeyExpired = 8
        /// The shop has as many sessions as its client may have.
        case tooManySessions = 9
        /// Somebody else signed in for a session's step-up.
        case subjectMismatch = 10
        /// The sign-in of a step-up was not what was asked for.
        case stepUpFailed = 11
    }

    /// The index digest of provider and code: the key.
    package var key: Digest
    /// SHA-256 of the starter's proof (login token, else verifier); nil when the forward brought none.
    package var proof: Digest?
    /// 32 random bytes.
    package var salt: [UInt8]
    /// The ring key that derives the session token.
    package var keyID: String
    /// Counts claims; a settle needs its own.
    package var fence: Int64
    /// The name of the claim.
    package var claim: ClaimID
    /// The time for which the claim stands from now, by the engine's clock; lapsed when not positive.
    package var claimFor: Duration
    /// Provider calls begun.
    package var attempts: Int
    package var createdAt: WallTime
    /// The exchange's result; replays are answered for 10 minutes from `createdAt`.
    package var outcome: Outcome
    /// The login or registration it took, to be given back on release.
    package var gate: ExchangeGate

    package init(
        key: Digest, proof: Digest?, salt: [UInt8], keyID: String, fence: Int64 = 1, claim: ClaimID,
        claimFor: Duration, attempts: Int = 1, createdAt: WallTime, outcome: Outcome = .calling,
        gate: ExchangeGate = .none
    ) {
        self.key = key
        self.proof = proof
        self.salt = salt
        self.keyID = keyID
        self.fence = fence
        self.claim = claim
        self.claimFor = claimFor
        self.attempts = attempts
        self.createdAt = createdAt
        self.outcome = outcome
        self.gate = gate
    }
}

/// The row that an exchange takes along when it is claimed; taken in the same transaction, so that it is used once.
package enum ExchangeGate: Sendable, Equatable {
    /// Nothing: flow B.
    case none
    /// A pending, unexpired login, by its state digest.
    case login(Digest)
    /// An open, unexpired registration, by its key.
    case registration(Digest)
}

/// The answer to a claim.
package enum ExchangeClaimResult: Sendable, Equatable {
    /// The caller owns it under this row's fence and may call the provider.
    case claimed(ExchangeRow)
    /// It stands already; the row as it is.
    case existing(ExchangeRow)
    /// The login or registration cannot be taken any more (taken by another exchange, burned, or expired).
    case gateClosed
}
