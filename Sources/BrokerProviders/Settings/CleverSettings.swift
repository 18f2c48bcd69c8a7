/// The settings that only `kind: clever` has.
///
/// Its endpoints default to Clever's own; `endpoints` overrides them.
package struct CleverSettings: Sendable, Equatable {
    /// `oidc`: whether Clever switched OpenID Connect on for the application; then the answer's id_token is verified.
    package var openID: Bool
    /// `default_lifetime`: of an access token whose answer names none.
    package var defaultLifetime: Duration

    package init(openID: Bool = false, defaultLifetime: Duration = .seconds(86_400)) {
        self.openID = openID
        self.defaultLifetime = defaultLifetime
    }
}
