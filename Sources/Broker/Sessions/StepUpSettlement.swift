/// The settlement of an exchange that steps a session up: the session gets the new sign-in, or stays unchanged.
extension ExchangeSettlement {
    /// Stores the sign-in in its session, and retries until it is stored or the session has ended.
    ///
    /// The user has just signed in, and must not have to sign in again because of a fault of the broker.
    func stepUp(
        _ session: Digest, _ demand: StepUpDemand, _ answer: TokenSet, _ identity: ProviderIdentity,
        _ requestedScope: [String], answered: Duration
    ) async throws(BrokerProblem) -> SignInOutcome {
        var tokens = answer
        if answer.scope == nil, !requestedScope.isEmpty { tokens.scope = requestedScope }
        let origin = SignInOrigin(
            subject: context.vault.index(.subject, [profile.issuer, identity.subject]),
            sid: identity.sid.map { context.vault.index(.sid, [profile.issuer, $0]) })
        // Compare the age of the sign-in now. If the store is unavailable for minutes, the sign-in must not become too old while
        // the settlement waits for the store.
        let isMet = demand.isMet(by: identity.signIn, at: time, leeway: plan.client.signInLeeway)
        await enter(origin)
        defer { context.memory.signIns.leave(row.key) }
        await noteRefresh(of: session, tokens)
        while true {
            let standing = try await standing(session)
            let now = time
            let answeredAt = now.advanced(by: answered - context.clock.monotonic())
            guard let current = standing, isStanding(current) else { throw await ended(standing, tokens, origin) }
            // If the session has already had this refresh token, the session depends on the token's grant. So the token is
            // never revoked.
            let unheld = exchange.seen.contains(tokens.refreshToken) ? nil : tokens
            guard current.subject == origin.subject else {
                throw await spendRevoking(
                    .subjectMismatch, because: .identityRejected(detail: "another user signed in for the step-up"),
                    revoking: unheld,
                    of: origin)
            }
            guard isMet else { throw await tooWeak(demand, identity.signIn, unheld, origin) }
            let commit: StepUpCommit
            let facts: SessionFacts
            do {
                let before = try SessionFacts.open(current, context.vault)
                if let later = before.lastStepUp, later.isLater(than: answeredAt, ofCodeSentAt: exchange.sentAt ?? 0) {
                    let own = tokens.refreshToken == nil ? nil : unheld
                    return try await overtaken(by: later, current, before, demand, revoking: own, origin)
                }
                (commit, facts) = try self.commit(current, before, tokens, identity, now, answeredAt)
            } catch let problem as BrokerProblem { throw problem } catch {
                throw await spendRevoking(
                    .providerError, because: .unusable(detail: "sealing: \(error)"), revoking: unheld)
            }
            let result = await insisting("completeStepUp") { () async throws(StoreFailure) in
                try await context.store.completeStepUp(commit)
            }
            guard let result else { throw Self.notStored }
            switch result {
            case .committed: return try await steppedUp(current, facts, commit)
            case .moved: continue
            case .ended: throw await ended(current, tokens, origin)
            case .takenAway:
                guard await !hasSettled(for: session) else { return try await steppedUp(current, facts, commit) }
                throw await spendRevoking(
                    .unknown, because: .lost(detail: "the claim of the exchange lapsed"), revoking: unheld, of: origin)
            }
        }
    }

    /// Returns whether an earlier attempt of this settlement has settled the exchange for the session, although the store's
    /// response was lost.
    private func hasSettled(for session: Digest) async -> Bool {
        let exchange: ExchangeRow?? = await insisting("exchange") { () async throws(StoreFailure) in
            try await context.store.exchange(row.key)
        }
        return exchange??.outcome == .session(session)
    }

    /// Returns whether a session is still alive.
    ///
    /// A lapse counts only while the clock is trusted.
    private func isStanding(_ row: SessionRow) -> Bool {
        guard row.endedAt == nil else { return false }
        if case .lapsed = SessionStanding(row, context) { return false }
        return true
    }

