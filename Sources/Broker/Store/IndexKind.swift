/// The role of an index digest's input.
///
/// Equal inputs in different roles have different digests.
package enum IndexKind: String, Sendable, CaseIterable {
    case code
    case handoff
    /// A handoff, derived from a callback of a login.
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
    /// The token of a session at an old system.
    case legacyToken
    /// A question to an old system.
    case legacyClaim
    /// A provider, and the id of a client there that has a granted import.
    case importGrant
    /// An id_token that an app handed over, without its signature.
    case idToken
    /// The minute of a proof's nonce.
    case proofNonce
    /// The end of a bound session's pass.
    case sessionPass
    /// The kind and name of a child in its parent's family.
    case childPlace
    /// The seed of a key that a provider binds tokens to, if the key was made without a login.
    case tokenKey
    /// The session and the exact request parameters of an access token for another API.
    case targetToken = "audience"
    /// A ticket of a hand-over, and one of the eight rows that a session has for tickets.
    case handoverTicket, handoverSlot
}
