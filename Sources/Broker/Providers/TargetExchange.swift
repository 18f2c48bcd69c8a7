/// A token-exchange call to make (RFC 8693).
///
/// It exchanges the session's access token for an access token for another API.
package struct TargetExchange: Sendable {
    package var client: ClientName
    /// The session's own access token (`subject_token`).
    package var subjectToken: Secret
    package var target: TokenTarget
    /// The maker of proofs for the key of the subject token, which the new token will be bound to as well; nil for unbound
    /// tokens.
    package var proof: ProofMaker?
    /// Whether the subject token is bound to a certificate.
    package var isCertified = false
    /// Whether the provider has issued nonces before.
    package var usesNonces = false

    package init(client: ClientName, subjectToken: Secret, target: TokenTarget, proof: ProofMaker? = nil) {
        self.client = client
        self.subjectToken = subjectToken
        self.target = target
        self.proof = proof
    }
}
