/// One refresh call to make.
package struct RefreshRequest: Sendable {
    package var client: ClientName
    package var refreshToken: Secret
    /// The access token that belongs to the refresh token, for providers that require it.
    package var accessToken: Secret
    /// The idempotency key, derived from handle and token version, so that it is the same for every retry of this refresh.
    ///
    /// A provider that replays answers (Cloudentity) then repeats a lost answer.
    package var idempotencyKey: String
    /// Whether this call repeats an earlier one whose answer was lost, to find out its result.
    ///
    /// A provider with a recovery call (Clover) uses that call.
    package var recovering: Bool
    /// The maker of proofs for the key that the tokens are or will be bound to; nil for unbound tokens.
    package var proof: ProofMaker?
    /// Whether the tokens were bound to the key before this call.
    ///
    /// If so, an unbound access token in the answer is not used.
    package var isBound = false
    /// Whether the access token is bound to a certificate.
    ///
    /// If so, the new token is bound to the certificate that is shown in this call.
    package var isCertified = false
    /// Whether the provider has issued nonces before.
    ///
    /// The refresh token should then be sent with a nonce.
    package var usesNonces = false
    /// Whether the refresh token is an app's, so that the call's failure follows the table of imports (docs/guarantees.md).
    package var isImport = false
    /// The record of the last request that was sent, which a confirming call repeats.
    package var sending = RefreshSending()
    /// The API that the new access token is for; nil for a refresh of the session's own access token.
    package var target: TokenTarget?

    package init(
        client: ClientName, refreshToken: Secret, accessToken: Secret, idempotencyKey: String, recovering: Bool = false
    ) {
        self.client = client
        self.refreshToken = refreshToken
        self.accessToken = accessToken
        self.idempotencyKey = idempotencyKey
        self.recovering = recovering
    }
}
