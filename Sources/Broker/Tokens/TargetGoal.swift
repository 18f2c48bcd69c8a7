/// The stored access token of a session for another API, opened.
struct KeptTargetToken: Sendable {
    let row: TargetTokenRow
    let access: AccessToken

    /// Opens a row; nil if it is damaged or its key is missing.
    init?(_ row: TargetTokenRow, _ context: BrokerContext) {
        guard let stored = StoredTokens.open(row, context) else { return nil }
        self.row = row
        access = stored.access(version: row.version)
    }
}

/// The goal of fetching another API's access token, with the rules that the refresh and the exchange share.
protocol TargetGoal: FlightGoal {
    var wanted: WantedTarget { get }
}

extension TargetGoal {
    var key: Digest? { wanted.key }
    var needsSubjectMark: Bool { true }

    // MARK: Beginning

    func hindrance(of session: LiveSession, at moment: Duration, _ context: BrokerContext) -> BrokerProblem? {
        let place = place(session.facts.provider, session.facts.client)
        return context.memory.targets.refusal(wanted.key, place, at: moment).map { BrokerProblem($0) }
    }

    func begins(for session: LiveSession, at moment: Duration, _ context: BrokerContext) {
        context.memory.targets.begins(place(session.facts.provider, session.facts.client), at: moment)
    }

    // MARK: Reading

    /// Reads the stored token for the other API.
    func kept(of flight: FlightView) async throws(BrokerProblem) -> KeptTargetToken? {
        let context = flight.context
        do throws(StoreFailure) {
            return try await context.store.targetToken(wanted.key, of: flight.session).flatMap {
                KeptTargetToken($0, context)
            }
        } catch {
            flight.failed("audience", error)
            throw BrokerProblem(error)
        }
    }

    /// Returns the facts about the stored token at the time `now`.
    func found(
        in session: OpenSession, needsOwn: Bool, rest: Duration?, at now: WallTime, _ flight: FlightView
    ) -> FoundToken {
        let (kept, margin) = (session.kept, flight.context.settings.refreshMargin)
        let isOurs = kept != nil && kept?.row.version == flight.grant?.fence
        let stored = session.stored
        let isShown =
            kept.map { flight.context.shows($0.access.certificate, stored.provider, stored.client) } ?? false
        let isFresh = kept.map { RefreshTiming.isFresh($0.access, flight.session, margin: margin, at: now) } ?? false
        let isUsable = kept.map { RefreshTiming.isUsable($0.access, at: now) } ?? false
        let rest = flight.isWithheld ? TargetMemory.withheld : rest
        return FoundToken(
            version: kept?.row.version, isFresh: isShown && (isFresh || isOurs), isUsable: isShown && isUsable,
            isRefreshable: session.isRefreshable, withheld: rest == nil ? nil : .lately, rest: rest, needsOwn: needsOwn)
    }

    /// Whether the session's own tokens have to be refreshed first, because their binding differs from the client's settings.
    func needsBinding(_ session: OpenSession, _ flight: FlightView) -> Bool {
        let (context, stored) = (flight.context, session.stored)
        guard context.shows(stored.tokens.certificate, stored.provider, stored.client) else { return true }
        guard stored.tokens.key == nil, stored.tokens.certificate == nil else { return false }
        let client = context.providers[stored.provider]?.profile.client(stored.client)
        return client?.senderConstraint == .dpop || client?.senderConstraint == .mtls
    }

    /// Decides the next step.
    ///
    /// If necessary, the session's own tokens are refreshed first, once.
    func step(
        _ found: FoundToken, _ need: RefreshStateMachine.Need, after progress: RefreshStateMachine.Progress
    ) -> RefreshStateMachine.NextStep {
        if found.withheld == .lately || (found.withheld != nil && progress.isRefreshed) {
            // A stored token for another API that is still valid is served, even if the session's own token is withheld.
            let isServed = found.isUsable && (need == .expiring || found.serves(need))
            return .finish(isServed ? .useStored : .unavailable)
        }
        if found.serves(need) { return .finish(.useStored) }
        let next = found.needsOwn && !progress.isRefreshed ? .plain : call
        if found.isRefreshable || !next.spendsToken { return .call(next) }
        return .finish(found.isUsable && need == .expiring ? .useStored : .notRefreshable)
    }

    func result(of session: OpenSession, _ context: BrokerContext) -> SharedFlight.Outcome {
        // During the call, a step-up may have deleted the stored token.
        guard let kept = session.kept else {
            return .failure(
                BrokerProblem(
                    .providerUnavailable, privateDetail: "a step-up changed the session's grant during the call",
                    retryAfter: .seconds(1)))
        }
        return .success(kept.access)
    }

