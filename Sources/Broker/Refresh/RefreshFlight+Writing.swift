/// The steps of a refresh after the provider's answer. The new token pair is written to its session or to the outbox, however
/// long the store is unavailable.
extension RefreshFlight {
    /// Stores the new pair, however long the store is away, because the old refresh token is spent.
    ///
    /// Callers get an error if the store fails. The flight goes on until the pair is written or the process ends.
    func commit(_ work: inout Work) async -> RefreshStateMachine.Input {
        guard let fresh = work.fresh, work.stored != nil, work.row != nil else { return .storeFailed }
        var isKept = false
        defer { if isKept { context.memory.store.wrote() } }
        let input: RefreshStateMachine.Input? = await context.clock.insist { () async throws in
            guard let stored = work.stored, let row = work.row else { return .storeFailed }
            do { return try await write(fresh, stored, row, &work) } catch VaultFailure.doesNotOpen {
                return .ended
            } catch RecordFailure.malformed { return .ended }
        } failed: { error in
            // Answer last. A caller may begin another refresh at once, and the kept pair has to hold that refresh up.
            defer { flight.answer(.failure(BrokerProblem(.storeUnavailable, retryAfter: .seconds(2)))) }
            guard let failure = error as? StoreFailure else { return }
            // The store works if it reports a row of a newer format, so other refreshes may go on.
            if failure != .newerFormat, !isKept {
                isKept = true
                context.memory.store.keep(at: context.clock.monotonic())
            }
            _ = failed("commitRefresh", failure)
        }
        if work.isOutgrown {
            // A step-up has stored another refresh token, or the very one in this pair.
            await revoke(
                work, of: work.row.map(SignInOrigin.init),
                meanwhile: BrokerProblem(.storeUnavailable, retryAfter: .seconds(2)))
            work.fresh = nil
            // The flight may go on with the new grant.
            work.isOutgrown = false
        }
        return input ?? .storeFailed
    }

    private func write(
        _ fresh: TokenSet, _ stored: StoredTokens, _ row: SessionRow, _ work: inout Work
    ) async throws -> RefreshStateMachine.Input {
        let commit = try sealed(fresh, stored, row, &work)
        let result = try await context.store.commitRefresh(commit)
        if result == .changed { return try await rewrite(fresh, row, &work) }
        claim.held.drop()
        work.isWritten = true
        // The target is only judged by a pair that was stored.
        if result != .committed { work.isTargetWithheld = false }
        switch result {
        case .committed:
            context.cache.remove([session])
            context.notices.refreshed(session, version: row.tokenVersion + 1, isOwn: work.call != .audience)
            work.answerLost = false
            context.events.emit(.refreshed(provider: stored.provider, client: stored.client, session: row.handle))
            if work.call == .audience {
                if work.isTargetWithheld { tellOfWithheld(fresh, stored, row) }
            } else if stored.tokens.refreshed(with: fresh).isWithheld {
                context.events.emit(
                    .tokenNotBound(provider: stored.provider, client: stored.client, session: row.handle))
            }
            noteForced(work)
            return .committed
        case .superseded:
            work.fresh = nil
            return .superseded
        case .outgrown:
            work.isOutgrown = true
            return .superseded
        case .ended: return .ended
        case .changed: return .storeFailed
        }
    }

    /// Stores a pair for a target although the session's stored tokens have changed under the same version.
    ///
    /// Either a step-up that kept the grant replaced the access token, or the tokens were sealed again.
    ///
    /// If a step-up deletes the token for the target, it stays deleted, and is requested again.
    private func rewrite(
        _ fresh: TokenSet, _ before: SessionRow, _ work: inout Work
    ) async throws -> RefreshStateMachine.Input {
        // If the session has ended, or another pair was stored, the commit reports it.
        if let row = try await context.store.session(tokenDigest: session), row.endedAt == nil,
            row.tokenVersion == before.tokenVersion
        {
            guard let sealed = row.tokens else { throw RecordFailure.malformed }
            do {
                work.stored = try StoredTokens(record: try context.vault.open(sealed, as: .tokens, row: session))
                work.row = row
                work.isLent = true
            } catch VaultFailure.unknownKey {
                // A replica sealed the tokens with a newer key. The refresh token in hand matters more than a token that a
                // step-up may have lent.
                work.overwrites = true
            }
        }
        guard let stored = work.stored, let row = work.row else { return .storeFailed }
        return try await write(fresh, stored, row, &work)
    }

