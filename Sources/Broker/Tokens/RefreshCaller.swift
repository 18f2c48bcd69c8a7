/// A caller that needs a fresh access token of a session.
///
/// A session has one refresh at a time, for all goals. The caller joins the refresh in progress, or begins one. If the refresh
/// in progress has another goal, the caller waits for its end and tries again.
struct RefreshCaller: Sendable {
    let context: BrokerContext
    /// The session that has the tokens; for a child, its parent.
    let session: LiveSession
    let goal: any FlightGoal
    let need: RefreshStateMachine.Need
    /// The party that requested a newer token; nil for a refresh because of the token's age.
    var asker: ForcedRefreshes.Asker?

    /// Whether `asker` may have its refused token replaced now.
    ///
    /// The value is false if an upstream keeps refusing newer tokens (`ForcedRefreshes`).
    var mayForce: Bool {
        guard let asker, case .forced(let refused) = need else { return true }
        return context.memory.forced.mayForce(
            session.tokenDigest, goal.key, insteadOf: refused, for: asker, at: context.clock.monotonic(),
            pause: context.settings.forcedRefreshPause)
    }

    /// Begins a refresh in the background, unless the session has one already or has to wait.
    func refreshBeside() {
        let moment = context.clock.monotonic()
        guard hindrance(isJoining: false, at: moment) == nil else { return }
        let (flight, isNew) = context.memory.flights.join(session.tokenDigest, for: goal.key)
        if isNew { begin(flight, at: moment) }
    }

    /// Joins the session's refresh in progress, or begins one, and returns the token that it brings.
    ///
    /// The refresh continues even if all callers have left.
    func token() async throws(BrokerProblem) -> AccessToken {
        let flights = context.memory.flights
        let begun = context.clock.monotonic()
        var hasRepeated = false
        while true {
            let moment = context.clock.monotonic()
            let isJoining = flights.underWay(session.tokenDigest)?.isFor(goal) ?? false
            if let problem = hindrance(isJoining: isJoining, at: moment) { throw problem }
            let (flight, isNew) = flights.join(session.tokenDigest, for: goal.key)
            if isNew {
                begin(flight, at: moment)
            } else {
                context.events.emit(.refreshWaited(provider: session.facts.provider, client: session.facts.client))
            }
            // The caller that began the flight waits for all its calls. The others wait for `waiterPatience`.
            let end = isNew ? moment + RefreshFlight.callBudget + .seconds(5) : begun + context.settings.waiterPatience
            guard let outcome = await flight.wait(until: end) else {
                throw BrokerProblem(
                    .providerUnavailable, privateDetail: "the caller hung up, or the refresh did not end in time",
                    retryAfter: .seconds(1))
            }
            // This flight has another goal, so its token is of no use here. But its failure is passed on if the failure holds for
            // every caller.
            guard isNew || flight.isFor(goal) else {
                try outcome.throwIfFinal()
                continue
            }
            let access = try outcome.get()
            // This caller joined a flight that another caller began. In two cases the flight's token is too old: the other caller
            // accepted the stored token; or a step-up was stored during the flight.
            if !isNew, case .forced(let from) = need, access.version <= from { continue }
            if RefreshTiming.hasRunOut(access, at: context.clock.now()) {
                // A token can run out here if the store was away for long, or if the process was suspended. The next
                // flight brings a fresh token.
                guard !isNew, !hasRepeated else { throw .ranOut }
                hasRepeated = true
                continue
            }
            if !isNew {
                context.events.emit(.refreshShared(provider: session.facts.provider, client: session.facts.client))
            }
            // The withheld access token was dropped, so the session lacks an access token now.
            guard !access.token.isEmpty else {
                throw BrokerProblem(
                    .providerUnavailable,
                    privateDetail: "the provider did not bind the access token to the session's key, so it is not used",
                    retryAfter: .seconds(30))
            }
            return access
        }
    }

    /// Returns the problem that forbids a new refresh now; nil if a refresh may begin.
    ///
    /// The goal's last refusal only hinders a caller that would begin a refresh.
    private func hindrance(isJoining: Bool, at moment: Duration) -> BrokerProblem? {
        if !isJoining, let problem = goal.hindrance(of: session, at: moment, context) { return problem }
        guard let wait = context.memory.flights.backOff(session.tokenDigest, at: moment) else { return nil }
        return BrokerProblem(
            .providerUnavailable,
            privateDetail: "an earlier refresh of the session failed, so the next one waits; see `refresh failed`",
            retryAfter: wait)
    }

    private func begin(_ flight: SharedFlight, at moment: Duration) {
        goal.begins(for: session, at: moment, context)
        let (flights, digest) = (context.memory.flights, session.tokenDigest)
        let work = RefreshFlight(
            context: context, flight: flight, session: digest, need: need, goal: goal, asker: asker,
            claim: ClaimShell(ClaimedSession(store: context.store, tokenDigest: digest), context))
        context.spawner.spawn("refresh") {
            let outcome = await work.run()
            flights.finish(digest)
            flight.answer(outcome)
        }
    }
}

extension BrokerProblem {
    /// The problem for a new access token that expired before the caller got it.
    fileprivate static var ranOut: BrokerProblem {
        BrokerProblem(
            .providerUnavailable,
            privateDetail: "the access token expired before it was used; check its lifetime and the store",
            retryAfter: .seconds(1))
    }
}

extension SharedFlight.Outcome {
    /// Throws the result of a refresh with another goal if that result holds for every caller.
    ///
    /// For example, the store is unavailable, or the session is over.
    fileprivate func throwIfFinal() throws(BrokerProblem) {
        guard case .failure(let problem) = self else { return }
        switch problem.code {
        case .storeUnavailable, .sessionEnded, .sessionRequired, .internalError: throw problem
        default: break
        }
    }
}
