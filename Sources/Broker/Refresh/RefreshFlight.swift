/// Performs what the refresh machine decides, for one session: reads and claims the row, calls the provider under one
/// deadline, stores the new pair before anything else, and waits for others by reading the row.
struct RefreshFlight: Sendable {
    let context: BrokerContext
    let memory: RefreshMemory
    let session: Digest
    let need: RefreshStateMachine.Need

    /// All provider calls of one claim end within this, measured from before the claim is sent; the claim outlives it.
    static let callBudget = Duration.seconds(15)
    /// How long a late winner may still commit after its lapsed claim was taken over.
    static let takeOverGrace = Duration.seconds(60)

    /// What the steps share.
    private struct Work {
        var row: SessionRow?
        var stored: StoredTokens?
        var provider: (any TokenRefreshing)?
        var fence: Int64 = 0
        var takenOverSince: Duration?
        var deadline: Duration = .zero
        var fresh: TokenSet?
        var failure: ProviderFailure?
        var pause = Duration.milliseconds(50)
        var hasCalled = false
        var hasWaited = false
    }

    /// Runs to the end; the result is the session's row with the tokens to use.
    func run() async -> Result<SessionRow, BrokerProblem> {
        let patience = context.clock.monotonic() + context.settings.waiterPatience
        var machine = RefreshStateMachine(need: need)
        var work = Work()
        var action: RefreshStateMachine.Action
        do throws(BrokerProblem) {
            action = machine.handle(try await read(&work))
            while true {
                switch action {
                case .claim(let version): action = machine.handle(await claim(version, &work))
                case .call(let confirming): action = machine.handle(await call(confirming: confirming, &work))
                case .commit: action = machine.handle(await commit(&work))
                case .checkSubject: action = machine.handle(await checkSubject(work))
                case .end(let reason):
                    try await EndSession(context).end(.token(session), reason: reason)
                    note(ending: reason, work)
                    work.row?.endReason = reason
                    action = .finish(.sessionEnded)
                case .condemn(let reason): action = machine.handle(await condemn(reason, &work))
                case .release(let outcome):
                    await release(work)
                    action = .finish(outcome)
                case .wait:
                    if !work.hasWaited, let stored = work.stored {
                        work.hasWaited = true
                        context.events.emit(.refreshWaited(provider: stored.provider, client: stored.client))
                    }
                    guard context.clock.monotonic() < patience else {
                        action = machine.handle(.patienceOver)
                        continue
                    }
                    try? await context.clock.sleep(work.pause)
                    work.pause = min(work.pause * 2, .milliseconds(800))
                    action = machine.handle(try await read(&work))
                case .readAgain: action = machine.handle(try await read(&work))
                case .revoke:
                    await revoke(work)
                    action = .finish(.sessionEnded)
                case .finish(let outcome): return try await finish(outcome, work)
                }
            }
        } catch { return .failure(error) }
    }

    // MARK: Steps

