package import Broker

/// `revocation`: the way to end a grant, and its session, at the provider.
package struct RevocationSettings: Sendable, Equatable {
    /// The setting `style`.
    package enum Style: String, Sendable {
        /// RFC 7009: a form with `token` and `token_type_hint`.
        case rfc7009
        /// GitHub: `DELETE` with Basic and the access token as JSON.
        case basicDelete = "basic_delete"
        /// Slack: `POST` with the access token as Bearer.
        case bearerPost = "bearer_post"
        /// Tokens are not revoked.
        case none
    }

    /// The setting `style`.
    package var style: Style
    /// `hint`: whether `token_type_hint` is sent (Cloudentity does not list it).
    package var hint: Bool
    /// `bearer_fallback`: whether a refused call is repeated with the access token as Bearer (Cloudentity).
    package var bearerFallback: Bool
    /// `end_session`: whether a log-out also ends the provider's own session, if the provider has an endpoint for it.
    package var endSession: Bool
    /// `reaches`: the tokens and sessions that the provider ends along with a revoked token.
    package var reaches: RevocationReach

    package init(
        style: Style = .rfc7009, hint: Bool = true, bearerFallback: Bool = false, endSession: Bool = true,
        reaches: RevocationReach = .signIn
    ) {
        self.style = style
        self.hint = hint
        self.bearerFallback = bearerFallback
        self.endSession = endSession
        self.reaches = reaches
    }
}
