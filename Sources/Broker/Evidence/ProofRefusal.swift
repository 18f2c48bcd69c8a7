/// The reason why evidence is refused.
///
/// The answer contains this reason and no further detail.
package enum ProofRefusal: Error, Sendable, Hashable, CaseIterable {
    /// The request has neither a proof nor an accepted pass.
    case required
    /// The nonce is unknown to the broker, or too old.
    case nonce
    /// The size, structure, `typ` or `crit` is wrong. Or a member is missing, repeated or of a wrong type, or the `jwk` is not
    /// a public P-256 key.
    case malformed
    /// `alg` differs from ES256.
    case algorithm
    /// `htm` names another method.
    case method
    /// `htu` names another address.
    case address
    /// `ath` belongs to another session token.
    case token
    /// The proof's key differs from the session's key.
    case key
    /// The proof was used before.
    case replayed
    /// The signature does not match the key in the proof.
    case signature
    /// The pass belongs to another session, or was never issued.
    case pass
    /// The key has used more proofs than the broker can remember; the answer is a 429.
    case limited

    /// The `reason` of `proof_invalid`; nil for a refusal that has a code of its own.
    package var reason: String? {
        switch self {
        case .required, .nonce, .limited: nil
        case .malformed: "malformed"
        case .algorithm: "algorithm"
        case .method: "method"
        case .address: "address"
        case .token: "token"
        case .key: "key"
        case .replayed: "replayed"
        case .signature: "signature"
        case .pass: "pass"
        }
    }

    /// The name of the refusal in metrics.
    package var result: String {
        switch self {
        case .required: "proof_required"
        case .nonce: "use_dpop_nonce"
        case .limited: "rate_limited"
        default: reason ?? "malformed"
        }
    }

    /// The `error` of the challenge (RFC 9449 sections 7.1 and 9).
    package var challengeError: String {
        switch self {
        case .nonce: "use_dpop_nonce"
        case .token, .key, .pass: "invalid_token"
        default: "invalid_dpop_proof"
        }
    }
}