    /// Reads the session that is stepped up, and notes its refresh token.
    ///
    /// The code is spent, so the provider's answer has to survive. Therefore this method retries until the store answers, and
    /// until the key ring has the key of the row.
    private func standing(_ session: Digest) async throws(BrokerProblem) -> SessionRow? {
        let row: SessionRow?? = await insisting("session") { () async throws(StoreFailure) in
            guard let row = try await context.store.session(tokenDigest: session) else { return nil }
            do throws(BrokerProblem) { exchange.seen.note(try context.openSealed(row)?.tokens.refreshToken) } catch {
                // A replica with a newer key or of a newer version has sealed the row, so retry.
                throw StoreFailure.newerFormat
            }
            return row
        }
        guard let row else { throw Self.notStored }
        return row
    }

    /// Returns the tokens of a failed exchange if they may be revoked.
    ///
    /// If a step-up was answered with the refresh token that its session uses, the result is nil.
    func unheld(_ tokens: TokenSet) async -> TokenSet? {
        guard let session = plan.stepUp?.session else { return tokens }
        await noteRefresh(of: session, tokens)
        do throws(BrokerProblem) { _ = try await standing(session) } catch {
            // The process ends before the session could be read. The session may use these tokens, so they must not be
            // revoked.
            return nil
        }
        return exchange.seen.contains(tokens.refreshToken) ? nil : tokens
    }

    /// Checks whether a first sign-in meets the demand of its login.
    ///
    /// If the sign-in is too weak, its tokens are revoked instead of stored.
    func checkFirst(
        _ demand: StepUpDemand, _ tokens: TokenSet, _ identity: ProviderIdentity
    ) async throws(BrokerProblem) {
        guard !demand.isMet(by: identity.signIn, at: time, leeway: plan.client.signInLeeway) else { return }
        let origin = SignInOrigin(
            subject: context.vault.index(.subject, [profile.issuer, identity.subject]),
            sid: identity.sid.map { context.vault.index(.sid, [profile.issuer, $0]) })
        throw await tooWeak(demand, identity.signIn, tokens, origin)
    }

    private func ended(
        _ row: SessionRow?, _ tokens: TokenSet, _ origin: SignInOrigin
    ) async -> BrokerProblem {
        let failure = await spendRevoking(
            .identityRejected, because: .identityRejected(detail: "the session ended before its step-up was stored"),
            revoking: tokens, of: origin)
        guard failure.code != .storeUnavailable else { return failure }
        guard let row else { return BrokerProblem(.sessionRequired) }
        var reason = row.endReason
        if reason == nil {
            reason =
                (try? await context.store.session(tokenDigest: row.tokenDigest))?.endReason
                ?? SessionEnds(row).reason
        }
        return BrokerProblem(.sessionEnded, with: .ended(reason))
    }

    /// Spends the exchange of a step-up whose sign-in did not meet the demand.
    ///
    /// The session stays unchanged.
    private func tooWeak(
        _ demand: StepUpDemand, _ got: SignInFacts, _ tokens: TokenSet?, _ origin: SignInOrigin
    ) async -> BrokerProblem {
        var problem = await spendRevoking(
            .stepUpFailed, because: .identityRejected(detail: "the sign-in is below the demand"),
            revoking: tokens, of: origin)
        if problem.code == .stepUpFailed { problem.payload = .shortfall(StepUpShortfall(required: demand, got: got)) }
        return problem
    }

    private func steppedUp(
        _ before: SessionRow, _ facts: SessionFacts, _ commit: StepUpCommit
    ) async throws(BrokerProblem) -> SignInOutcome {
        exchange.claim.held.drop()
        context.cache.remove([before.tokenDigest])
        context.memory.targets.forget(before.tokenDigest)
        if commit.isNewGrant {
            context.notices.refreshed(before.tokenDigest, version: before.tokenVersion + 1)
        } else {
            // The token version stays the same, but the session and its access token have changed. So the event streams get a
            // notice.
            context.notices.post(.tokensRefreshed, to: before.tokenDigest)
        }
        plan.charge.sessionMade(exchange: row.key, gate: plan.gate)
        context.events.emit(
            .steppedUp(provider: profile.name, client: plan.client.name, session: before.handle))
        var row = before
        if commit.isNewGrant { row.tokenVersion += 1 }
        row.version += 1
        row.lastUsedAt = max(row.lastUsedAt, commit.now)
        row.idleExpiresAt = max(row.idleExpiresAt, commit.idleExpiresAt)
        row.tokenExpiresAt = commit.tokenExpiresAt
        row.refreshable = commit.refreshable
        return try steppedUp(row, facts)
    }

