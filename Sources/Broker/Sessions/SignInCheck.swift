/// Checks whether the session's user signed in strongly and recently enough for one call (`require`, a query of forward-auth,
/// or an upstream's challenge).
package struct SignInCheck: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns a session whose sign-in meets a demand: the given session, or the session as the store has it now.
    ///
    /// Throws `step_up_required` if the sign-in does not meet the demand. Throws `step_up_failed` if the session's provider
    /// cannot step up as demanded, so that the app does not open a browser in vain.
    package func require(
        _ demand: StepUpDemand, of session: LiveSession
    ) async throws(BrokerProblem) -> LiveSession {
        try checkTellsAge(demand)
        guard !isMet(demand, session) else { return session }
        // Another process may have stored a step-up since this process cached the session.
        let latest = try await latest(session)
        guard !isMet(demand, latest) else { return latest }
        throw refusal(demand, latest)
    }

    /// The smallest age that an upstream can demand, in seconds.
    ///
    /// The call after the sign-in takes time, so a smaller age is raised to this value.
    private static let shortestAge: Int64 = 60

    /// Handles an upstream's own challenge to the session's access token, or to the token of a `target`.
    ///
    /// If the session's sign-in meets the challenge and `isLast` is false, returns the current session, because another
    /// access token may be enough.
    ///
    /// Throws `step_up_required` if another sign-in helps, for example if the access token comes from a sign-in before the
    /// last one. With `isLast`, all tokens were tried, so a challenge that the sign-in meets throws `step_up_failed`.
    package func judge(
        challenge: StepUpDemand, of session: LiveSession, target: TokenTarget?, isLast: Bool
    ) async throws(BrokerProblem) -> LiveSession {
        var demand = challenge
        demand.maximumAge = challenge.maximumAge.map { max($0, Self.shortestAge) }
        try checkTellsAge(demand)
        let latest = try await latest(session)
        guard isMet(demand, latest) else { throw refusal(challenge, latest) }
        guard isLast else { return latest }
        guard try !isOfEarlierSignIn(latest, target) else { throw refusal(challenge, latest) }
        throw BrokerProblem(
            .stepUpFailed,
            privateDetail: "the upstream demands a sign-in that the session already has; check the upstream",
            with: .shortfall(StepUpShortfall(required: challenge, got: latest.facts.signIn, isUpstreams: true)))
    }

    /// Returns whether the access token comes from a sign-in before the session's last sign-in.
    ///
    /// For example, the last sign-in brought only an access token, and this token has expired. Then the older sign-in's
    /// refresh token has brought the present access token.
    private func isOfEarlierSignIn(
        _ session: LiveSession, _ target: TokenTarget?
    ) throws(BrokerProblem) -> Bool {
        // Tokens of the grant type `refresh` for other APIs come from the refresh token. A sign-in that brings only an access
        // token cannot change them, so another sign-in would not help.
        guard let lent = session.facts.lentVersion, session.facts.child == nil, target?.grant != .refresh else {
            return false
        }
        let context = context
        let access = try session.accessToken { row throws(BrokerProblem) in try StoredTokens.open(row, context) }
        return access.version != lent
    }

    /// Throws if a demand has an age and the clock is in doubt, because the age cannot be judged then.
    ///
    /// The problem is `store_unavailable` (503).
    private func checkTellsAge(_ demand: StepUpDemand) throws(BrokerProblem) {
        if demand.maximumAge != nil { try context.require(.judgeAge) }
    }

    private func latest(_ session: LiveSession) async throws(BrokerProblem) -> LiveSession {
        // The sign-in in a child's facts never changes, so reading the row again is useless.
        guard session.facts.child == nil else { return session }
        return try await ResumeSession(context: context).reread(session)
    }

    private func isMet(_ demand: StepUpDemand, _ session: LiveSession) -> Bool {
        let client = context.providers[session.facts.provider]?.profile.client(session.facts.client)
        return demand.isMet(
            by: session.facts.signIn, at: context.clock.now(), leeway: client?.signInLeeway ?? .seconds(60))
    }

    private func refusal(_ demand: StepUpDemand, _ session: LiveSession) -> BrokerProblem {
        let facts = session.facts
        guard demand.isPossible, context.providers[facts.provider]?.profile.stepUp.canFulfil(demand) == true else {
            return BrokerProblem(
                .stepUpFailed, detail: "The session's provider cannot fulfil the demanded sign-in.",
                privateDetail: "the provider's `step_up` does not include the demand",
                with: .shortfall(StepUpShortfall(required: demand, got: facts.signIn)))
        }
        let wanted = WantedStepUp(demand: demand, isOfParent: facts.child != nil, isBound: session.binding != nil)
        return BrokerProblem(.stepUpRequired, with: .stepUp(wanted))
    }
}
