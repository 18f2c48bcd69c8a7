/// Demands of a session, for one call, how and how lately its user signed in (`require`, a query of forward-auth's, an upstream's
/// own challenge).
package struct SignInCheck: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns the session whose sign-in meets a demand: the given one, or the same as it was read again, and then the caller goes
    /// on with that one.
    ///
    /// Throws `step_up_required` where it does not, and `step_up_failed` where the session's provider cannot step up as demanded,
    /// so that no browser is opened for nothing.
    package func require(
        _ demand: StepUpDemand, of session: LiveSession
    ) async throws(BrokerProblem) -> LiveSession {
        try checkTellsAge(demand)
        guard !isMet(demand, session) else { return session }
        // Another process may have stored a step-up that this one's cache does not know yet.
        let latest = try await latest(session)
        guard !isMet(demand, latest) else { return latest }
        throw refusal(demand, latest)
    }

    /// The age below which an upstream's demand counts as this: the call that follows the sign-in takes time.
    private static let shortestAge: Int64 = 60

    /// Judges an upstream's own challenge to an access token, of the session's own or of a `target`: returns the session as it
    /// stands, where its sign-in is what the upstream asks for and another access token of it may do.
    ///
    /// Throws `step_up_required` where another sign-in helps, which includes an access token that is not of the session's last
    /// sign-in; else, where this was the last token, `step_up_failed`.
    package func answer(
        challenge: StepUpDemand, of session: LiveSession, target: TokenTarget?, isLast: Bool
    ) async throws(BrokerProblem) -> LiveSession {
        var demand = challenge
        demand.maximumAge = challenge.maximumAge.map { max($0, Self.shortestAge) }
        try checkTellsAge(demand)
        let latest = try await latest(session)
        guard isMet(demand, latest) else { throw refusal(challenge, latest) }
        guard isLast else { return latest }
        guard try !isOfEarlierSignIn(latest, target) else { throw refusal(challenge, latest) }
        var problem = BrokerProblem(
            .stepUpFailed, privateDetail: "the upstream asks for a sign-in that the session has")
        problem.shortfall = StepUpShortfall(required: challenge, got: latest.facts.signIn, isUpstreams: true)
        throw problem
    }

    /// Whether the access token is of a sign-in before the session's last one.
    ///
    /// That one brought no refresh token, and the access token that it lent has been refreshed since. The next sign-in lends another.
    private func isOfEarlierSignIn(
        _ session: LiveSession, _ target: TokenTarget?
    ) throws(BrokerProblem) -> Bool {
        // What the refresh token brings for another API is never of a sign-in that lends.
        guard let lent = session.facts.lentVersion, session.facts.child == nil, target?.grant != .refresh else {
            return false
        }
        let context = context
        let access = try session.accessToken { row throws(BrokerProblem) in try StoredTokens.open(row, context) }
        return access.version != lent
    }

    /// By a clock that is not trusted no sign-in is too old, and none is recent: the answer is 503 until the clock is set.
    private func checkTellsAge(_ demand: StepUpDemand) throws(BrokerProblem) {
        if demand.maximumAge != nil { try context.require(.judgeAge) }
    }

    private func latest(_ session: LiveSession) async throws(BrokerProblem) -> LiveSession {
        // What a child has of it does not change.
        guard session.facts.child == nil else { return session }
        return try await ResumeSession(context).reread(session)
    }

    private func isMet(_ demand: StepUpDemand, _ session: LiveSession) -> Bool {
        let client = context.providers[session.facts.provider]?.profile.client(session.facts.client)
        return demand.isMet(
            by: session.facts.signIn, at: context.clock.now(), leeway: client?.signInLeeway ?? .seconds(60))
    }

    private func refusal(_ demand: StepUpDemand, _ session: LiveSession) -> BrokerProblem {
        let facts = session.facts
        guard demand.isPossible, context.providers[facts.provider]?.profile.stepUp.canFulfil(demand) == true else {
            var problem = BrokerProblem(
                .stepUpFailed, detail: "The session's provider cannot sign its user in as this asks.",
                privateDetail: "the provider's `step_up` does not have it")
            problem.shortfall = StepUpShortfall(required: demand, got: facts.signIn)
            return problem
        }
        var problem = BrokerProblem(.stepUpRequired)
        problem.wanted = WantedStepUp(
            demand: demand, isOfParent: facts.child != nil, isBound: session.binding != nil)
        return problem
    }
}

/// The step-up that a call needs.
package struct WantedStepUp: Sendable, Equatable {
    package let demand: StepUpDemand
    /// Whether the session is a child: its parent steps up, and makes a new one.
    package let isOfParent: Bool
    /// Whether the session belongs to a key, which says the challenge's scheme.
    package let isBound: Bool

    package init(demand: StepUpDemand, isOfParent: Bool = false, isBound: Bool = false) {
        self.demand = demand
        self.isOfParent = isOfParent
        self.isBound = isBound
    }
}
