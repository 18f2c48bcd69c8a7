/// The goal of fetching another API's access token with the session's refresh token (RFC 8707).
///
/// The answer also has a new refresh token, so it is committed as a pair.
struct RefreshedTarget: TargetGoal, PairGoal {
    let wanted: WantedTarget
    let call = RefreshCall.targeted

    func find(in session: inout OpenSession, _ flight: FlightView) async throws(BrokerProblem) -> FoundToken {
        session.kept = try await kept(of: flight)
        return found(
            in: session, needsOwn: needsBinding(session, flight), rest: nil, at: flight.context.clock.now(), flight)
    }

    func next(
        _ found: FoundToken, _ need: RefreshStateMachine.Need, after progress: RefreshStateMachine.Progress
    ) -> RefreshStateMachine.NextStep {
        let isDecided = found.withheld == nil && progress.isInQuestion
        return isDecided ? .finish(.targetRefused) : step(found, need, after: progress)
    }

    func request(_ turn: RefreshTurn, _ flight: FlightView) async throws(RefreshCallFailure) -> AnswerInHand {
        try await PairRequest(turn: turn, flight: flight, wanted: wanted, goal: self).send()
    }

    // MARK: Storing

    /// Returns the session's tokens with the new refresh token, and the access token for the other API.
    ///
    /// The session's own access token is unchanged.
    func values(of pair: PairInHand) throws(VaultFailure) -> PairValues {
        let (row, stored) = (pair.session.row, pair.session.stored)
        var next = StoredTokens(
            provider: stored.provider, client: stored.client, tokens: stored.tokens.rotated(with: pair.fresh),
            issuedAt: stored.issuedAt, uncheckedIDToken: pair.fresh.idToken, origin: SignInOrigin(row))
        next.accessVersion = stored.accessVersion ?? row.tokenVersion
        let isWithheld = isWithheld(pair.fresh, in: pair.session)
        var target: TargetTokenRow?
        if !isWithheld, !pair.isLent {
            target = try sealed(
                pair.fresh, in: pair.session, fence: pair.grant.fence, at: pair.arrivedAt, pair.context)
        }
        return PairValues(
            tokens: next, isWithheld: isWithheld, formerTokens: pair.overwrites ? nil : row.tokens, targetToken: target)
    }
}
