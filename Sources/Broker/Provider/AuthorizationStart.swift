/// A started authorization: where the app goes, and what the callback will have to show.
package struct AuthorizationStart: Sendable {
    /// The URL to open.
    ///
    /// It carries the state, so it is never logged.
    package let url: Secret
    package let issuer: IssuerExpectation
    /// What the request asks of the sign-in, fixed or by the app.
    package let demands: SignInDemands
    /// How long the URL is good for, where the provider says so (RFC 9126's `expires_in`).
    package let lifetime: Duration?
    /// The same request as a URL that the provider's own app opens, where there is one (Clever).
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
