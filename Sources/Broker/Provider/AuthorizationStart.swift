/// A started authorization: where the app goes, and what the callback will have to show.
package struct AuthorizationStart: Sendable {
    /// The URL to open.
    ///
    /// It carries the state, so it is never logged.
    package let url: Secret
    package let issuer: IssuerExpectation

    package init(url: Secret, issuer: IssuerExpectation) {
        self.url = url
        self.issuer = issuer
    }
}
