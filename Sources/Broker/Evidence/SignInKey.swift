/// The device key that a sign-in request shows, and how far its proof was checked.
enum SignInKey: Sendable {
    /// The request has no good proof, or the client's mode is `off`.
    case none
    /// The proof is good except for its signature, which is verified after the charge.
    case claimed(ProofVerifier.Candidate)
    /// The client's mode is `observe`, so the proof is only counted, and a wrong signature is not refused.
    case observed(ProofVerifier.Candidate)
    /// The key's signature was verified.
    case proved(Digest)

    /// The thumbprint of the key that the session would belong to.
    var thumbprint: Digest? {
        switch self {
        case .none, .observed: nil
        case .claimed(let candidate): candidate.thumbprint
        case .proved(let thumbprint): thumbprint
        }
    }
}
