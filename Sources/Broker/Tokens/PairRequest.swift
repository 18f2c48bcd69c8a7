/// One refresh call to the provider, for a target or for the session's own token.
struct PairRequest {
    let turn: RefreshTurn
    let flight: FlightView
    /// The API that the access token is for; nil for the session's own token.
    let wanted: WantedTarget?
    let goal: any PairGoal

    /// The session may end only after this many refusals that may mean a dead grant (guarantee 2).
    ///
    /// The refusals must span at least `countedPeriod`.
    private static let countedRefusals = 3
    private static let countedPeriod = Duration.seconds(300)

    func send() async throws(RefreshCallFailure) -> AnswerInHand {
        let (context, session, stored) = (flight.context, turn.session, turn.session.stored)
        guard let provider = session.provider, let request = try request() else {
            throw RefreshCallFailure(.notSent(detail: "the session cannot be refreshed now"), means: .notSent)
        }
        let begun = context.clock.monotonic()
        // Read this before the call. The endpoint may recover while this call is in flight. A refusal of this call then comes
        // from the outage, and proves nothing about the grant.
        let grantsOthers = context.memory.answers.hasGranted(
            stored.provider, stored.client, since: begun - turn.grant.emptyFor)
        let isOthers = showsAnother()
        let deadline = turn.deadline
        do throws(ProviderFailure) {
            let fresh = try await context.memory.places.within(
                provider, session.row.subject, by: deadline, context.clock
            ) { () async throws(ProviderFailure) in try await provider.refresh(request, by: deadline) }
            let arrivedAt = context.clock.now()
            // Only the answer to a plain call shows that the endpoint grants refreshes.
            if goal.call.provesGrant { context.memory.answers.granted(stored.provider, stored.client, begun: begun) }
            if turn.sending.isBare {
                flight.tellOfProof(session, "the refresh succeeded without a proof, so the tokens stay unbound")
            }
            return .tokens(fresh, arrivedAt: arrivedAt, for: goal)
        } catch {
            let failure = isOthers || showsAnother() ? error.doubted(.otherCertificate) : error
            tell(of: failure)
            throw failed(failure, begun: begun, grantsOthers: grantsOthers)
        }
    }

    /// Builds the request; nil if the session lacks a refresh token, or if the vault fails.
    private func request() throws(RefreshCallFailure) -> RefreshRequest? {
        let (row, stored) = (turn.session.row, turn.session.stored)
        guard let refreshToken = stored.tokens.refreshToken else { return nil }
        var request = RefreshRequest(
            client: stored.client, refreshToken: refreshToken, accessToken: stored.tokens.accessToken,
            idempotencyKey: Base64URL.encode(
                flight.context.vault.index(
                    .logTag,
                    ["refresh", row.handle.text, String(row.tokenVersion)]
                        + (wanted.map { [Base64URL.encode($0.key.bytes)] } ?? [])
                ).bytes),
            recovering: turn.isConfirming)
        request.target = wanted?.target
        do throws(VaultFailure) { request.proof = try proof(with: refreshToken) } catch { return nil }
        request.isBound = stored.tokens.key != nil
        request.isCertified = stored.tokens.certificate != nil
        request.usesNonces = stored.tokens.key?.usesNonces ?? false
        request.sending = turn.sending
        return request
    }

    /// Returns the maker of proofs for the call; nil for a call without proofs.
    ///
    /// Bound tokens use the session's key. If unbound tokens are to become bound, the key is derived from the refresh token.
    /// Another process that makes the call later derives the same key.
    ///
    /// A call with a target never begins a binding. Such a call would also bind the refresh token to the key of its answer, and
    /// the session's token set would not contain that key.
    private func proof(with refreshToken: Secret) throws(VaultFailure) -> ProofMaker? {
        let (context, stored) = (flight.context, turn.session.stored)
        if let key = stored.tokens.key { return ProofMaker(key.pair, context.vault, context.clock) }
        guard goal.call.bringsOwn else { return nil }
        let client = context.providers[stored.provider]?.profile.client(stored.client)
        guard client?.senderConstraint == .dpop else { return nil }
        let seed = context.vault.index(.tokenKey, ["refresh", turn.session.row.handle.text, refreshToken.reveal()])
        return ProofMaker(try context.vault.proofKeyPair(seed: seed.bytes), context.vault, context.clock)
    }

    /// Whether a call shows a certificate that the session's tokens are not bound to.
    ///
    /// A refusal may then concern the certificate instead of the grant.
    private func showsAnother() -> Bool {
        let (context, stored) = (flight.context, turn.session.stored)
        if stored.tokens.certificate != nil {
            return !context.shows(stored.tokens.certificate, stored.provider, stored.client)
        }
        let client = context.providers[stored.provider]?.profile.client(stored.client)
        return client?.senderConstraint == .mtls && stored.tokens.key == nil
    }

    // MARK: Failures

    private func failed(
        _ failure: ProviderFailure, begun: Duration, grantsOthers: Bool
    ) -> RefreshCallFailure {
        let isEnough =
            turn.grant.emptyRefusals + 1 >= Self.countedRefusals && turn.grant.emptyFor >= Self.countedPeriod
        let reading = RefusalReading(
            call: goal.call, isConfirming: turn.isConfirming, mayBeSpent: turn.sending.mayBeSpent,
            isEnough: grantsOthers && isEnough, hasRefreshToken: true)
        let meaning = reading.input(for: failure)
        if case .rejected(.counted) = meaning {
            let stored = turn.session.stored
            flight.context.memory.answers.refused(stored.provider, stored.client, begun: begun)
        }
        let isLost = if case .lost = failure { true } else { false }
        return RefreshCallFailure(failure, means: meaning, isAnswerLost: isLost || turn.sending.mayBeSpent)
    }

    /// Emits the event for a refusal that concerns the broker's proof, or that follows a refused proof.
    private func tell(of failure: ProviderFailure) {
        guard case .rejected(let refusal) = failure else { return }
        let isAfterProof = refusal.doubt != nil && refusal.mayMeanDeadGrant && turn.sending.isBare
        if refusal.isAboutProof || isAfterProof { flight.tellOfProof(turn.session, failure.detail) }
    }
}
