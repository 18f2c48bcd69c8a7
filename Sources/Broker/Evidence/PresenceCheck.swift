/// Checks whether the user has confirmed a call: the request needs a proof that the session's presence key has signed over
/// exactly this request.
///
/// The check has two steps. The first step (`judge`) is cheap and comes early. The caller then checks all other reasons to
/// refuse the call. The second step (`take`) uses up the proof immediately before the call is sent to the upstream. Afterwards,
/// each replica refuses this proof.
package struct PresenceCheck: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Checks everything in a presence proof except its signature.
    ///
    /// Throws the reason if a check fails, or if the request has no presence proof.
    package func judge(
        _ evidence: PresentedEvidence, of session: LiveSession
    ) async throws(BrokerProblem) -> JudgedPresence {
        do throws(BrokerProblem) {
            let candidate = try await candidate(evidence, session)
            let charge = evidence.charge
            return JudgedPresence { () async throws(BrokerProblem) in
                try await take(candidate, session, charge)
            } giveBack: {
                await giveBack(candidate)
            }
        } catch {
            note(error, session)
            throw error
        }
    }

    private func candidate(
        _ evidence: PresentedEvidence, _ session: LiveSession
    ) async throws(BrokerProblem) -> ProofVerifier.Candidate {
        // A child belongs to a web page, a widget or a watch, and these must not use the app's presence key.
        guard session.facts.child == nil else {
            throw BrokerProblem(PresenceRefusal(.required, isBound: session.binding != nil, isOfParent: true))
        }
        // An unbound session can never have a presence key. If the answer demanded a presence proof, the app would retry
        // forever.
        guard session.binding != nil else {
            throw BrokerProblem(
                .stepUpFailed, detail: "The call needs the user's presence, and this session belongs to no key.",
                privateDetail: "the session is unbound, so it has no presence key",
                with: .shortfall(StepUpShortfall(required: .presence, got: nil)))
        }
        guard !evidence.proofs.isEmpty, let presence = try await presence(of: session) else {
            throw BrokerProblem(PresenceRefusal(.required))
        }
        do throws(ProofRefusal) {
            return try ProofCheck(context: context).candidate(
                evidence, tokenDigest: session.tokenDigest, thumbprint: presence.thumbprint)
        } catch { throw BrokerProblem(PresenceRefusal(error)) }
    }

    /// Returns the presence key of a session.
    ///
    /// If the given session lacks a presence key, it is read from the store again, because another replica may have just
    /// registered a key.
    private func presence(of session: LiveSession) async throws(BrokerProblem) -> SessionPresence? {
        let resume = ResumeSession(context: context)
        if let known = try resume.presence(of: session) { return known }
        return try resume.presence(of: try await resume.reread(session))
    }

    private func take(
        _ candidate: ProofVerifier.Candidate, _ session: LiveSession, _ charge: ProofCharge
    ) async throws(BrokerProblem) {
        do throws(BrokerProblem) {
            try await ProofCheck(context: context).takePresence(
                candidate, of: session.tokenDigest, paidBy: charge)
        } catch {
            note(error, session)
            throw error
        }
        note("accepted", session)
    }

    private func giveBack(_ candidate: ProofVerifier.Candidate) async {
        await ProofCheck(context: context).giveBackPresence(candidate)
    }

    private func note(_ problem: BrokerProblem, _ session: LiveSession) {
        if let refusal = problem.presence { note(refusal.result, session) }
    }

    private func note(_ result: String, _ session: LiveSession) {
        context.events.emit(
            .presenceJudged(provider: session.facts.provider, client: session.facts.client, result: result))
    }
}

extension ProofCheck {
    /// Verifies the signature of a presence proof, and uses up the proof, so that each replica refuses a second use.
    ///
    /// A proof for a safe method is used up, too. The proof expresses the user's decision, and a read may be as valuable as a
    /// write.
    ///
    /// The age of the nonce is checked a second time. Since the first check, the broker may have waited for the request's body
    /// or for an access token. If the nonce is now too old, the broker may have forgotten used proofs with this nonce, so the
    /// proof is refused. If the nonce is in the second period of its life, the broker's answer contains a new nonce.
    func takePresence(
        _ candidate: ProofVerifier.Candidate, of session: Digest, paidBy charge: ProofCharge
    ) async throws(BrokerProblem) {
        if let refusal = try await verified(candidate, of: session, paidBy: charge) {
            throw BrokerProblem(PresenceRefusal(refusal))
        }
        let uses = context.memory.presences
        guard uses.allows(session, at: context.clock.monotonic()) else {
            throw BrokerProblem(PresenceRefusal(.limited))
        }
        try await takeOnce(candidate)
        // The limit is counted only now, after the store has accepted the proof. Otherwise a thief could send captured proofs
        // again while the store is slow, and use up the limit of the user.
        guard uses.take(session, at: context.clock.monotonic()) else {
            await giveBackPresence(candidate)
            throw BrokerProblem(PresenceRefusal(.limited))
        }
        if candidate.nonce.isAging { RequestScope.current?.givesNonce() }
    }

    private func takeOnce(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        do throws(ProofRefusal) {
            // Record the proof in this process's memory first. So if several calls bring the same proof, only one of them asks
            // the store.
            try context.memory.proofs.take(
                candidate.name, of: candidate.thumbprint, nonce: candidate.nonce, now: context.clock.now())
        } catch { throw BrokerProblem(PresenceRefusal(error)) }
        guard let shared = context.shared else { return }
        let isFirst: Bool
        do throws(BrokerProblem) { isFirst = try await self.isFirst(candidate, shared) } catch {
            context.memory.proofs.giveBack(candidate)
            throw error
        }
        guard isFirst else {
            // Another replica has used the proof, and may still release it. So this process must not remember the proof as
            // used.
            context.memory.proofs.giveBack(candidate)
            throw BrokerProblem(PresenceRefusal(.replayed))
        }
    }

    /// Makes a used presence proof usable again.
    func giveBackPresence(_ candidate: ProofVerifier.Candidate) async {
        if let shared = context.shared {
            do throws(StoreFailure) { try await shared.returnProof(candidate.name) } catch {
                // The store still has the proof as used. So the app has to ask its user for another confirmation.
                return context.events.emit(.storeFailed(operation: "returnProof", detail: "\(error)"))
            }
        }
        context.memory.proofs.giveBack(candidate)
    }
}
