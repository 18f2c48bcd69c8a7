/// Checks that a callback's `iss` is the provider's issuer (RFC 9207, SEC-09).
///
/// A successful callback must have an `iss` if the provider promises to send it.
struct CallbackIssuer: Sendable {
    let context: BrokerContext

    /// Throws `issuer_mismatch` for a callback of another authorization server than `provider`'s.
    ///
    /// Some providers publish no issuer. Such a provider is identified by its redirect URI alone. An `iss` of another
    /// configured provider is then refused as a mix-up.
    ///
    /// If the client demands an `iss`, every callback must have it, including error callbacks, and it must equal the issuer
    /// exactly.
    func check(
        _ parameters: FormPairs, _ expected: IssuerExpectation, provider: ProviderName, client: ClientName,
        succeeded: Bool
    ) throws(BrokerProblem) {
        let isDemanded = context.providers[provider]?.profile.client(client)?.demandsIssuer == true
        guard let issuer = parameters["iss"] else {
            guard isDemanded || expected.demanded && succeeded else { return }
            throw BrokerProblem(
                .issuerMismatch,
                privateDetail: isDemanded
                    ? "the callback has no iss, which the client's profile demands"
                    : "the callback has no iss, which the provider promises")
        }
        if isDemanded {
            guard let own = expected.issuer, issuer.hasBytes(of: own) else { throw BrokerProblem(.issuerMismatch) }
            return
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
            throw BrokerProblem(.issuerMismatch, privateDetail: "the callback's iss is another configured provider's")
        }
        context.events.emit(.issuerUnchecked(provider: provider))
    }
}

extension BrokerContext {
    /// Returns the problem for an error in a callback, and emits an event for operators.
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
