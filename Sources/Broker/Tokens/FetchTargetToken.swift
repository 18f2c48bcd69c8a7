/// Fetches a session's access tokens for APIs other than its own, on demand and under the session's one refresh claim
/// (guarantee 2).
package struct FetchTargetToken: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns the stored access token for a target, or a new one if there is no stored token or it expires too soon.
    ///
    /// `refused` is an access token that an `upstream` has refused; a newer one is then returned. A child uses its parent's
    /// tokens. A token younger than a minute is not renewed for a child.
    ///
    /// Throws `provider_error` if the provider refuses the target; the session lives on. Throws `not_refreshable` if the
    /// session has no token to present to the provider, or if the upstream refuses every newer token.
    package func accessToken(
        for given: LiveSession, at target: TokenTarget, insteadOf refused: AccessToken? = nil, by upstream: String = ""
    ) async throws(BrokerProblem) -> AccessToken {
        let session = given.tokenHolder
        guard session.hasTokens else {
            throw BrokerProblem(
                .notRefreshable,
                privateDetail: "the session was made from an id_token, so it has no tokens for another API")
        }
        let wanted = WantedTarget(target, of: session.tokenDigest, context.vault)
        let standing: AccessToken
        do throws(BrokerProblem) {
            guard let refused else { return try await token(session, wanted, .expiring) }
            guard given.facts.child != nil, RefreshTiming.isYoung(refused, at: context.clock.now()) else {
                return try await token(
                    session, wanted, .forced(fromVersion: refused.version), for: .upstream(upstream))
            }
            standing = try await token(session, wanted, .expiring)
        } catch { throw given.hears(error) }
        guard standing.version != refused?.version else {
            throw BrokerProblem(
                .notRefreshable,
                privateDetail:
                    "an upstream refused a child's token that is less than a minute old, so no refresh is forced")
        }
        return standing
    }

    private func token(
        _ session: LiveSession, _ wanted: WantedTarget, _ need: RefreshStateMachine.Need,
        for asker: ForcedRefreshes.Asker? = nil
    ) async throws(BrokerProblem) -> AccessToken {
        // Tokens are used only after their subject was checked (SEC-59).
        let kept = session.row.subjectUnchecked ? nil : try await kept(session, wanted)
        if let kept, isServed(by: kept, session, need) {
            noteUse(of: kept)
            return kept.access
        }
        if let asker, case .forced(let refused) = need,
            !context.memory.forced.mayForce(
                session.tokenDigest, wanted.key, insteadOf: refused, for: asker, at: context.clock.monotonic(),
                pause: context.settings.forcedRefreshPause)
        {
            throw BrokerProblem(
                .notRefreshable,
                privateDetail: "the upstream keeps refusing newer tokens, so no refresh is forced; check the upstream")
        }
        return try await fetch(session, wanted, need, kept, for: asker)
    }

    private func kept(_ session: LiveSession, _ wanted: WantedTarget) async throws(BrokerProblem) -> KeptTargetToken? {
        do throws(StoreFailure) {
            return try await context.store.targetToken(wanted.key, of: session.tokenDigest)
                .flatMap { KeptTargetToken($0, context) }
        } catch { throw BrokerProblem(error) }
    }

    private func isShown(_ access: AccessToken, _ session: LiveSession) -> Bool {
        context.shows(access.certificate, session.facts.provider, session.facts.client)
    }

    private func isServed(by kept: KeptTargetToken, _ session: LiveSession, _ need: RefreshStateMachine.Need) -> Bool {
        let (access, now) = (kept.access, context.clock.now())
        guard isShown(access, session) else { return false }
        switch need {
        case .expiring:
            return RefreshTiming.isFresh(
                access, session.tokenDigest, margin: context.settings.refreshMargin, at: now)
        case .forced(let from): return access.version != from && RefreshTiming.isUsable(access, at: now)
        }
    }

    /// Notes in the background that a token is used, at most once a minute.
    ///
    /// The noted time decides which token is dropped when a session gets a ninth token.
    private func noteUse(of kept: KeptTargetToken) {
        let now = context.clock.now()
        guard now.since(kept.row.usedAt) >= TargetMemory.noting, context.may(.writeUse),
            context.memory.targets.notes(kept.row.key, at: context.clock.monotonic())
        else { return }
        let context = context
        context.spawner.spawn("useAudience") {
            do throws(StoreFailure) { try await context.store.useTargetToken(kept.row.key, at: now) } catch {
                // The next use of the token writes its time again.
                context.events.emit(.storeFailed(operation: "useAudience", detail: "\(error)"))
            }
        }
    }

    /// Joins the session's refresh in progress, or begins one.
    ///
    /// If the refresh in progress has another purpose, the caller waits for its end and tries again.
    private func fetch(
        _ session: LiveSession, _ wanted: WantedTarget, _ need: RefreshStateMachine.Need, _ kept: KeptTargetToken?,
        for asker: ForcedRefreshes.Asker?
    ) async throws(BrokerProblem) -> AccessToken {
        let (flights, memory) = (context.memory.flights, context.memory.targets)
        let begun = context.clock.monotonic()
        let place = TargetMemory.Place(
            provider: session.facts.provider, client: session.facts.client, target: wanted.target)
        var hasRepeated = false
        while true {
            let moment = context.clock.monotonic()
            let underWay = flights.underWay(session.tokenDigest)
            // If the stored token is about to expire but still valid, return it at once, and fetch the next token in the
            // background.
            let living = need == .expiring ? kept.flatMap { usable($0, session) } : nil
            if underWay != nil, underWay?.target != wanted.key, let living { return living }
            do throws(BrokerProblem) {
                try checkMayBegin(wanted, place, session, isJoining: underWay?.target == wanted.key, at: moment)
            } catch {
                guard let living else { throw error }
                return living
            }
            let (flight, isNew) = flights.join(session.tokenDigest, for: wanted.key)
            if isNew {
                memory.begins(place, at: moment)
                begin(flight, session, wanted, need, for: asker)
            } else if living == nil {
                context.events.emit(.refreshWaited(provider: session.facts.provider, client: session.facts.client))
            }
            if let living { return living }
            // The caller that began the flight waits for all calls of the flight. The other callers wait for
            // `waiterPatience`.
            let patience = isNew ? RefreshFlight.callBudget + .seconds(5) : context.settings.waiterPatience
            guard let outcome = await flight.wait(until: (isNew ? moment : begun) + patience) else {
                throw BrokerProblem(
                    .providerUnavailable, privateDetail: "the caller hung up, or the token did not arrive in time",
                    retryAfter: .seconds(1))
            }
            guard isNew || flight.target == wanted.key else {
                try outcome.throwIfFinal()
                continue
            }
            guard let access = try outcome.get().access else { throw BrokerProblem(.internalError) }
            // If a flight began for a weaker need, it may have returned the stored token, which this caller must not use
            // again.
            if !isNew, case .forced(let from) = need, access.version <= from { continue }
            if RefreshTiming.hasRunOut(access, at: context.clock.now()) {
                // The token has expired before it arrived, because the store was unavailable or the process was suspended. So
                // fetch a fresh token one time.
                guard !isNew, !hasRepeated else { throw .ranOut }
                hasRepeated = true
                continue
            }
            if !isNew {
                context.events.emit(.refreshShared(provider: session.facts.provider, client: session.facts.client))
            }
            return access
        }
    }

    /// Throws if the target's last refusal, or the session's last failure, is too recent for another call.
    ///
    /// A caller that joins the target's own refresh in progress ignores the refusal.
    private func checkMayBegin(
        _ wanted: WantedTarget, _ place: TargetMemory.Place, _ session: LiveSession, isJoining: Bool,
        at moment: Duration
    ) throws(BrokerProblem) {
        let (flights, memory) = (context.memory.flights, context.memory.targets)
        if !isJoining, let refusal = memory.refusal(wanted.key, place, at: moment) {
            throw BrokerProblem(refusal)
        }
        if let wait = flights.backOff(session.tokenDigest, at: moment) {
            throw BrokerProblem(
                .providerUnavailable,
                privateDetail: "an earlier refresh of the session failed, so the next one waits; see `refresh failed`",
                retryAfter: wait)
        }
    }

    private func usable(_ kept: KeptTargetToken, _ session: LiveSession) -> AccessToken? {
        isShown(kept.access, session) && RefreshTiming.isUsable(kept.access, at: context.clock.now())
            ? kept.access : nil
    }

    private func begin(
        _ flight: SharedFlight, _ session: LiveSession, _ wanted: WantedTarget, _ need: RefreshStateMachine.Need,
        for asker: ForcedRefreshes.Asker?
    ) {
        let work = RefreshFlight(
            context: context, flight: flight, session: session.tokenDigest, need: need, goal: wanted.goal,
            asker: asker)
        let flights = context.memory.flights
        context.spawner.spawn("refresh") {
            let outcome = await work.run()
            flights.finish(session.tokenDigest)
            flight.answer(outcome)
        }
    }
}

extension BrokerProblem {
    /// Returns the problem for a token that is not requested now.
    fileprivate init(_ refusal: TargetMemory.Refusal) {
        switch refusal {
        case .refused:
            self.init(
                .providerError,
                privateDetail:
                    "the provider refused a token for this API a short time ago, so it is not called again yet")
        case .rests(let rest):
            self.init(
                .providerUnavailable,
                privateDetail: "the provider's last answer for this API was unusable, so the next call waits",
                retryAfter: rest)
        }
    }
}

extension SharedFlight.Outcome {
    /// Throws the result of a refresh for another purpose if that result holds for every caller.
    ///
    /// For example, the store is unavailable, or the session is over.
    func throwIfFinal() throws(BrokerProblem) {
        guard case .failure(let problem) = self else { return }
        switch problem.code {
        case .storeUnavailable, .sessionEnded, .sessionRequired, .internalError: throw problem
        default: break
        }
    }
}
