/// Judges the proofs of sign-ins (`POST /v1/logins`, `/v1/sessions`, `/v1/registrations`) according to their client's mode.
///
/// The cheap checks (`look`) come first and are free. Then the caller charges the address for the sign-in. This charge also
/// pays for the signature check (`prove`, `demand`).
struct SignInProof: Sendable {
    let context: BrokerContext

    /// Makes the checks before the charge; throws if one fails and the client's mode requires a proof.
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
            // Under `observe`, the sign-in goes on without a refusal. So the app has to get its first nonce with this answer.
            if error == .nonce { RequestScope.current?.givesNonce() }
            return .none
        }
    }

    /// Verifies the signature of a proof that was charged for, and returns the thumbprint of the key that the session will
    /// belong to; nil for an unbound session.
    ///
    /// A wrong signature is charged to the address like a wrong token. `payer` is the login, exchange or registration whose
    /// charge pays for the first signature; nil if the caller has already charged for the signature.
    func prove(
        _ key: SignInKey, of client: ClientName, at provider: ProviderName, paidBy payer: Digest?, _ charge: Charge
    ) async throws(BrokerProblem) -> Digest? {
        switch key {
        case .none: return nil
        case .proved(let thumbprint): return thumbprint
        case .observed(let candidate):
            do throws(BrokerProblem) { try await take(candidate, client, provider, paidBy: payer, charge) } catch {
                // Under `observe`, the proof is only counted, so its refusal is ignored.
            }
            return nil
        case .claimed(let candidate):
            try await take(candidate, client, provider, paidBy: payer, charge)
            return candidate.thumbprint
        }
    }

    /// Requires a proof for a bound login or registration, regardless of the client's present mode.
    ///
    /// Returns the thumbprint of the key that made the proof. The caller compares it with the key of the login.
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
