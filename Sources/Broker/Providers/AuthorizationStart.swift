/// A started authorization, with the URL for the app and the requirements on the callback.
package struct AuthorizationStart: Sendable {
    /// The URL that the app opens.
    ///
    /// The URL contains the state, so it is never logged.
    package let url: Secret
    package let issuer: IssuerExpectation
    /// The request's demands on the sign-in, which come from the configuration or from the app.
    package let demands: SignInDemands
    /// The URL's lifetime, if the provider names it (RFC 9126's `expires_in`).
    package let lifetime: Duration?
    /// A URL for the same request that opens the provider's own app (Clever); nil if there is no such URL.
    package var appURL: Secret?

    package init(
        url: Secret, issuer: IssuerExpectation, demands: SignInDemands = SignInDemands(), lifetime: Duration? = nil
    ) {
        self.url = url
        self.issuer = issuer
        self.demands = demands
        self.lifetime = lifetime
    }
}
