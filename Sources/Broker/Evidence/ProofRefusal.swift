/// The reason why evidence is refused.
///
/// The answer contains this reason and no further detail.
package enum ProofRefusal: Error, Sendable, Hashable, CaseIterable {
    /// The request has no proof and no pass, or its pass has ended.
    case required
    /// The proof's nonce was never issued by the broker, or is too old.
    case nonce
    /// The proof has the wrong size, structure, `typ` or `crit`, or its `jwk` is no public P-256 key.
    ///
    /// This case also covers a member that is missing, repeated or of a wrong type.
    case malformed
    /// `alg` differs from ES256.
    case algorithm
    /// The proof's `htm` differs from the request's method.
    case method
    /// The proof's `htu` differs from the request's address.
    case address
    /// The proof's `ath` belongs to another session token.
    case token
    /// The proof's key differs from the session's key.
    case key
    /// The proof was used before.
    case replayed
    /// The signature does not match the key in the proof.
    case signature
    /// The pass belongs to another session, or the broker never issued it.
    case pass
    /// The key has used more proofs than the broker can remember; the answer is a 429.
    case limited

    /// The `reason` in a `proof_invalid` problem; nil if the refusal has another problem code.
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

    /// The `error` parameter of the `WWW-Authenticate` challenge (RFC 9449 sections 7.1 and 9).
    package var challengeError: String {
        switch self {
        case .nonce: "use_dpop_nonce"
        case .token, .key, .pass: "invalid_token"
        default: "invalid_dpop_proof"
        }
    }
}
