/// The setting `sender_constrained`, which decides how a provider's tokens are bound.
///
/// The setting applies when tokens are granted. Tokens that were bound stay bound, even if the setting is removed.
package enum SenderConstraint: String, Sendable, CaseIterable {
    /// Tokens are unbound, so any holder can use them.
    case off
    /// Tokens are bound to a key of the broker for each sign-in, which each use proves (RFC 9449).
    case dpop
    /// Tokens are bound to the client's certificate, which each use shows (RFC 8705).
    case mtls
}
