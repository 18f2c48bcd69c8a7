/// The steps that end a refresh: ending the session, releasing the claim, and answering the callers.
extension RefreshFlight {
    /// The pause after a refusal that may mean a dead grant.
    private static let countedPause = Duration.seconds(30)

    // MARK: Ending the session

    /// Ends the session if it still has the tokens whose subject was checked.
    ///
    /// After a step-up, the checked tokens belong to the former grant, and prove nothing about the session.
    func end(
        _ reason: EndReason, ifStillAt version: Int64, _ work: inout Work
    ) async throws(BrokerProblem) -> Bool {
        guard try await end(reason, ifStillAt: version, handle: work.found.row?.handle) else { return false }
        hasEnded(reason, &work)
        return true
    }

    private func end(
        _ reason: EndReason, ifStillAt version: Int64, handle: SessionHandle?
    ) async throws(BrokerProblem) -> Bool {
        do throws(StoreFailure) {
            guard let row = try await context.store.session(tokenDigest: session), row.endedAt == nil else {
                return true
            }
            guard row.tokenVersion == version else { return false }
            let isEnded = try await context.store.condemnRefresh(
                tokenDigest: session, tokenVersion: version, fence: row.fence, reason: reason,
                now: context.clock.now())
            if isEnded { EndSession(context).announce([session], reason, row.handle) }
            return isEnded
        } catch {
            context.cache.remove([session])
            claim.failed("condemnRefresh", error)
            // If the disk is full, the store still accepts endings.
            guard error == .full else { throw BrokerProblem(error) }
        }
        try await EndSession(context).end(.token(session), reason: reason, handle: handle)
        return true
    }

    func condemn(_ reason: EndReason, _ work: inout Work) async -> RefreshStateMachine.Input {
        guard let row = work.found.row, let grant = work.turn?.grant else { return .storeFailed }
        do throws(StoreFailure) {
            let condemned = try await context.store.condemnRefresh(
                tokenDigest: session, tokenVersion: row.tokenVersion, fence: grant.fence, reason: reason,
                now: context.clock.now())
            claim.held.drop()
            if condemned {
                EndSession(context).announce([session], reason)
                hasEnded(reason, &work)
            }
            return .condemned(condemned)
        } catch {
            // The store reported a failure, but the session may have ended.
            context.cache.remove([session])
            claim.failed("condemnRefresh", error)
            await release(&work)
            return .storeFailed
        }
    }

    private func hasEnded(_ reason: EndReason, _ work: inout Work) {
        guard let session = work.found.live else { return }
        context.events.emit(
            .refreshEndedSession(
                provider: session.stored.provider, client: session.stored.client, session: session.row.handle,
                reason: reason))
        var row = session.row
        row.endReason = reason
        work.found = Found(row: row, live: nil)
    }

    // MARK: Releasing the claim

    /// Releases the claim, with the facts about its call that the row has to remember.
    ///
    /// After a refused target, other refreshes of the session may go on at once.
    func release(_ work: inout Work, isOfTarget: Bool = false) async {
        guard let session = work.found.live, let grant = work.turn?.grant else { return }
        let counted = counted(work)
        if !isOfTarget {
            context.events.emit(
                .refreshFailed(
                    provider: session.stored.provider, client: session.stored.client, session: session.row.handle,
                    reason: work.failure?.shortDescription ?? "unknown", counted: counted))
        }
        var pause = isOfTarget ? .zero : backOff(work)
        work.heldBackFor = pause
        if !isOfTarget, let failed = work.failures.last, failed.call == goal.call {
            pause = goal.rest(after: failed.failure, for: pause, view(work))
        }
        if pause > .zero {
            context.memory.flights.holdBack(self.session, until: context.clock.monotonic() + pause)
        }
        claim.held.drop()
        let release = RefreshRelease(
            tokenDigest: self.session, tokenVersion: session.row.tokenVersion, fence: grant.fence, holdBack: pause,
            answerLost: work.answerLost, emptyRefusal: counted != nil)
        do throws(StoreFailure) { try await context.store.releaseRefresh(release) } catch {
            claim.failed("releaseRefresh", error)
            // Release the claim in the background. The row needs the facts about this call, because they decide the reason if the
            // session ends later. Also, until the claim is released or lapses, the session cannot be refreshed.
            let store = context.store
            claim.giveBack(after: ClaimedSession.pauseBeforeGivingBack) { () async throws(StoreFailure) in
                try await store.releaseRefresh(release)
            }
        }
    }

    /// Returns the error code of a refusal that may mean a dead grant; nil for other failures.
    ///
    /// The code is empty if the answer had an empty body.
    private func counted(_ work: Work) -> String? {
        guard let failed = work.failures.last, failed.call.provesGrant, case .rejected(let refusal) = failed.failure,
            refusal.mayMeanDeadGrant
        else { return nil }
        return refusal.code
    }

    private func backOff(_ work: Work) -> Duration {
        switch work.failure {
        case .retryable(_, let retryAfter?, _): return min(max(retryAfter, .seconds(1)), .seconds(300))
        case .rejected(let refusal) where work.failures.last?.call.provesGrant == true:
            if refusal.mayMeanDeadGrant { return Self.countedPause }
            guard refusal.isInvalidGrant else { return .seconds(2) }
            // If the claim was taken over, its former owner may still store a new pair for a while. A retry is useless until
            // this time is over.
            return work.turn?.grant.takenOverFor.map { max(.seconds(2), Self.takeOverGrace - $0) } ?? .seconds(2)
        default: return .seconds(2)
        }
    }

    // MARK: Answering

    func finish(
        _ outcome: RefreshStateMachine.Outcome, _ work: Work, _ progress: RefreshStateMachine.Progress
    ) async throws(BrokerProblem) -> SharedFlight.Outcome {
        switch outcome {
        case .useStored:
            guard let session = work.found.live, SessionStanding(session.row, context) == .lives else {
                return try await ended(work, progress)
            }
            if work.hasWaited, work.turn == nil {
                context.events.emit(
                    .refreshShared(provider: session.stored.provider, client: session.stored.client))
            }
            return goal.result(of: session, context)
        case .sessionEnded: return try await ended(work, progress)
        case .notRefreshable: return .failure(BrokerProblem(.notRefreshable))
        case .targetRefused:
            return goal.refused(work.targetFailure, in: work.found.live, isServable: need == .expiring, view(work))
        case .unavailable:
            return .failure(
                BrokerProblem(
                    .providerUnavailable, privateDetail: work.failure?.detail,
                    retryAfter: max(.seconds(1), work.heldBackFor ?? backOff(work))))
        case .storeUnavailable: return .failure(BrokerProblem(.storeUnavailable, retryAfter: .seconds(2)))
        }
    }

    private func ended(
        _ work: Work, _ progress: RefreshStateMachine.Progress
    ) async throws(BrokerProblem) -> SharedFlight.Outcome {
        var latest = work
        if work.found.row?.endReason == nil { _ = try await read(&latest, progress) }
        guard let row = latest.found.row else { return .failure(BrokerProblem(.sessionRequired)) }
        if let reason = row.endReason { return .failure(BrokerProblem(.sessionEnded, with: .ended(reason))) }
        switch SessionStanding(row, context) {
        case .lapsed(let reason): return .failure(BrokerProblem(.sessionEnded, with: .ended(reason)))
        // The session is alive according to the present time, so an earlier time was wrong.
        case .lives, .doubted: return .failure(.clockDoubted)
        }
    }
}
