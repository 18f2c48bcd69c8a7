/// Stores exchanges, with at most one provider call for one code (guarantee 1).
///
/// Each change is one transaction with conditions; no operation reads first and writes later (SEC-124).
package protocol ExchangeStore: Sendable {
    /// Claims an exchange: inserts `row` with the outcome `.calling` and uses up `row.gate`, unless a row with its key exists.
    ///
    /// The gate must be a pending, unexpired login or an open, unexpired registration, if there is one. If the gate is a login,
    /// its handoff is then kept as long as the exchange.
    ///
    /// If a row exists, the outcome of that row decides:
    ///
    /// - `.released`, with the same proof and fewer attempts than `maximumAttempts`. The exchange is claimed again. The outcome
    ///   becomes `.calling`, fence and attempts rise by 1, and the gate is used up again. Rows without a proof never match.
    /// - `.calling`, with the claim name of `row`. The claim is the caller's own and is granted again, because the first response
    ///   was lost.
    /// - `.calling`, with a claim that has lapsed according to the engine's clock and is not in `sparing`. The outcome becomes
    ///   `.spent(.unknown)`, and the changed row is returned. The owner counts as dead, so it is unknown whether the provider saw
    ///   the call.
    func claimExchange(_ row: ExchangeRow, maximumAttempts: Int, sparing: SparedClaims)
        async throws(StoreFailure) -> ExchangeClaimResult

    /// Returns the exchange with a key; a row with a lapsed claim is returned unchanged.
    func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow?

    /// Extends a claim, so that it ends `lifetime` from now. Returns false if `fence` is out of date, or the exchange is
    /// settled or released.
    func renewExchange(_ key: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool

    /// Releases an exchange and its gate (`.calling` with this fence → `.released`, login → pending, registration → open).
    ///
    /// Returns false if `fence` is out of date. Without `countingAttempt`, the attempt is subtracted again, because the
    /// provider saw no call.
    func releaseExchange(_ key: Digest, fence: Int64, countingAttempt: Bool) async throws(StoreFailure) -> Bool

    /// Settles an exchange without a session (`.calling` with this fence → `outcome`), in one transaction with its
    /// consequences.
    ///
    /// The gate is closed (login → burned, registration → closed), `registration` is inserted if given (a Zephr partial), and
    /// the outbox rows are added. Returns false if `fence` is out of date. The outbox rows are added even then, because their
    /// tokens exist and have to be revoked.
    ///
    /// The outcome `.spent(.registrationRejected)` is an exception. It reopens a registration whose `attempts` is 0 and sets
    /// `attempts` to 1, so that the user can correct the attributes one time.
    func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    )
        async throws(StoreFailure) -> Bool

    /// Settles an exchange with its session (`.calling` with this fence → `.session`), in one transaction with its
    /// consequences.
    ///
    /// The session is inserted, and `replacing` ends (reason `replaced`, tokens to the outbox). The oldest live sessions of the
    /// same subject and client beyond `sessionLimit` end too (reason `session_limit`).
    ///
    /// Returns the token digests of the ended sessions. If `fence` is out of date, nothing is written and the result is nil.
    func completeExchange(_ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int)
        async throws(StoreFailure) -> EndedSessions?

    /// Settles an exchange with the step-up of an existing session (`.calling` with this fence → `.session`), in one
    /// transaction.
    ///
    /// The session's facts, tokens and sid are replaced, and the outbox rows are added. The session must not have ended, and
    /// must have the versions that the commit was made from.
    ///
    /// A new grant raises `tokenVersion` and the fence, and clears the claim and the refresh marks, so the results of older
    /// claims are void. `commitRefresh` returns `outgrown` for a token pair of the former grant, and `superseded` for a late
    /// pair of the present grant.
    ///
    /// If the session keeps its refresh token, `tokenVersion` and the fence stay unchanged. A refresh of that token in
    /// progress then commits, or ends the session, as usual.
    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult
}

extension ExchangeStore {
    /// Claims an exchange without sparing lapsed claims.
    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        try await claimExchange(row, maximumAttempts: maximumAttempts, sparing: .none)
    }
}

extension ExchangeRow {
    /// Returns whether both rows have the same starter's proof; rows without a proof never match.
    package func hasProof(of other: ExchangeRow) -> Bool { proof != nil && proof == other.proof }
}
