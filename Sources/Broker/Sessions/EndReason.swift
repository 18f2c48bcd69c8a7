/// The reason for a session's end.
///
/// `openapi.yaml` describes the shown reasons, and `strict.overlay.yaml` lists them. `contract.py` compares these lists with
/// this one.
package enum EndReason: String, Sendable, CaseIterable {
    case loggedOut = "logged_out"
    /// Logged out by an app that takes the user's browser to the provider's log-out page itself. Apps and backends see this
    /// reason as `logged_out`.
    case loggedOutInBrowser = "logged_out_in_browser"
    case loggedOutElsewhere = "logged_out_elsewhere"
    case replaced
    case idleExpired = "idle_expired"
    case expired
    case tokenExpired = "token_expired"
    case grantRevoked = "grant_revoked"
    case refreshLost = "refresh_lost"
    case subjectChanged = "subject_changed"
    case providerLogout = "provider_logout"
    /// The parent of this child session ended.
    case parentEnded = "parent_ended"
    case admin
    /// Ended by an operator's export, which has taken the tokens along. Apps, backends and operators see this reason as `admin`.
    ///
    /// The tokens stay valid, because another system uses them now.
    case exported
    case sessionLimit = "session_limit"
    case integrity

    /// The reason that apps, backends and operators see.
    package var shown: EndReason {
        if self == .loggedOutInBrowser { return .loggedOut }
        return self == .exported ? .admin : self
    }

    /// Whether the ending revokes the session's tokens at the provider.
    package var revokesTokens: Bool { self != .exported }
}
