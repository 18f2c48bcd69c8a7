/// What else ends at a provider when a token is revoked there.
package enum RevocationReach: String, Sendable, CaseIterable {
    /// Nothing but its grant.
    case token
    /// Every grant of the same sign-in at the provider.
    case signIn = "sign_in"
    /// Every grant of the user.
    case user

    /// Returns the sessions that a revocation takes along, or nil where there are none.
    ///
    /// The same sign-in is told by its `sid`; where the provider sends none, by the user.
    func taken(from origin: SignInOrigin) -> SessionSelector? {
        switch self {
        case .token: nil
        case .signIn: origin.sid.map(SessionSelector.sid) ?? .subject(origin.subject)
        case .user: .subject(origin.subject)
        }
    }

    /// Returns whether a revocation of one takes along the other.
    func takes(_ other: SignInOrigin, from origin: SignInOrigin) -> Bool {
        switch taken(from: origin) {
        case .sid(let sid): other.sid == sid
        case .subject(let subject): other.subject == subject
        default: false
        }
    }
}
