/// The value of a problem in addition to its code.
///
/// A problem has at most one such value, so its document cannot contain a member twice.
package enum ProblemPayload: Sendable {
    case none
    /// The faults of the request's members, each with its pointer.
    case fields([FieldFault])
    /// The reason for a session's end; nil if it is unknown.
    case ended(EndReason?)
    /// The new login that `login_required` offers to the app.
    case login(StartedLogin)
    /// The reason why the user of imported tokens has to sign in; the `login` of `login_required` is then null.
    case importFailed(ImportEnd)
    /// The reason why the client refuses imports now.
    case importRefused(ImportRefusal)
    /// The reason why the session's evidence was refused. The answer names the reason, and contains a nonce.
    case proof(ProofRefusal)
    /// The step-up that a call needs.
    case stepUp(WantedStepUp)
    /// The reason why a step-up failed.
    case shortfall(StepUpShortfall)
    /// The reason why the presence proof of a call was refused.
    case presence(PresenceRefusal)
    /// The error code that the provider sent; only codes that a standard defines.
    case providerError(String)

    /// Returns the payload for a provider's error code; `none` for nil.
    static func provider(_ code: String?) -> ProblemPayload { code.map(ProblemPayload.providerError) ?? .none }
}
