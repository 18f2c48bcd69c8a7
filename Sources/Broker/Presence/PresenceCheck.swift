import Synchronization

/// Judges whether a call shows its user's presence: a proof by the session's presence key over this very request.
///
/// Two steps, with everything else that a call may be refused for between them: what is cheap is judged early, and the proof is
/// taken just before the call goes out, once over all replicas.
package struct PresenceCheck: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Judges all of a proof but its signature; throws why the call does not show presence.
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
        // A web page, a widget or a watch must not ride on the app's key.
        guard session.facts.child == nil else {
            throw BrokerProblem(PresenceRefusal(.required, isBound: session.binding != nil, isOfParent: true))
        }
        // It can never have a key: asked for one, its app would go round in circles.
        guard session.binding != nil else {
            var problem = BrokerProblem(
                .stepUpFailed, detail: "The call needs the user's presence, and this session belongs to no key.",
                privateDetail: "presence is for bound sessions")
            problem.shortfall = StepUpShortfall(required: .presence, got: nil)
            throw problem
        }
        guard !evidence.proofs.isEmpty, let presence = try await presence(of: session) else {
            throw BrokerProblem(PresenceRefusal(.required))
        }
        do throws(ProofRefusal) {
            return try ProofCheck(context: context).candidate(
                evidence, tokenDigest: session.tokenDigest, thumbprint: presence.thumbprint)
        } catch { throw BrokerProblem(PresenceRefusal(error)) }
    }

    /// Returns the session's key, which another replica may have registered a moment ago.
    private func presence(of session: LiveSession) async throws(BrokerProblem) -> SessionPresence? {
        let resume = ResumeSession(context)
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

/// The presence that a call shows, not yet used.
package struct JudgedPresence: Sendable {
    /// Takes the proof, once over all replicas; throws where its signature is not the key's, somebody was faster, the session has
    /// used too many, or nobody can know.
    package let take: @Sendable () async throws(BrokerProblem) -> Void
    /// Gives it back, for a call that has surely reached nobody: the same proof may come again.
    package let giveBack: @Sendable () async -> Void

    package init(
        take: @escaping @Sendable () async throws(BrokerProblem) -> Void,
        giveBack: @escaping @Sendable () async -> Void
    ) {
        self.take = take
        self.giveBack = giveBack
    }
}

extension ProofCheck {
    /// Verifies the signature and takes a proof of presence, once over all replicas, whatever its method: it stands for the user's
    /// will, and a call that reads may be worth as much as one that writes.
    ///
    /// Its nonce is judged again: between its judgement and this moment its body may have come, and its session's token, and
    /// what was taken with an older nonce is kept no longer. An answer to a proof whose nonce is aging brings a new one.
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
        // What was taken counts, and what waits for a slow store does not: with a proof that was caught nobody keeps the user's out.
        guard uses.take(session, at: context.clock.monotonic()) else {
            await giveBackPresence(candidate)
            throw BrokerProblem(PresenceRefusal(.limited))
        }
        if candidate.nonce.isAging { RequestScope.current?.givesNonce() }
    }

    private func takeOnce(_ candidate: ProofVerifier.Candidate) async throws(BrokerProblem) {
        do throws(ProofRefusal) {
            // In this process first: of one proof no more than one at a time asks the store.
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
            // Another replica took it, and may give it back yet.
            context.memory.proofs.giveBack(candidate)
            throw BrokerProblem(PresenceRefusal(.replayed))
        }
    }

    /// Gives back a proof of presence that was taken.
    func giveBackPresence(_ candidate: ProofVerifier.Candidate) async {
        if let shared = context.shared {
            do throws(StoreFailure) { try await shared.returnProof(candidate.name) } catch {
                // The user is asked once more.
                return context.events.emit(.storeFailed(operation: "returnProof", detail: "\(error)"))
            }
        }
        context.memory.proofs.giveBack(candidate)
    }
}

/// The proofs of presence that sessions have used within a minute: so many each, in bounded memory.
///
/// In process: every replica counts by itself. It bounds the rows that one session may make, and what its user can have meant.
final class PresenceUses: Sendable {
    /// The most that a session may use in a minute.
    static let perMinute = 30
    /// The most sessions that are remembered: at most 18 MiB, where each has used all of its own.
    static let maximum = 16_384
    private static let window = Duration.seconds(60)

    private struct State {
        /// The moments of a session's uses, the oldest first.
        var uses: [Digest: [Duration]] = [:]
        /// Not before then is a full table searched again for sessions whose minute is over.
        var nextSweep = Duration.zero
    }

    private let state = Mutex(State())
    private let maximum: Int

    init(maximum: Int = maximum) { self.maximum = maximum }

    /// Whether a session may use another; says nothing of those that are under way.
    func allows(_ session: Digest, at now: Duration) -> Bool {
        state.withLock { state in
            (state.uses[session]?.count { now - $0 < Self.window } ?? 0) < Self.perMinute
        }
    }

    /// Counts a use; false for one too many.
    func take(_ session: Digest, at now: Duration) -> Bool {
        state.withLock { state in
            if state.uses[session] == nil, state.uses.count >= maximum {
                guard now >= state.nextSweep else { return false }
                state.nextSweep = now + .seconds(1)
                state.uses = state.uses.filter { $0.value.contains { now - $0 < Self.window } }
                guard state.uses.count < maximum else { return false }
            }
            var uses = (state.uses[session] ?? []).filter { now - $0 < Self.window }
            guard uses.count < Self.perMinute else { return false }
            uses.append(now)
            state.uses[session] = uses
            return true
        }
    }

    /// The number of sessions remembered.
    var count: Int { state.withLock(\.uses.count) }
}