    /// Returns the stepped-up session for the app, from its row and facts.
    private func steppedUp(_ row: SessionRow, _ facts: SessionFacts) throws(BrokerProblem) -> SignInOutcome {
        let live = LiveSession(row: row.withoutFacts, facts: facts, binding: context.providers.binding(of: facts))
        guard let token = plan.stepUpToken else { throw BrokerProblem(.sessionRequired) }
        return .steppedUp(
            SteppedUp(
                live, token: token, transport: plan.client.transport,
                view: try ResumeSession(context: context).view(of: live)))
    }

    /// Makes the commit of the step-up from a row as it was read.
    private func commit(
        _ row: SessionRow, _ before: SessionFacts, _ fresh: TokenSet, _ identity: ProviderIdentity, _ now: WallTime,
        _ answeredAt: WallTime
    ) throws -> (StepUpCommit, SessionFacts) {
        let vault = context.vault
        var facts = before
        let old = try row.tokens.map {
            try StoredTokens(record: try vault.open($0, as: .tokens, row: row.tokenDigest))
        }
        // Some providers issue no new refresh token for a step-up, or answer with one that the session has or had. The grant
        // is then the same. If this grant counted as new, the session's own refresh token would be revoked as the former
        // grant. The pair of a refresh in progress would be revoked as outgrown.
        let hasGrant = old?.tokens.refreshToken != nil
        let isKept = hasGrant && (fresh.refreshToken == nil || exchange.seen.contains(fresh.refreshToken))
        let isNewGrant = !isKept
        // A refresh in progress may still bring the same refresh token. Then the answer belongs to the session's own grant.
        let question = isNewGrant ? questionFor(fresh.refreshToken) : nil
        let next: StoredTokens?
        var outbox: [OutboxRow] = []
        var grant = isNewGrant ? nil : before.lastStepUp?.grant
        if isNewGrant {
            next = StoredTokens(
                provider: profile.name, client: plan.client.name, tokens: fresh, issuedAt: answeredAt)
            if let old {
                let former = try former(old, row, now, waiting: question)
                outbox = [former]
                grant = fresh.refreshToken.map {
                    StepUpNote.Grant(
                        refreshToken: vault.digest($0), tokenVersion: row.tokenVersion + 1, former: former.id)
                }
            }
        } else {
            next = old.map { $0.lending(fresh, issuedAt: answeredAt) }
        }
        facts.identity = identity.claims
        facts.unverified = identity.unverified
        if let scope = next?.tokens.scope { facts.scope = scope }
        facts.signIn = identity.signIn
        facts.lastStepUp = StepUpNote(version: row.version + 1, answeredAt: answeredAt, grant: grant)
        // If the kept refresh token comes from an older sign-in, later access tokens belong to that sign-in. So note the
        // version of the access token that this sign-in brought.
        let isLent =
            isNewGrant ? question != nil : next?.tokens.accessToken.isEqual(to: fresh.accessToken) == true
        facts.lentVersion = isLent ? next?.accessVersion ?? row.tokenVersion + (isNewGrant ? 1 : 0) : nil
        let refreshable = next?.tokens.refreshToken != nil && plan.provider is any TokenRefreshing
        let sid = identity.sid.map { vault.index(.sid, [profile.issuer, $0]) }
        // While the clock is in doubt, the store gets no uses, so the idle time stays unchanged.
        let used = context.may(.writeUse) ? now : row.lastUsedAt
        let commit = StepUpCommit(
            exchange: self.row.key, exchangeFence: self.row.fence, tokenDigest: row.tokenDigest,
            tokenVersion: row.tokenVersion, version: row.version, isNewGrant: isNewGrant,
            tokens: try next.map { try vault.seal($0.record, as: .tokens, row: row.tokenDigest) },
            facts: try vault.seal(facts.record, as: .session, row: row.tokenDigest),
            // A revocation finds the sessions that it must spare by their `sid`. So store the `sid` of the sign-in that the
            // refresh token comes from.
            sid: isNewGrant ? sid : row.sid ?? sid, tokenExpiresAt: next?.tokens.expiresAt, refreshable: refreshable,
            idleExpiresAt: SessionLimits.idleEnd(usedAt: used, created: row.createdAt, facts.lifetimes), now: used,
            outbox: outbox)
        return (commit, facts)
    }

