/// A code to redeem, with the values for the token call.
package struct CodeGrant: Sendable {
    /// The form of the redirect URI in the token request; codes of native SDKs come without a redirect URI.
    package enum RedirectParameter: Sendable, Equatable { case uri(String), empty, omitted }

    package var client: ClientName
    package var code: Secret
    package var redirect: RedirectParameter
    /// The PKCE verifier, which the broker or the app made.
    package var verifier: Secret?
    /// The idempotency key, which is the same for each retry of this call (Cloudentity's `X-Idempotency-Key`).
    package var idempotencyKey: String
    /// The maker of proofs for the key that the tokens have to be bound to; nil for unbound tokens.
    package var proof: ProofMaker?
    /// Whether the broker itself made the authorization request, which then contains the client's resources (RFC 8707).
    ///
    /// A request that the app made may lack the resources. A server refuses a resource in the token call that was missing in
    /// the authorization request.
    package var isOfOwnRequest = false

    package init(
        client: ClientName, code: Secret, redirect: RedirectParameter, verifier: Secret?, idempotencyKey: String,
        proof: ProofMaker? = nil
    ) {
        self.proof = proof
        self.client = client
        self.code = code
        self.redirect = redirect
        self.verifier = verifier
        self.idempotencyKey = idempotencyKey
    }
}
