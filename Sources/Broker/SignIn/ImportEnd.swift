/// The reason why the user of imported tokens has to sign in.
///
/// The app gets the reason with `login_required`. The broker starts a login only on request, because many phones may get this
/// answer in the background.
package enum ImportEnd: String, Sendable, CaseIterable {
    /// The provider refuses the refresh token as dead.
    case grantRevoked = "grant_revoked"
    /// The provider's answer was lost, and the refresh token is used up.
    case refreshLost = "refresh_lost"
    /// The client requires tokens that are bound to a key, and the provider has granted others.
    case notBound = "not_bound"
    /// The provider's answer was kept for an hour, and each read of the user failed in this time; or the old system's session
    /// is over.
    case expired
    /// The old system lacks a session for the legacy token, or the session lacks a refresh token.
    case unknownSession = "unknown_session"
}
