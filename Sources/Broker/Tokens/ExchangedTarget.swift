/// The goal of fetching another API's access token in exchange for the session's own access token (RFC 8693).
///
/// An exchange spends no token. If the session's own access token has too little time left, it is refreshed first.
struct ExchangedTarget: TargetGoal {
    let wanted: WantedTarget
    let call = RefreshCall.exchange

    func find(in session: inout OpenSession, _ flight: FlightView) async throws(BrokerProblem) -> FoundToken {
        session.kept = try await kept(of: flight)
        let context = flight.context
        let (stored, now) = (session.stored, context.clock.now())
        let own = stored.access(version: session.row.tokenVersion)
        let isOwnShown = context.shows(own.certificate, stored.provider, stored.client)
        let isOwnFresh = RefreshTiming.isFresh(
            own, flight.session, margin: context.settings.refreshMargin, at: now)
        var needsOwn = needsBinding(session, flight) || !isOwnFresh
        if !session.isRefreshable, isOwnShown, RefreshTiming.isUsable(own, at: now) { needsOwn = false }
        return found(in: session, needsOwn: needsOwn, rest: stored.withheldFor(at: now), at: now, flight)
    }

    func next(
        _ found: FoundToken, _ need: RefreshStateMachine.Need, after progress: RefreshStateMachine.Progress
    ) -> RefreshStateMachine.NextStep {
        // A refused exchange is made once more, with the access token that a plain refresh has brought.
        let mayRepeat = progress.isRefreshed && !progress.isRepeated
        let isDecided = found.withheld == nil && progress.isInQuestion && !mayRepeat
        return isDecided ? .finish(.targetRefused) : step(found, need, after: progress)
    }

    // MARK: Exchanging

    func request(_ turn: RefreshTurn, _ flight: FlightView) async throws(RefreshCallFailure) -> AnswerInHand {
        let (context, session, stored) = (flight.context, turn.session, turn.session.stored)
        guard let provider = context.providers[stored.provider] as? any TokenExchanging else {
            throw RefreshCallFailure(
                .unusable(detail: "this kind of provider exchanges no tokens"), means: .rejected(.target))
        }
        var request = TargetExchange(
            client: stored.client, subjectToken: stored.tokens.accessToken, target: wanted.target)
        request.proof = stored.tokens.key.map { ProofMaker($0.pair, context.vault, context.clock) }
        request.isCertified = stored.tokens.certificate != nil
        request.usesNonces = stored.tokens.key?.usesNonces ?? false
        let fresh: TokenSet
        do throws(ProviderFailure) {
            let (request, deadline) = (request, turn.deadline)
            fresh = try await context.memory.places.within(
                provider, session.row.subject, by: deadline, context.clock
            ) { () async throws(ProviderFailure) in try await provider.exchange(request, by: deadline) }
        } catch {
            if case .rejected(let refusal) = error, refusal.isAboutProof { flight.tellOfProof(session, error.detail) }
            let reading = RefusalReading(
                call: call, isConfirming: false, mayBeSpent: false, isEnough: false,
                hasRefreshToken: stored.tokens.refreshToken != nil)
            throw RefreshCallFailure(error, means: reading.input(for: error))
        }
        return .exchanged(try sealed(fresh, turn, flight))
    }

    private func sealed(
        _ fresh: TokenSet, _ turn: RefreshTurn, _ flight: FlightView
    ) throws(RefreshCallFailure) -> TargetTokenRow {
        let context = flight.context
        guard !isWithheld(fresh, in: turn.session) else {
            tellOfWithheld(fresh, in: turn.session, flight)
            context.memory.targets.rests(wanted.key, for: TargetMemory.withheld, at: context.clock.monotonic())
            throw RefreshCallFailure(
                .unusable(detail: "the exchanged token is not bound as the session's tokens are"), means: .unusable)
        }
        do throws(VaultFailure) {
            return try sealed(fresh, in: turn.session, fence: turn.grant.fence, at: context.clock.now(), context)
        } catch {
            throw RefreshCallFailure(.unusable(detail: "sealing: \(error)"), means: .unusable)
        }
    }
}
