/// One code to redeem.
package struct CodeGrant: Sendable {
    /// How the redirect URI goes into the token request; native SDK codes go without one.
    package enum RedirectParameter: Sendable, Equatable { case uri(String), empty, omitted }

    package var client: ClientName
    package var code: Secret
    package var redirect: RedirectParameter
    /// The PKCE verifier, the broker's or the app's.
    package var verifier: Secret?
    /// A key that stays the same for a retry of this very call (Cloudentity's `X-Idempotency-Key`).
    package var idempotencyKey: String

    package init(
        client: ClientName, code: Secret, redirect: RedirectParameter, verifier: Secret?, idempotencyKey: String
    ) {
        self.client = client
        self.code = code
        self.redirect = redirect
        self.verifier = verifier
        self.idempotencyKey = idempotencyKey
    }
}
