/// What an identity is checked against.
package struct IdentityContext: Sendable {
    /// What the id_token's nonce has to be.
    ///
    /// `rawOrSHA256` is for native SDKs, which may hash it (hexadecimal or base64url); `absent` refuses a token that has
    /// one, because nobody said which it should be.
    package enum NonceExpectation: Sendable { case none, absent, exactly(Secret), rawOrSHA256(Secret) }

    package var client: ClientName
    package var nonce: NonceExpectation
    /// The callback's further parameters; hints that a provider may confirm by a call, and nothing more (SEC-16).
    package var callback: [(name: String, value: String)]
    /// The scope that an answer without one stands for (RFC 6749 section 5.1); empty where nothing may be assumed.
    package var requestedScope: [String]
    /// What the authorization request asked of the sign-in; nil where there was none (native codes, imports).
    package var demands: SignInDemands?

    package init(
        client: ClientName, nonce: NonceExpectation, callback: [(name: String, value: String)],
        requestedScope: [String], demands: SignInDemands? = nil
    ) {
        self.client = client
        self.nonce = nonce
        self.callback = callback
        self.requestedScope = requestedScope
        self.demands = demands
    }
}
