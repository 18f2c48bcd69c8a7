/// The reason why evidence is not accepted: what the answer says, and all that is told of it.
package enum ProofRefusal: Error, Sendable, Hashable, CaseIterable {
    /// There is no proof, and no pass that counts.
    case required
    /// The nonce is not one of ours, or too old.
    case nonce
    /// The size, structure, `typ`, `crit`, a member that is missing, twice or of a wrong type, or a `jwk` that is no public
    /// P-256 key.
    case malformed
    /// `alg` is not ES256.
    case algorithm
    /// `htm` is another method.
    case method
    /// `htu` is another address.
    case address
    /// `ath` is of another session token.
    case token
    /// The key is not the session's.
    case key
    /// The `jti` was taken before.
    case replayed
    /// The signature is not the key's.
    case signature
    /// The pass is another session's, or not ours.
    case pass
    /// The key has sent more proofs than are kept: 429.
    case limited

    /// The `reason` of `proof_invalid`; nil for what has a code of its own.
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

    /// The name in metrics: a reason, or a code.
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
