/// Checks the `iss` of callbacks (RFC 9207): equal wherever it appears, present on success where it was promised (SEC-09).
struct CallbackIssuer: Sendable {
    let context: BrokerContext

    /// Throws `issuer_mismatch` for a callback of another authorization server than `provider`'s.
    ///
    /// Where this provider publishes no issuer there is nothing to compare with: then the redirect URI, which is this
    /// provider's alone, has to do, and an `iss` that another configured provider uses is a mix-up all the same.
    func check(
        _ parameters: FormPairs, _ expected: IssuerExpectation, provider: ProviderName, succeeded: Bool
    ) throws(BrokerProblem) {
        guard let issuer = parameters["iss"] else {
            guard expected.demanded && succeeded else { return }
            throw BrokerProblem(.issuerMismatch, privateDetail: "no iss where it was promised")
        }
        if let pattern = expected.issuer {
            guard IssuerExpectation.matches(issuer, pattern) else { throw BrokerProblem(.issuerMismatch) }
            return
        }
        let isAnothers = context.providers.all.contains { other in
            other.profile.name != provider
                && other.profile.callbackIssuer.map { IssuerExpectation.matches(issuer, $0) } ?? false
        }
        guard !isAnothers else {
            throw BrokerProblem(.issuerMismatch, privateDetail: "iss is another configured provider's")
        }
        context.events.emit(.issuerUnchecked(provider: provider))
    }
}

extension BrokerContext {
    /// Returns the problem of a callback's error, and tells operators of it.
    func refusal(
        _ error: CallbackError, isSilent: Bool = false, provider: ProviderName, client: ClientName
    ) -> BrokerProblem {
        let problem = BrokerProblem(error, isSilent: isSilent)
        events.emit(
            .loginRefused(
                provider: provider, client: client, code: problem.code, detail: problem.privateDetail ?? ""))
        return problem
    }
}
