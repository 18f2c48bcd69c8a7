/// A new token pair that has yet to be stored, although the old refresh token is spent.
///
/// The pair is written to its session or to the outbox, however long the store is away. Callers get an error meanwhile. The pair
/// is lost only if the process ends first.
struct PairInHand: Sendable {
    /// The result of writing the pair.
    enum End: Sendable {
        /// The pair is stored in the given session.
        case committed(OpenSession, isWithheld: Bool)
        case superseded
        /// A step-up has replaced the grant, and the pair is in the outbox.
        case outgrown
        /// The session has ended, so the pair has to be revoked.
        case ended(OpenSession)
        case storeFailed
    }

    let context: BrokerContext
    let flight: SharedFlight
    let goal: any PairGoal
    let fresh: TokenSet
    let arrivedAt: WallTime
    let grant: RefreshGrant
    /// Whether the answer to an earlier call under the claim was lost.
    let answerLost: Bool
    /// The session with the tokens that the pair is written over.
    let session: OpenSession
    /// Whether a step-up has replaced the access token since the claim, and kept the grant.
    let isLent: Bool
    /// Whether this process lacks the key to the stored tokens, so that the pair replaces them unread.
    let overwrites: Bool

    /// Returns this pair, to be written over the tokens of `session`.
    private func over(_ session: OpenSession, isLent: Bool, overwrites: Bool) -> PairInHand {
        PairInHand(
            context: context, flight: flight, goal: goal, fresh: fresh, arrivedAt: arrivedAt, grant: grant,
            answerLost: answerLost, session: session, isLent: isLent, overwrites: overwrites)
    }

    // MARK: Committing

    /// Stores the pair, however long the store is away.
    func commit(_ claim: ClaimShell<ClaimedSession>) async -> End {
        var isKept = false
        defer { if isKept { context.memory.store.wrote() } }
        // The next try begins with the tokens that this try has read.
        var pair = self
        let end: End? = await context.clock.insist { () async throws in
            let present = pair
            do { return try await present.write(claim) { pair = $0 } } catch VaultFailure.doesNotOpen {
                return .ended(pair.session)
            } catch RecordFailure.malformed { return .ended(pair.session) }
        } failed: { error in
            // Answer the callers last. A caller that gets this answer may begin another refresh at once. `keep` must come first,
            // because it delays that refresh until this pair is written.
            defer { flight.answer(.failure(BrokerProblem(.storeUnavailable, retryAfter: .seconds(2)))) }
            guard let failure = error as? StoreFailure else { return }
            // The store works if it reports a row of a newer format, so other refreshes may go on.
            if failure != .newerFormat, !isKept {
                isKept = true
                context.memory.store.keep(at: context.clock.monotonic())
            }
            claim.failed("commitRefresh", failure)
        }
        if case .outgrown = end {
            // A step-up has replaced the grant. The new grant's refresh token may be another token, or the very token in this
            // pair.
            await pair.revoke(
                of: SignInOrigin(pair.session.row),
                meanwhile: BrokerProblem(.storeUnavailable, retryAfter: .seconds(2)))
        }
        return end ?? .storeFailed
    }

    /// Tries one time to write the pair.
    ///
    /// If the row's tokens have changed but the grant has not, the pair is changed and written over them. `rewritten` then gets
    /// the changed pair.
    private func write(
        _ claim: ClaimShell<ClaimedSession>, rewritten: (PairInHand) -> Void
    ) async throws -> End {
        let values = try goal.values(of: self)
        let result = try await context.store.commitRefresh(try sealed(values))
        if result == .changed {
            let again = try await overPresentTokens()
            rewritten(again)
            return try await again.write(claim, rewritten: rewritten)
        }
        claim.held.drop()
        switch result {
        case .committed:
            let (stored, row) = (session.stored, session.row)
            context.cache.remove([row.tokenDigest])
            context.notices.refreshed(row.tokenDigest, version: row.tokenVersion + 1, isOwn: goal.call.bringsOwn)
            context.events.emit(.refreshed(provider: stored.provider, client: stored.client, session: row.handle))
            return .committed(session, isWithheld: values.isWithheld)
        case .superseded: return .superseded
        case .outgrown: return .outgrown
        case .ended: return .ended(session)
        case .changed: return .storeFailed
        }
    }

    /// Returns the pair to be written over the session's present tokens, which have changed under the same version.
    ///
    /// The tokens change in two cases: a step-up that kept the grant replaced the access token; or the tokens were sealed again.
    ///
    /// If a step-up has deleted the stored token for the target, that token stays deleted, and is requested again.
    private func overPresentTokens() async throws -> PairInHand {
        // If the session has ended, or another pair was stored, return the pair unchanged. The commit then fails, and reports the
        // reason.
        let digest = session.row.tokenDigest
        guard let row = try await context.store.session(tokenDigest: digest), row.endedAt == nil,
            row.tokenVersion == session.row.tokenVersion
        else { return self }
        guard let sealed = row.tokens else { throw RecordFailure.malformed }
        do {
            let stored = try StoredTokens(record: try context.vault.open(sealed, as: .tokens, row: digest))
            let present = OpenSession(row: row, stored: stored, provider: session.provider, kept: session.kept)
            return over(present, isLent: true, overwrites: overwrites)
        } catch VaultFailure.unknownKey {
            // A replica sealed the tokens with a newer key. The refresh token in hand matters more than an access token that
            // a step-up may have stored.
            return over(session, isLent: isLent, overwrites: true)
        }
    }

