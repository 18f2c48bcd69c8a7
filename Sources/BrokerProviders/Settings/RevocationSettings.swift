package import Broker

/// `revocation`: how a grant, and the session it came from, is ended at the provider.
package struct RevocationSettings: Sendable, Equatable {
    /// The setting `style`.
    package enum Style: String, Sendable {
        /// RFC 7009: a form with `token` and `token_type_hint`.
        case rfc7009
        /// GitHub: `DELETE` with Basic and the access token as JSON.
        case basicDelete = "basic_delete"
        /// Slack: `POST` with the access token as Bearer.
        case bearerPost = "bearer_post"
        /// Nothing is called.
        case none
    }

    /// The setting `style`.
    package var style: Style
    /// `hint`: whether `token_type_hint` is sent (Cloudentity does not list it).
    package var hint: Bool
    /// `bearer_fallback`: whether a refused call is made again with the access token as Bearer (Cloudentity).
    package var bearerFallback: Bool
    /// `end_session`: whether a log-out ends the provider's own session too, where the provider has an endpoint for it.
    package var endSession: Bool
    /// `reaches`: what else ends when a token is revoked.
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
