/// What the callback's `iss` has to be (RFC 9207 section 2.4): equal to `issuer` wherever it appears, and present on
/// success when `demanded`.
///
/// A nil issuer (plain OAuth 2.0) lets no `iss` be believed or refused.
package struct IssuerExpectation: Sendable, Equatable {
    package let issuer: String?
    package let demanded: Bool

    package init(issuer: String?, demanded: Bool) {
        self.issuer = issuer
        self.demanded = demanded
    }
}