    private func sealed(
        _ fresh: TokenSet, _ stored: StoredTokens, _ row: SessionRow, _ work: inout Work
    ) throws -> RefreshCommit {
        // The store may be away for longer than the access token lives.
        let arrivedAt = work.arrivedAt ?? context.clock.now()
        let audience = work.call == .audience ? audience : nil
        var facts: SessionFacts?
        do { facts = try SessionFacts.open(row, context.vault) } catch {
            // A replica sealed the facts with a newer key. They stay as they are, and the pair in hand is stored at once.
            guard BrokerProblem(opening: error) != nil else { throw error }
        }
        // A token for another API leaves the session's own access token unchanged.
        let tokens = audience == nil ? stored.tokens.refreshed(with: fresh) : stored.tokens.rotated(with: fresh)
        let scopeShrank = audience == nil && fresh.scope != nil && facts != nil && tokens.scope != facts?.scope
        if scopeShrank { facts?.scope = tokens.scope ?? [] }
        // Facts are sealed with the ring's newest key, as tokens are, so that an old key can be removed.
        let newFacts = scopeShrank || row.facts.keyID != context.vault.currentKeyID ? facts : nil
        var next = StoredTokens(
            provider: stored.provider, client: stored.client, tokens: tokens, issuedAt: arrivedAt,
            uncheckedIDToken: fresh.idToken)
        if audience != nil {
            next.issuedAt = stored.issuedAt
            next.accessVersion = stored.accessVersion ?? row.tokenVersion
            next.origin = SignInOrigin(row)
        }
        let refreshable = tokens.refreshToken != nil
        // The clock decides the refresh token's end. A wrong clock would end the session too soon or too late.
        let end = facts.flatMap { facts in
            context.may(.moveEnd)
                ? SessionLimits.end(created: row.createdAt, facts.lifetimes, tokens: tokens, refreshable: refreshable)
                : nil
        }
        var commit = RefreshCommit(
            tokenDigest: session, tokenVersion: row.tokenVersion,
            tokens: try context.vault.seal(next.record, as: .tokens, row: session),
            facts: try newFacts.map { try context.vault.seal($0.record, as: .session, row: session) },
            formerFacts: newFacts == nil ? nil : row.facts,
            tokenExpiresAt: tokens.expiresAt, refreshable: refreshable,
            expiresAt: end, subjectUnchecked: fresh.idToken?.isKeptIDToken == true, answerLost: work.answerLost)
        if let audience, let grant = work.grant {
            work.isTargetWithheld = !isBound(fresh, asIn: stored)
            commit.formerTokens = work.overwrites ? nil : row.tokens
            if !work.isTargetWithheld, !work.isLent {
                commit.audience = try sealed(fresh, for: audience, stored, fence: grant.fence, at: arrivedAt)
            }
        }
        return commit
    }

    /// Puts a new pair into the outbox, to be revoked, because its session has ended (SEC-64).
    ///
    /// The write is retried like a commit.
    func revoke(_ work: Work) async {
        await revoke(
            work, of: nil, meanwhile: BrokerProblem(.sessionEnded, reason: work.row?.endReason ?? .expired))
    }

    /// Puts a pair into the outbox; `origin` names its owner if the session's row now belongs to another grant.
    ///
    /// Callers get `meanwhile` if the store fails.
    private func revoke(_ work: Work, of origin: SignInOrigin?, meanwhile: BrokerProblem) async {
        guard let fresh = work.fresh, let stored = work.stored else { return }
        let now = context.clock.now()
        var tokens = stored.tokens.refreshed(with: fresh).withoutKey
        // The session's own row ends the provider's session.
        tokens.idToken = nil
        let late = StoredTokens(
            provider: stored.provider, client: stored.client, tokens: tokens, issuedAt: now, origin: origin)
        var isKept = false
        defer { if isKept { context.memory.store.wrote() } }
        var row: OutboxRow?
        await context.clock.insist { () async throws in
            let begun = origin == nil ? nil : try await stepUpGrant()
            if let begun, let token = tokens.refreshToken, begun.refreshToken == context.vault.digest(token) {
                // Both pairs belong to one grant, so the former pair has to live on.
                return try await context.store.removeOutbox(begun.former)
            }
            let outbox =
                try row
                ?? OutboxRow(
                    id: context.vault.digest(try context.vault.random(32)), boundTo: session,
                    tokens: try context.vault.seal(late.record, as: .tokens, row: session), createdAt: now,
                    nextAttemptAt: now)
            row = outbox
            try await context.store.addOutbox([outbox])
            if let begun, begun.tokenVersion == work.row.map({ $0.tokenVersion + 1 }) {
                // The outbox row of the former pair waited for this pair.
                try await context.store.postponeOutbox(begun.former, until: now, counting: true)
            }
        } failed: { error in
            context.events.emit(.storeFailed(operation: "addOutbox", detail: "\(error)"))
            // After a row of a newer format, other refreshes may go on.
            if !isKept, error as? StoreFailure != .newerFormat {
                isKept = true
                context.memory.store.keep(at: context.clock.monotonic())
            }
            flight.answer(.failure(meanwhile))
        }
    }

    /// Returns the grant that a step-up has begun for the session; nil if the session has ended.
    private func stepUpGrant() async throws -> StepUpNote.Grant? {
        guard let row = try await context.store.session(tokenDigest: session), row.endedAt == nil else { return nil }
        do { return try SessionFacts.open(row, context.vault).lastStepUp?.grant } catch {
            guard BrokerProblem(opening: error) == nil else { throw StoreFailure.newerFormat }
            return nil
        }
    }
}