    private func sealed(_ values: PairValues) throws -> RefreshCommit {
        var facts: SessionFacts?
        do { facts = try SessionFacts.open(session.row, context.vault) } catch {
            // A replica sealed the facts with a newer key. The facts stay unchanged, and the pair in hand is stored at once.
            guard BrokerProblem(opening: error) != nil else { throw error }
        }
        let digest = session.row.tokenDigest
        let tokens = values.tokens.tokens
        // A token for another API leaves the session's scope unchanged.
        let scopeShrank = goal.call.bringsOwn && fresh.scope != nil && facts != nil && tokens.scope != facts?.scope
        if scopeShrank { facts?.scope = tokens.scope ?? [] }
        // Facts are sealed with the ring's newest key, as tokens are, so that an old key can be removed.
        let newFacts = scopeShrank || session.row.facts.keyID != context.vault.currentKeyID ? facts : nil
        let refreshable = tokens.refreshToken != nil
        // A wrong clock would move the session's end to a wrong time. So the end stays unchanged while the clock is in doubt.
        let end = facts.flatMap { facts in
            context.may(.moveEnd)
                ? SessionLimits.end(
                    created: session.row.createdAt, facts.lifetimes, tokens: tokens, refreshable: refreshable)
                : nil
        }
        var commit = RefreshCommit(
            tokenDigest: digest, tokenVersion: session.row.tokenVersion,
            tokens: try context.vault.seal(values.tokens.record, as: .tokens, row: digest),
            facts: try newFacts.map { try context.vault.seal($0.record, as: .session, row: digest) },
            formerFacts: newFacts == nil ? nil : session.row.facts, tokenExpiresAt: tokens.expiresAt,
            refreshable: refreshable, expiresAt: end, subjectUnchecked: fresh.idToken?.isKeptIDToken == true,
            answerLost: answerLost)
        (commit.formerTokens, commit.targetToken) = (values.formerTokens, values.targetToken)
        return commit
    }

    // MARK: Revoking

    /// Puts the pair into the outbox, to be revoked; the write is retried like a commit (SEC-64).
    ///
    /// - Parameters:
    ///   - origin: The owner of the pair if the session's row now belongs to another grant; nil if the session has ended.
    ///   - problem: The answer for callers if the store fails.
    func revoke(of origin: SignInOrigin?, meanwhile problem: BrokerProblem) async {
        let (stored, digest, now) = (session.stored, session.row.tokenDigest, context.clock.now())
        var tokens = stored.tokens.refreshed(with: fresh).withoutKey
        // The provider's session is ended by the outbox row of the session's own tokens, so this row leaves the id_token out.
        tokens.idToken = nil
        let late = StoredTokens(
            provider: stored.provider, client: stored.client, tokens: tokens, issuedAt: now, origin: origin)
        var isKept = false
        defer { if isKept { context.memory.store.wrote() } }
        var row: OutboxRow?
        await context.clock.insist { () async throws in
            let begun = origin == nil ? nil : try await stepUpGrant()
            if let begun, let token = tokens.refreshToken, begun.refreshToken == context.vault.digest(token) {
                // The step-up stored the refresh token of this pair, so both belong to one grant. The outbox row of the former
                // grant would revoke that grant too, so remove the row.
                return try await context.store.removeOutbox(begun.former)
            }
            let outbox =
                try row
                ?? OutboxRow(
                    id: context.vault.digest(try context.vault.random(32)), boundTo: digest,
                    tokens: try context.vault.seal(late.record, as: .tokens, row: digest), createdAt: now,
                    nextAttemptAt: now)
            row = outbox
            try await context.store.addOutbox([outbox])
            if let begun, begun.tokenVersion == session.row.tokenVersion + 1 {
                // The outbox row of the former pair waited for the result of this pair, so the row is due now.
                try await context.store.postponeOutbox(begun.former, until: now, counting: true)
            }
        } failed: { error in
            context.events.emit(.storeFailed(operation: "addOutbox", detail: "\(error)"))
            // The store works if it reports a row of a newer format, so other refreshes may go on.
            if !isKept, error as? StoreFailure != .newerFormat {
                isKept = true
                context.memory.store.keep(at: context.clock.monotonic())
            }
            flight.answer(.failure(problem))
        }
    }

    /// Returns the grant that a step-up has begun for the session.
    ///
    /// Returns nil if the session has ended, or still has the grant of its first sign-in.
    private func stepUpGrant() async throws -> StepUpNote.Grant? {
        guard let row = try await context.store.session(tokenDigest: session.row.tokenDigest), row.endedAt == nil else {
            return nil
        }
        do { return try SessionFacts.open(row, context.vault).lastStepUp?.grant } catch {
            guard BrokerProblem(opening: error) == nil else { throw StoreFailure.newerFormat }
            return nil
        }
    }
}