    private func read(_ work: inout Work) async throws(BrokerProblem) -> RefreshStateMachine.Input {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(token: session) } catch {
            throw BrokerProblem(error)
        }
        guard let row, row.isLive(at: context.clock.now()), row.tokens != nil else {
            work.row = row
            return .read(version: 0, live: false, fresh: false, usable: false, refreshable: false)
        }
        let stored = try StoredTokens.open(row, context)
        work.row = row
        work.stored = stored
        work.provider = context.providers[stored.provider] as? any TokenRefreshing
        let now = context.clock.now()
        return .read(
            version: row.tokenVersion, live: true,
            fresh: RefreshTiming.isFresh(stored, session, margin: context.settings.refreshMargin, at: now),
            usable: RefreshTiming.isUsable(stored, at: now),
            refreshable: work.provider != nil && stored.tokens.refreshToken != nil)
    }

    private func claim(_ version: Int64, _ work: inout Work) async -> RefreshStateMachine.Input {
        work.deadline = context.clock.monotonic() + Self.callBudget
        let now = context.clock.now()
        do throws(StoreFailure) {
            switch try await context.store.claimRefresh(
                token: session, tokenVersion: version, now: now,
                claimUntil: now.advanced(by: context.settings.claimLifetime))
            {
            case .claimed(let fence, let takenOver):
                work.fence = fence
                if takenOver {
                    work.takenOverSince = memory.takenOver(
                        session, version: version, at: context.clock.monotonic())
                }
                return .claimed(fence: fence, takenOver: takenOver)
            case .busy: return .busy
            case .moved: return .moved
            case .gone: return .gone
            }
        } catch { return failed("claimRefresh", error) }
    }

    private func call(confirming: Bool, _ work: inout Work) async -> RefreshStateMachine.Input {
        guard let provider = work.provider, let stored = work.stored, let row = work.row,
            let refreshToken = stored.tokens.refreshToken, context.clock.monotonic() < work.deadline
        else { return .notSent }
        let request = RefreshRequest(
            client: stored.client, refreshToken: refreshToken, accessToken: stored.tokens.accessToken,
            idempotencyKey: Base64URL.encode(
                context.vault.index(.logTag, ["refresh", row.handle.text, String(row.tokenVersion)]).bytes),
            recovering: confirming)
        work.hasCalled = true
        do throws(ProviderFailure) {
            let fresh = try await provider.refresh(request)
            work.fresh = fresh
            return .refreshed
        } catch {
            work.failure = error
            switch error {
            case .notSent: return .notSent
            case .retryable: return .retryable
            case .rejected(let oauth):
                let settled =
                    work.takenOverSince.map {
                        context.clock.monotonic() - $0 >= Self.takeOverGrace
                    } ?? true
                return .rejected(invalidGrant: oauth.isInvalidGrant, takenOverSettled: settled)
            case .unusable, .identityRejected: return .unusable
            case .lost: return .lost
            }
        }
    }

    /// Stores the new pair; tries again for as long as a store that blinked may come back, because the old refresh token
    /// is spent.
    private func commit(_ work: inout Work) async -> RefreshStateMachine.Input {
        guard let fresh = work.fresh, let stored = work.stored, let row = work.row,
            let commit = try? sealed(fresh, stored, row)
        else { return .storeFailed }
        let end = context.clock.monotonic() + .seconds(20)
        var pause = Duration.milliseconds(50)
        while true {
            do throws(StoreFailure) {
                switch try await context.store.commitRefresh(commit) {
                case .committed:
                    context.cache.remove([session])
                    context.notices.post(.tokensRefreshed, to: session)
                    context.events.emit(
                        .refreshed(provider: stored.provider, client: stored.client, session: row.handle))
                    return .committed
                case .superseded:
                    // Perhaps by ourselves, when the answer to our own write was lost; either way the row is right.
                    return .superseded
                case .ended: return .ended
                }
            } catch {
                _ = failed("commitRefresh", error)
                guard context.clock.monotonic() < end else { return .storeFailed }
                try? await context.clock.sleep(pause)
                pause = min(pause * 2, .seconds(1))
            }
        }
    }

    private func sealed(_ fresh: TokenSet, _ stored: StoredTokens, _ row: SessionRow) throws -> RefreshCommit {
        let now = context.clock.now()
        var facts = try SessionFacts(record: context.vault.open(row.facts, as: .session, row: session))
        let tokens = stored.tokens.refreshed(with: fresh)
        let scopeShrank = fresh.scope != nil && tokens.scope != facts.scope
        if scopeShrank { facts.scope = tokens.scope ?? [] }
        let next = StoredTokens(
            provider: stored.provider, client: stored.client, tokens: tokens, issuedAt: now)
        let refreshable = tokens.refreshToken != nil
        return RefreshCommit(
            token: session, tokenVersion: row.tokenVersion,
            tokens: try context.vault.seal(next.record, as: .tokens, row: session),
            facts: scopeShrank ? try context.vault.seal(facts.record, as: .session, row: session) : nil,
            tokenExpiresAt: tokens.expiresAt, refreshable: refreshable,
            expiresAt: SessionLimits.end(
                created: row.createdAt, facts.lifetimes, tokens: tokens, refreshable: refreshable))
    }

    /// Looks at a refreshed id_token: another subject ends the session; one that does not verify only loses its claims
    /// (SEC-59).
    private func checkSubject(_ work: Work) async -> RefreshStateMachine.Input {
        guard let fresh = work.fresh, fresh.idToken != nil, let stored = work.stored, let provider = work.provider,
            let row = work.row, let bytes = try? context.vault.open(row.facts, as: .session, row: session),
            let facts = try? SessionFacts(record: bytes)
        else { return .subjectChecked(same: true) }
        do throws(ProviderFailure) {
            switch try await provider.subjectOfRefreshed(fresh, client: stored.client) {
            case .subject(let subject): return .subjectChecked(same: subject == facts.subject)
            case .absent, .unverifiable: return .subjectChecked(same: true)
            }
        } catch { return .subjectChecked(same: true) }
    }

    private func condemn(_ reason: EndReason, _ work: inout Work) async -> RefreshStateMachine.Input {
        guard let row = work.row else { return .storeFailed }
        do throws(StoreFailure) {
            let condemned = try await context.store.condemnRefresh(
                token: session, tokenVersion: row.tokenVersion, fence: work.fence, reason: reason,
                now: context.clock.now())
            if condemned {
                work.row?.endReason = reason
                EndSession(context).announce([session], reason)
                note(ending: reason, work)
            }
            return .condemned(condemned)
        } catch { return failed("condemnRefresh", error) }
    }

    private func note(ending reason: EndReason, _ work: Work) {
        guard let stored = work.stored, let row = work.row else { return }
        context.events.emit(
            .refreshEndedSession(
                provider: stored.provider, client: stored.client, session: row.handle, reason: reason))
    }

    private func release(_ work: Work) async {
        guard let row = work.row else { return }
        if let stored = work.stored {
            context.events.emit(
                .refreshFailed(
                    provider: stored.provider, client: stored.client, session: row.handle,
                    reason: work.failure?.shortDescription ?? "unknown"))
        }
        memory.holdBack(session, until: context.clock.monotonic() + backOff(work))
        do throws(StoreFailure) {
            try await context.store.releaseRefresh(
                token: session, tokenVersion: row.tokenVersion, fence: work.fence)
        } catch { _ = failed("releaseRefresh", error) }
    }

    private func backOff(_ work: Work) -> Duration {
        if case .retryable(_, let retryAfter?, _) = work.failure {
            return min(max(retryAfter, .seconds(1)), .seconds(300))
        }
        return .seconds(2)
    }

    /// Hands a pair that came for an ended session to the outbox, to be revoked (SEC-64).
    private func revoke(_ work: Work) async {
        guard let fresh = work.fresh, let stored = work.stored else { return }
        let now = context.clock.now()
        var tokens = stored.tokens.refreshed(with: fresh)
        // The provider's session is ended by the session's own row.
        tokens.idToken = nil
        let late = StoredTokens(provider: stored.provider, client: stored.client, tokens: tokens, issuedAt: now)
        do {
            try await context.store.addOutbox([
                OutboxRow(
                    id: context.vault.digest(try context.vault.random(32)), boundTo: session,
                    tokens: try context.vault.seal(late.record, as: .tokens, row: session), createdAt: now,
                    nextAttemptAt: now)
            ])
        } catch { context.events.emit(.storeFailed(operation: "addOutbox", detail: "\(error)")) }
    }

    private func finish(
        _ outcome: RefreshStateMachine.Outcome, _ work: Work
    ) async throws(BrokerProblem) -> Result<SessionRow, BrokerProblem> {
        switch outcome {
        case .useStored:
            if !work.hasCalled, let stored = work.stored {
                context.events.emit(.refreshShared(provider: stored.provider, client: stored.client))
            }
            // What others stored, or we did: read it as it is now.
            var latest = work
            _ = try await read(&latest)
            if let row = latest.row, row.tokens != nil { return .success(row) }
            return .failure(BrokerProblem(.sessionEnded, reason: latest.row?.endReason ?? work.row?.endReason))
        case .sessionEnded:
            var latest = work
            if work.row?.endReason == nil { _ = try await read(&latest) }
            guard let row = latest.row else { return .failure(BrokerProblem(.sessionRequired)) }
            let reason = row.endReason ?? SessionLimits.lapse(of: row, at: context.clock.now())
            return .failure(BrokerProblem(.sessionEnded, reason: reason ?? .expired))
        case .notRefreshable: return .failure(BrokerProblem(.notRefreshable))
        case .unavailable:
            return .failure(
                BrokerProblem(
                    .providerUnavailable, privateDetail: work.failure?.detail,
                    retryAfter: max(.seconds(1), backOff(work))))
        case .storeUnavailable: return .failure(BrokerProblem(.storeUnavailable, retryAfter: .seconds(2)))
        }
    }

    private func failed(_ operation: StaticString, _ failure: StoreFailure) -> RefreshStateMachine.Input {
        context.events.emit(.storeFailed(operation: operation, detail: "\(failure)"))
        return .storeFailed
    }
}
