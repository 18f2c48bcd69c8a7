/// Says what an index digest is over, so that equal values in different roles give different digests.
package enum IndexKind: String, Sendable, CaseIterable {
    case code
    case handoff
    /// The handoff itself, which stands for a callback of a login.
    case handoffToken
    case zephrSession
    case stateKey
    case registrationRequest
    case subject
    case subjectAndClient
    case sid
    case provider
    case client
    case logoutToken
    case logTag
    case importedTokens
    /// An id_token that an app handed over, without its signature.
    case idToken
    /// The minute of a proof's nonce.
    case proofNonce
    /// The end of a bound session's pass.
    case sessionPass
}