    // MARK: Requesting

    func rest(after failure: ProviderFailure, for pause: Duration, _ flight: FlightView) -> Duration {
        switch failure {
        case .rejected, .unusable, .identityRejected:
            // Only this token is left alone for the pause. The session's own token, and tokens for other APIs, may still be
            // fetched.
            flight.context.memory.targets.rests(wanted.key, for: pause, at: flight.context.clock.monotonic())
            return .zero
        // The failure concerns more than the target, so the pause also applies to the session's other refreshes.
        case .notSent, .retryable, .lost: return pause
        }
    }

    func refused(
        _ failure: ProviderFailure?, in session: OpenSession?, isServable: Bool, _ flight: FlightView
    ) -> SharedFlight.Outcome {
        var word: String?
        // A refusal that is about one user concerns only that user. Any other refusal concerns the configuration, and so every
        // session of the client.
        var isOfClient = true
        if case .rejected(let refusal) = failure {
            word = CallbackError.standardWord(refusal.code)
            isOfClient = refusal.isOfClient
        }
        if let session {
            let stored = session.stored
            flight.context.memory.targets.refused(
                wanted.key, of: flight.session, place(stored.provider, stored.client), ofClient: isOfClient,
                at: flight.context.clock.monotonic())
            flight.context.events.emit(
                .targetRefused(
                    provider: stored.provider, client: stored.client, session: session.row.handle,
                    detail: failure?.detail ?? ""))
        }
        if isServable, let session, let access = living(in: session, flight) {
            return .success(access)
        }
        return .failure(BrokerProblem(.providerError, privateDetail: failure?.detail, with: .provider(word)))
    }

    /// Returns the stored token if it is still valid and the client still shows the certificate that the token is bound to.
    private func living(in session: OpenSession, _ flight: FlightView) -> AccessToken? {
        let (context, stored) = (flight.context, session.stored)
        guard let access = session.kept?.access,
            context.shows(access.certificate, stored.provider, stored.client),
            RefreshTiming.isUsable(access, at: context.clock.now())
        else { return nil }
        return access
    }

    // MARK: Storing

    /// Returns whether an answer's access token is left out.
    ///
    /// The token is used only if it is usable, and bound to a key if the session's tokens are.
    func isWithheld(_ fresh: TokenSet, in session: OpenSession) -> Bool {
        fresh.accessToken.isEmpty || (session.stored.tokens.key != nil && fresh.key == nil)
    }

    /// Seals an access token for the row that keeps it.
    func sealed(
        _ fresh: TokenSet, in session: OpenSession, fence: Int64, at now: WallTime, _ context: BrokerContext
    ) throws(VaultFailure) -> TargetTokenRow {
        var tokens = fresh
        tokens.refreshToken = nil
        tokens.refreshExpiresAt = nil
        tokens.idToken = nil
        tokens.scope = fresh.scope ?? wanted.target.scope
        let stored = session.stored
        let record = StoredTokens(provider: stored.provider, client: stored.client, tokens: tokens, issuedAt: now)
            .record
        return TargetTokenRow(
            key: wanted.key, session: session.row.tokenDigest, version: fence, storedAt: now, usedAt: now,
            tokens: try context.vault.seal(record, as: .targetToken, row: wanted.key))
    }

    func wasWritten(_ answer: TokenSet?, isWithheld: Bool, in session: OpenSession, _ flight: FlightView) {
        let (memory, moment) = (flight.context.memory.targets, flight.context.clock.monotonic())
        let stored = session.stored
        guard isWithheld else { return memory.granted(wanted.key, place(stored.provider, stored.client)) }
        if let answer { tellOfWithheld(answer, in: session, flight) }
        memory.rests(wanted.key, for: TargetMemory.withheld, at: moment)
    }

    /// Emits the event for an answer whose access token is not used because it is unbound.
    func tellOfWithheld(_ fresh: TokenSet, in session: OpenSession, _ flight: FlightView) {
        let (stored, handle) = (session.stored, session.row.handle)
        guard let reason = fresh.refusal else {
            flight.context.events.emit(
                .tokenNotBound(provider: stored.provider, client: stored.client, session: handle))
            return
        }
        flight.context.events.emit(
            .tokenOfNoUse(provider: stored.provider, client: stored.client, session: handle, detail: reason))
    }

    func version(in session: OpenSession, _ grant: RefreshGrant) -> Int64 { grant.fence }

    private func place(_ provider: ProviderName, _ client: ClientName) -> TargetMemory.Place {
        TargetMemory.Place(provider: provider, client: client, target: wanted.target)
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
