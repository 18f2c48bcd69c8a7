/// One exchange and its outcome.
///
/// An exchange is for one code, id_token, Zephr session, set of imported tokens, or pair of state key and attributes. Its row
/// holds no secret, because the session token is derived again from `salt` and the starter's proof.
package struct ExchangeRow: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        /// The owner of the claim is calling the provider. When the claim lapses, the owner counts as dead.
        case calling
        /// The code is provably unused, or the failure was `retryable`, so the same starter may forward the code again.
        case released
        /// The exchange made the session with this token digest.
        case session(Digest)
        /// The exchange made the registration with this key.
        case registration(Digest)
        /// The legacy token's session goes on as the import with this key, whose row has the outcome.
        case continued(Digest)
        /// The code is used up, and there is no session.
        case spent(SpentReason)
    }

    /// The reason why a code is used up without a session.
    ///
    /// The reason determines the answer to each further forward by the same starter.
    package enum SpentReason: Int, Sendable {
        case rejected = 1
        case providerError = 2
        case identityRejected = 3
        /// The outcome is unknown, because the answer was incomplete or the owner died.
        case unknown = 4
        case registrationUserExists = 5
        case registrationDomainDenied = 6
        case registrationRejected = 7
        case registrationKeyExpired = 8
        /// The shop already has the largest allowed number of sessions with this client.
        case tooManySessions = 9
        /// Another user signed in for the step-up of a session.
        case subjectMismatch = 10
        /// The sign-in of a step-up was below the demand.
        case stepUpFailed = 11
        /// The provider has refused the app's refresh token.
        case grantRevoked = 12
        /// An answer to an import was lost, and the app's refresh token is used up.
        case refreshLost = 13
        /// The client requires tokens that are bound to a key, and the provider has granted others.
        case notBound = 14
        /// The provider's answer to an import was kept for an hour, until the user had to sign in.
        case expired = 15
        /// The old system lacks a session for the legacy token, or the session lacks a refresh token.
        case unknownSession = 16
    }

    /// The index digest of provider and code; the row's key.
    package var key: Digest
    /// The SHA-256 of the starter's proof (the login token, or else the verifier); nil if the forward had neither.
    package var proof: Digest?
    /// The random salt for deriving the session token, 32 bytes.
    package var salt: [UInt8]
    /// The id of the ring key that derives the session token.
    package var keyID: String
    /// The number of claims so far.
    ///
    /// Only the owner of the latest claim may settle the exchange.
    package var fence: Int64
    /// The random id of the latest claim.
    package var claim: ClaimID
    /// The remaining time of the claim by the engine's clock.
    ///
    /// If it is zero or less, the claim has lapsed.
    package var claimFor: Duration
    /// The number of claims, or of calls of an import, that the provider may have seen.
    package var attempts: Int
    package var createdAt: WallTime
    /// The exchange's outcome, which is repeated to its starter for 10 minutes from `createdAt`.
    package var outcome: Outcome
    /// The login or registration that the exchange uses up, and that a release of the exchange makes available again.
    package var gate: ExchangeGate
    /// The members of an import's row; nil for a code.
    package var imported: ImportMarks?

    package init(
        key: Digest, proof: Digest?, salt: [UInt8], keyID: String, fence: Int64 = 1, claim: ClaimID,
        claimFor: Duration, attempts: Int = 1, createdAt: WallTime, outcome: Outcome = .calling,
        gate: ExchangeGate = .none, imported: ImportMarks? = nil
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
        self.imported = imported
    }
}
