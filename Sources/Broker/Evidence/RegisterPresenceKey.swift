/// Registers the presence key of a session (`PUT /v1/session/presence-key`).
///
/// The device uses this key only after its user has confirmed.
///
/// A session keeps its first presence key. Otherwise a thief could replace it with the session's own key, which works without
/// the user.
package struct RegisterPresenceKey: Sendable {
    /// The number of seconds after the user's sign-in within which a presence key may be registered.
    ///
    /// During this time, the broker assumes that the person who holds the phone is the user who signed in.
    package static let longestAge: Int64 = 600

    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Throws `client_not_allowed` for an unbound session and for a child, because only a bound parent session can have a
    /// presence key.
    package static func admits(_ session: LiveSession) throws(BrokerProblem) {
        guard session.facts.child == nil, session.binding != nil else {
            throw BrokerProblem(
                .clientNotAllowed, detail: "This session can have no presence key.",
                privateDetail: session.binding == nil ? "the session is not bound" : "the session is a child")
        }
    }

    /// Registers the key that made a presence proof, and returns the session with this key.
    ///
    /// The caller has checked a proof by the session's own key. If the same presence key is already registered, the presence
    /// proof is only used up.
    package func register(
        _ evidence: PresentedEvidence, for given: LiveSession
    ) async throws(BrokerProblem) -> SessionView {
        try Self.admits(given)
        let resume = ResumeSession(context: context)
        let session = try await resume.reread(given)
        do throws(BrokerProblem) {
            if let standing = try resume.presence(of: session) {
                let candidate = try candidate(evidence, session)
                try checkIsSame(candidate, standing)
                try await ProofCheck(context: context).takePresence(
                    candidate, of: session.tokenDigest, paidBy: evidence.charge)
                return try resume.view(of: session)
            }
            // If the sign-in is too old, refuse the call before the proof is used up. For another proof, the user would have to
            // confirm again.
            let fresh = try await SignInCheck(context).require(
                StepUpDemand(maximumAge: Self.longestAge), of: session)
            let candidate = try candidate(evidence, fresh)
            try await ProofCheck(context: context).takePresence(
                candidate, of: fresh.tokenDigest, paidBy: evidence.charge)
            try await store(candidate, fresh)
            // A step-up may have changed the session since it was read, so read it again. The version in the answer has to
            // match the answer's other members.
            return try resume.view(of: try await resume.resume(fresh.tokenDigest))
        } catch {
            if let refusal = error.presence {
                context.events.emit(
                    .presenceJudged(
                        provider: session.facts.provider, client: session.facts.client, result: refusal.result))
            }
            throw error
        }
    }

    private func candidate(
        _ evidence: PresentedEvidence, _ session: LiveSession
    ) throws(BrokerProblem) -> ProofVerifier.Candidate {
        let candidate: ProofVerifier.Candidate
        do throws(ProofRefusal) {
            candidate = try ProofCheck(context: context).candidate(evidence, tokenDigest: session.tokenDigest)
        } catch { throw BrokerProblem(PresenceRefusal(error)) }
        guard candidate.thumbprint != session.binding?.thumbprint else {
            throw BrokerProblem(
                PresenceRefusal(.key), detail: "The presence key must not be the key that the session belongs to.")
        }
        return candidate
    }

    private func checkIsSame(
        _ candidate: ProofVerifier.Candidate, _ standing: SessionPresence
    ) throws(BrokerProblem) {
        guard candidate.thumbprint == standing.thumbprint else {
            throw BrokerProblem(
                PresenceRefusal(.key),
                detail: "The session has another presence key already. Another key is another session.")
        }
    }

    private func store(_ candidate: ProofVerifier.Candidate, _ session: LiveSession) async throws(BrokerProblem) {
        try context.requireRing()
        let now = context.clock.now()
        let presence = SessionPresence(thumbprint: candidate.thumbprint, registeredAt: now)
        let sealed: Sealed
        do throws(VaultFailure) {
            sealed = try context.vault.seal(presence.record, as: .presence, row: session.tokenDigest)
        } catch { throw BrokerProblem(error) }
        let commit = PresenceCommit(
            tokenDigest: session.tokenDigest, sealed: sealed,
            audit: AuditRow(
                at: now, actor: "session", action: "session.presence_key_changed", target: session.row.handle.text,
                outcome: "done"))
        let result: PresenceCommitResult
        do throws(StoreFailure) { result = try await context.store.registerPresence(commit) } catch {
            // The store call failed, but the key may be stored nevertheless. So the session in the cache may be out of date.
            context.cache.remove([session.tokenDigest])
            throw BrokerProblem(error)
        }
        let resume = ResumeSession(context: context)
        switch result {
        case .committed:
            context.cache.remove([session.tokenDigest])
            context.notices.presenceRegistered(session.tokenDigest)
            context.events.emit(
                .presenceKeyChanged(
                    provider: session.facts.provider, client: session.facts.client, session: session.row.handle))
        case .standing(let other):
            context.cache.remove([session.tokenDigest])
            try checkIsSame(candidate, try resume.open(other, of: session.row))
        case .ended:
            // The session has ended. `resume` reads the reason from the row and throws it.
            context.cache.remove([session.tokenDigest])
            _ = try await resume.resume(session.tokenDigest)
            throw BrokerProblem(.sessionRequired)
        }
    }
}
