/// The key that a sign-in request brings, on its way from the header to the session that will belong to it.
enum SignInKey: Sendable {
    /// There is none, or the client's mode does not ask.
    case none
    /// A proof that is in order but for its signature; once it is charged for, the signature is looked at.
    case claimed(ProofVerifier.Candidate)
    /// A proof that is judged and counted only.
    case observed(ProofVerifier.Candidate)
    /// The key is proved.
    case proved(Digest)

    /// The thumbprint of the key that a session would belong to.
    var thumbprint: Digest? {
        switch self {
        case .none, .observed: nil
        case .claimed(let candidate): candidate.thumbprint
        case .proved(let thumbprint): thumbprint
        }
    }
}

/// Judges the proofs of sign-ins (`POST /v1/logins`, `/v1/sessions`, `/v1/registrations`) by their client's mode.
///
/// Two steps with the charge between them: the cheap checks cost nobody anything, and the arithmetic is paid for.
struct SignInProof: Sendable {
    let context: BrokerContext

    /// Judges what is cheap; throws where the client's mode demands a proof and this is none.
    func look(
        _ evidence: PresentedEvidence, of client: ClientProfile, at provider: ProviderName
    ) throws(BrokerProblem) -> SignInKey {
        guard client.binding.mode != .off else { return .none }
        do throws(ProofRefusal) {
            let candidate = try ProofCheck(context: context).candidate(evidence)
            return client.binding.mode == .observe ? .observed(candidate) : .claimed(candidate)
        } catch {
            note(error.result, client.name, provider)
            if client.binding.mode == .enforce { throw BrokerProblem(error) }
            // An app that is not refused would never have a first nonce.
            if error == .nonce { RequestScope.current?.givesNonce() }
            return .none
        }
    }

    /// Verifies what was looked at and charged for, and returns the thumbprint that the session will belong to.
    ///
    /// A signature that is not the key's is a wrong token of its address; `payer` names the login, exchange or registration whose
    /// charge pays for the first of them; nil where each was paid for by itself.
    func prove(
        _ key: SignInKey, of client: ClientName, at provider: ProviderName, paidBy payer: Digest?, _ charge: Charge
    ) async throws(BrokerProblem) -> Digest? {
        switch key {
        case .none: return nil
        case .proved(let thumbprint): return thumbprint
        case .observed(let candidate):
            do throws(BrokerProblem) { try await take(candidate, client, provider, paidBy: payer, charge) } catch {
                // Counted, and no more.
            }
            return nil
        case .claimed(let candidate):
            try await take(candidate, client, provider, paidBy: payer, charge)
            return candidate.thumbprint
        }
    }

    /// Demands the proof of a login that is bound to a key, whatever the mode is by now; returns the key that was proved, which
    /// may be another.
    func demand(
        _ evidence: PresentedEvidence, of client: ClientName, at provider: ProviderName, paidBy payer: Digest,
        _ charge: Charge
    ) async throws(BrokerProblem) -> Digest {
        let candidate: ProofVerifier.Candidate
        do throws(ProofRefusal) { candidate = try ProofCheck(context: context).candidate(evidence) } catch {
            note(error.result, client, provider)
            throw BrokerProblem(error)
        }
        try await take(candidate, client, provider, paidBy: payer, charge)
        return candidate.thumbprint
    }

    private func take(
        _ candidate: ProofVerifier.Candidate, _ client: ClientName, _ provider: ProviderName, paidBy payer: Digest?,
        _ charge: Charge
    ) async throws(BrokerProblem) {
        if let payer { try charge.takeSignature(of: payer) }
        do throws(BrokerProblem) {
            try await ProofCheck(context: context).take(candidate)
            note("accepted", client, provider)
        } catch {
            guard let refusal = error.proof else { throw error }
            note(refusal.result, client, provider)
            if refusal == .signature { try charge.takeWrongToken() }
            throw error
        }
    }

    private func note(_ result: String, _ client: ClientName, _ provider: ProviderName) {
        context.events.emit(.proofJudged(provider: provider, client: client, result: result))
    }
}
