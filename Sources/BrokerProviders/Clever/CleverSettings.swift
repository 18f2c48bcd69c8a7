/// The settings that only `kind: clever` has.
///
/// The provider's endpoints default to Clever's own, and `endpoints` overrides them.
package struct CleverSettings: Sendable, Equatable {
    /// `oidc`: whether OpenID Connect is on for the client at Clever.
    ///
    /// If so, the token answer's id_token is verified.
    package var openID: Bool
    /// `default_lifetime`: the lifetime of an access token if the answer omits it.
    package var defaultLifetime: Duration

    package init(openID: Bool = false, defaultLifetime: Duration = .seconds(86_400)) {
        self.openID = openID
        self.defaultLifetime = defaultLifetime
    }
}