    /// Returns the outbox row for revoking the session's former grant.
    ///
    /// `Revocations` leaves the call out if the call would also end the session itself.
    ///
    /// The row waits while a refresh in progress may show that both grants are the same.
    private func former(
        _ old: StoredTokens, _ row: SessionRow, _ now: WallTime, waiting rest: Duration?
    ) throws -> OutboxRow {
        var tokens = old.tokens.withoutKey
        // Without the id_token, the log-out call is omitted, so that the provider's own session stays. The user has just
        // signed in there.
        tokens.idToken = nil
        let stored = StoredTokens(
            provider: old.provider, client: old.client, tokens: tokens, issuedAt: old.issuedAt,
            origin: SignInOrigin(row))
        return OutboxRow(
            id: context.vault.digest(try context.vault.random(32)), boundTo: row.tokenDigest,
            tokens: try context.vault.seal(stored.record, as: .tokens, row: row.tokenDigest), createdAt: now,
            nextAttemptAt: now.advanced(by: rest ?? .zero))
    }
}

// MARK: An answer that is stored after a later one

extension ExchangeSettlement {
    /// Settles a step-up whose answer waited for the store, while a newer answer to another step-up was stored.
    ///
    /// The session stays as it is, and the tokens go to the outbox. The demand is compared with the session's present sign-in.
    private func overtaken(
        by later: StepUpNote, _ standing: SessionRow, _ facts: SessionFacts, _ demand: StepUpDemand,
        revoking tokens: TokenSet?, _ origin: SignInOrigin
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard demand.isMet(by: facts.signIn, at: later.answeredAt, leeway: plan.client.signInLeeway) else {
            throw await tooWeak(demand, facts.signIn, tokens, origin)
        }
        let session = standing.tokenDigest
        var outbox: [OutboxRow] = []
        if let tokens {
            do throws(VaultFailure) { outbox = [try outboxRow(tokens, origin)] } catch { throw BrokerProblem(error) }
        }
        let isSettled: Bool? = await insisting("settleExchange") { [outbox] () async throws(StoreFailure) in
            let isOwn = try await context.store.settleExchange(
                row.key, fence: row.fence, outcome: .session(session), outbox: outbox, registration: nil)
            if isOwn { return true }
            // If the response of a former attempt was lost, that attempt may have settled the exchange.
            return try await context.store.exchange(row.key)?.outcome == .session(session)
        }
        guard let isSettled else { throw Self.notStored }
        watch(outbox, tokens)
        guard isSettled else {
            throw await spend(.unknown, because: .lost(detail: "the claim of the exchange lapsed"))
        }
        exchange.claim.held.drop()
        context.cache.remove([session])
        plan.charge.sessionMade(exchange: row.key, gate: plan.gate)
        context.events.emit(
            .steppedUp(provider: profile.name, client: plan.client.name, session: standing.handle))
        return try steppedUp(standing, facts)
    }
}

extension StoredTokens {
    /// Returns the set with the access token of a sign-in that brought no new refresh token.
    ///
    /// The values that a refreshed id_token must repeat still belong to the refresh token.
    ///
    /// If the tokens are bound to a key, the set stays unchanged, because the new access token is bound to another key.
    func lending(_ fresh: TokenSet, issuedAt: WallTime) -> StoredTokens {
        guard tokens.key == nil, fresh.key == nil, tokens.credential == fresh.credential else { return self }
        var next = self
        next.tokens.accessToken = fresh.accessToken
        next.tokens.certificate = fresh.certificate
        next.tokens.expiresAt = fresh.expiresAt
        next.issuedAt = issuedAt
        return next
    }
}
