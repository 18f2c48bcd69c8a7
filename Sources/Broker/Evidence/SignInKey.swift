/// The device key in a sign-in request, and how far the proof of this key was checked.
enum SignInKey: Sendable {
    /// The sign-in is without a device key.
    ///
    /// Either the client's mode is `off`, or the mode is `observe` and the proof is missing or bad.
    case none
    /// The proof has passed all checks except that of its signature.
    ///
    /// The signature is verified after the address was charged.
    case claimed(ProofVerifier.Candidate)
    /// The client's mode is `observe`.
    ///
    /// The proof's signature is checked only for the metrics, and a wrong one is accepted.
    case observed(ProofVerifier.Candidate)
    /// The proof's signature was verified.
    ///
    /// The value is the thumbprint of the key.
    case proved(Digest)

    /// The thumbprint of the key that the new session will belong to; nil if the session will be unbound.
    var thumbprint: Digest? {
        switch self {
        case .none, .observed: nil
        case .claimed(let candidate): candidate.thumbprint
        case .proved(let thumbprint): thumbprint
        }
    }
}
