/// The values that an identity is checked against.
package struct IdentityContext: Sendable {
    /// The requirement on the id_token's nonce.
    ///
    /// `rawOrSHA256` is for native SDKs, which may hash the app's nonce (hexadecimal or base64url). `absent` refuses a token
    /// with a nonce, because the right value is unknown. `none` ignores the nonce.
    package enum NonceExpectation: Sendable { case none, absent, exactly(Secret), rawOrSHA256(Secret) }

    package var client: ClientName
    package var nonce: NonceExpectation
    /// The callback's further parameters, which a provider uses only as hints and may confirm by a call (SEC-16).
    package var callback: [(name: String, value: String)]
    /// The scope that is assumed if an answer omits the scope (RFC 6749 section 5.1); if empty, no scope is assumed.
    package var requestedScope: [String]
    /// The demands on the sign-in in the authorization request; nil for native codes and imports, which have no such request.
    package var demands: SignInDemands?
    /// Whether the sign-in steps up an existing session.
    ///
    /// The `acr` and the age of the sign-in are then checked later, when the session is known.
    package var isStepUp = false
    /// The maker of proofs for the key that the access token is bound to; nil for an unbound token.
    package var proof: ProofMaker?
    /// The permission for one further identity call for a token that was just issued; nil for a token that an app brought.
    package var secondRead: SecondRead?

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
