/// The goal of refreshing the session's own access token.
struct OwnToken: PairGoal {
    let call = RefreshCall.plain
    let key: Digest? = nil
    let needsSubjectMark = false

    // MARK: Beginning

    func hindrance(of session: LiveSession, at moment: Duration, _ context: BrokerContext) -> BrokerProblem? { nil }

    func begins(for session: LiveSession, at moment: Duration, _ context: BrokerContext) {}

    // MARK: Reading

    func find(in session: inout OpenSession, _ flight: FlightView) async throws(BrokerProblem) -> FoundToken {
        let (context, stored) = (flight.context, session.stored)
        let access = stored.access(version: session.row.tokenVersion)
        let now = context.clock.now()
        let isShown = context.shows(access.certificate, stored.provider, stored.client)
        let rest = stored.withheldFor(at: now)
        if let rest {
            context.memory.flights.holdBack(flight.session, until: context.clock.monotonic() + rest)
        }
        return FoundToken(
            version: access.version,
            isFresh: isShown
                && RefreshTiming.isFresh(access, flight.session, margin: context.settings.refreshMargin, at: now),
            isUsable: isShown && RefreshTiming.isUsable(access, at: now), isRefreshable: session.isRefreshable,
            withheld: stored.tokens.isWithheld ? (rest == nil ? .before : .lately) : nil, rest: rest, needsOwn: false)
    }

    func next(
        _ found: FoundToken, _ need: RefreshStateMachine.Need, after progress: RefreshStateMachine.Progress
    ) -> RefreshStateMachine.NextStep {
        // The last access token was withheld, so the session lacks an access token. A new one is requested after a pause.
        if found.withheld == .lately || (found.withheld != nil && progress.isRefreshed) {
            return .finish(.unavailable)
        }
        if progress.isRefreshed || (found.withheld == nil && found.serves(need)) { return .finish(.useStored) }
        if found.isRefreshable { return .call(.plain) }
        return .finish(found.isUsable && need == .expiring ? .useStored : .notRefreshable)
    }

    func result(of session: OpenSession, _ context: BrokerContext) -> SharedFlight.Outcome {
        // Another replica may have stored this row, so this process's cache may contain an older row.
        context.cache.remove(olderThan: session.row)
        return .success(session.stored.access(version: session.row.tokenVersion))
    }

    // MARK: Requesting

    func request(_ turn: RefreshTurn, _ flight: FlightView) async throws(RefreshCallFailure) -> AnswerInHand {
        try await PairRequest(turn: turn, flight: flight, wanted: nil, goal: self).send()
    }

    func rest(after failure: ProviderFailure, for pause: Duration, _ flight: FlightView) -> Duration { pause }

    func refused(
        _ failure: ProviderFailure?, in session: OpenSession?, isServable: Bool, _ flight: FlightView
    ) -> SharedFlight.Outcome { .failure(BrokerProblem(.providerError, privateDetail: failure?.detail)) }

    // MARK: Storing

    func values(of pair: PairInHand) throws(VaultFailure) -> PairValues {
        let stored = pair.session.stored
        let tokens = StoredTokens(
            provider: stored.provider, client: stored.client, tokens: stored.tokens.refreshed(with: pair.fresh),
            issuedAt: pair.arrivedAt, uncheckedIDToken: pair.fresh.idToken)
        return PairValues(tokens: tokens, isWithheld: false, formerTokens: nil, targetToken: nil)
    }

    func wasWritten(_ answer: TokenSet?, isWithheld: Bool, in session: OpenSession, _ flight: FlightView) {
        guard let answer, session.stored.tokens.refreshed(with: answer).isWithheld else { return }
        flight.context.events.emit(
            .tokenNotBound(
                provider: session.stored.provider, client: session.stored.client, session: session.row.handle))
    }

    func version(in session: OpenSession, _ grant: RefreshGrant) -> Int64 { session.row.tokenVersion + 1 }
}
