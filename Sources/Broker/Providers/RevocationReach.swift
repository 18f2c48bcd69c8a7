/// The tokens and sessions that a provider ends along with a revoked token.
package enum RevocationReach: String, Sendable, CaseIterable {
    /// Only the token's own grant.
    case token
    /// Every grant of the same sign-in at the provider.
    case signIn = "sign_in"
    /// Every grant of the user.
    case user

    /// Returns the sessions that a revocation ends along with the token; nil if there are none.
    ///
    /// Sessions of one sign-in have the same `sid`. If the provider sends no `sid`, all sessions of the user count.
    func taken(from origin: SignInOrigin) -> SessionSelector? {
        switch self {
        case .token: nil
        case .signIn: origin.sid.map(SessionSelector.sid) ?? .subject(origin.subject)
        case .user: .subject(origin.subject)
        }
    }

    /// Returns whether revoking a token of one sign-in also ends the tokens of another sign-in.
    func takes(_ other: SignInOrigin, from origin: SignInOrigin) -> Bool {
        switch taken(from: origin) {
        case .sid(let sid): other.sid == sid
        case .subject(let subject): other.subject == subject
        default: false
        }
    }
}
