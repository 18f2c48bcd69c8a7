/// A provider that redeems codes; every kind except Zephr does.
package protocol CodeExchanging: ProviderClient {
    /// Returns the rule for the `iss` in callbacks (RFC 9207).
    func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation

    /// Checks a callback's further parameters before its code is spent; returns the fault, or nil.
    func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String?

    /// Redeems a code with one token call. The implementation repeats the call only if the provider requests another DPoP
    /// nonce.
    ///
    /// If the answer is unusable, the result names a `refusal`, and its tokens have to be revoked.
    func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet

    /// Verifies the id_token and fetches the user's identity from the sources in the configuration.
    func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity
}

extension CodeExchanging {
    package func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String? { nil }
}
