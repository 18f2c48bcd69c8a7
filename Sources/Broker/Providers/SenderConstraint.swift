/// The setting `sender_constrained`, which decides how a provider's tokens are bound.
///
/// The setting applies when tokens are granted. Tokens that were bound stay bound, even if the setting is removed.
package enum SenderConstraint: String, Sendable, CaseIterable {
    /// Tokens are unbound, so any holder can use them.
    case off
    /// Tokens are bound to a key that the broker makes for each sign-in.
    ///
    /// Each use of a token needs a proof by this key (RFC 9449).
    case dpop
    /// Tokens are bound to the client's certificate, and the broker shows this certificate at each use of a token (RFC 8705).
    case mtls
}
