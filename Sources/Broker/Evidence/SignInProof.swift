/// Checks the proofs in sign-in requests (`POST /v1/logins`, `/v1/sessions`, `/v1/registrations`), according to the client's
/// binding mode.
///
/// The cheap checks (`look`) come first, and cost the address nothing. Then the caller charges the address for the sign-in.
/// This charge includes the signature check that follows (`prove`, `demand`).
struct SignInProof: Sendable {
    let context: BrokerContext

    /// Makes all checks except that of the signature.
    ///
    /// These checks cost the address nothing.
    ///
    /// Throws if a check fails and the client's mode requires a proof.
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
            // Under `observe`, the sign-in goes on although its nonce is refused. The app would get its first nonce with a
            // refusal, so it has to get the nonce with this answer instead.
            if error == .nonce { RequestScope.current?.givesNonce() }
            return .none
        }
    }

    /// Verifies the signature of a proof after the address was charged.
    ///
    /// Returns the thumbprint of the key that the session will belong to; nil for an unbound session.
    ///
    /// A wrong signature is also charged to the address as a wrong token. `payer` is the login, exchange or registration whose
    /// charge includes the first signature check; nil if the caller has already charged for this check.
    func prove(
        _ key: SignInKey, of client: ClientName, at provider: ProviderName, paidBy payer: Digest?, _ charge: Charge
    ) async throws(BrokerProblem) -> Digest? {
        switch key {
        case .none: return nil
        case .proved(let thumbprint): return thumbprint
        case .observed(let candidate):
            do throws(BrokerProblem) { try await take(candidate, client, provider, paidBy: payer, charge) } catch {
                // Under `observe`, the result of the check is only counted, so a refusal is ignored.
            }
            return nil
        case .claimed(let candidate):
            try await take(candidate, client, provider, paidBy: payer, charge)
            return candidate.thumbprint
        }
    }

    /// Requires a proof from the app of a bound login or registration, whatever the client's present mode is.
    ///
    /// Returns the thumbprint of the key that made the proof. The caller compares this thumbprint with that of the login's key.
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
