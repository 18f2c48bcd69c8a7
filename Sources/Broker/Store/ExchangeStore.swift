/// Keeps exchanges: at most one provider call for one code (guarantee 1).
///
/// Every change is one transaction whose conditions decide; nothing is read first and written later (SEC-124).
package protocol ExchangeStore: Sendable {
    /// Claims an exchange: inserts `row` (outcome `.calling`) and takes `row.gate` (a pending, unexpired login → claimed by
    /// this key; an open, unexpired registration → claimed), unless a row of that key stands. A login's handoff is kept
    /// as long as the exchange.
    ///
    /// A standing row that is `.released`, has the same proof (no proof is never the same) and fewer than
    /// `maximumAttempts` is claimed again: `calling`, fence + 1, attempts + 1, the gate taken again. A `.calling` one that
    /// has the row's own claim name is the caller's: its answer was lost. One whose claim has lapsed, by the engine's own
    /// clock, and is not among the `sparing`, becomes `.spent(.unknown)` and is returned so: its owner died, and nobody knows
    /// what the provider saw.
    func claimExchange(_ row: ExchangeRow, maximumAttempts: Int, sparing: SparedClaims)
        async throws(StoreFailure) -> ExchangeClaimResult

    /// Returns the exchange of a key; a lapsed `.calling` one is returned as it stands.
    func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow?

    /// Lets a claim stand for so long from now, with its own fence; false when it is another's or settled.
    func renewExchange(_ key: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool

    /// Gives an exchange and its gate back (`.calling` with this fence → `.released`, login → pending, registration →
    /// open); false when it was not this fence's. Without `countingAttempt` the exchange's attempt is taken back
    /// (`attempts` - 1): the provider saw nothing.
    func releaseExchange(_ key: Digest, fence: Int64, countingAttempt: Bool) async throws(StoreFailure) -> Bool

    /// Settles an exchange without a session (`.calling` with this fence → `outcome`), closes its gate (login → burned,
    /// registration → closed), inserts `registration` when given (a Zephr partial), and adds the outbox rows. False when
    /// it was not this fence's (the outbox rows are added all the same: tokens exist). One exception: the outcome
    /// `.spent(.registrationRejected)` reopens a registration whose `attempts` is 0, and counts it: one resubmission.
    func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    )
        async throws(StoreFailure) -> Bool

    /// Settles an exchange with its session, all in one transaction: `.calling` with this fence → `.session`, inserts the
    /// session, ends `replacing` (reason `replaced`, tokens to the outbox), and ends the oldest live sessions of the same
    /// subject and client beyond `sessionLimit` (reason `session_limit`). Returns the token digests of the sessions it
    /// ended, or nil, with nothing written, when the fence is another's.
    func completeExchange(_ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int)
        async throws(StoreFailure) -> EndedSessions?

    /// Settles an exchange with the step-up of a session that stands already, all in one transaction: `.calling` with this
    /// fence → `.session`, the session's facts, tokens and sid replaced, and the outbox rows added, where the session lives
    /// and has the version that the commit was made of.
    ///
    /// A new grant raises `tokenVersion` and the fence and clears claim and marks: what older claims come to is void, and
    /// `commitRefresh` tells a pair of the grant before from one that lost to its own grant's. Where the old refresh token
    /// stays, neither moves, and a refresh of it that is under way commits or condemns as ever.
    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult
}

extension ExchangeStore {
    /// Claims an exchange, and spares no claim that has lapsed.
    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        try await claimExchange(row, maximumAttempts: maximumAttempts, sparing: .none)
    }
}

/// The sessions that a new one put an end to.
package struct EndedSessions: Sendable, Equatable {
    /// The device's own old session, when it was still alive.
    package var replaced: [Digest]
    /// The oldest ones beyond the cap.
    package var beyondLimit: [Digest]

    package init(replaced: [Digest] = [], beyondLimit: [Digest] = []) {
        self.replaced = replaced
        self.beyondLimit = beyondLimit
    }
}

extension ExchangeRow {
    /// Returns whether both were begun by the same starter; no proof is never the same proof.
    package func hasProof(of other: ExchangeRow) -> Bool { proof != nil && proof == other.proof }
}
