/// `id_token`: what is accepted; the token's header never chooses (SEC-25).
package struct IDTokenSettings: Sendable {
    /// The setting `algorithms`.
    package var algorithms: [SignatureAlgorithm]
    /// `issuer`: the `iss` of the id_tokens that the provider's SDKs give out, where that is not the issuer of its sign-in;
    /// for kind `oauth2`, which knows no other, it says that there are such tokens.
    package var issuer: String?
    /// `leeway`: clock skew, at most 120 s (SEC-29).
    package var leeway: Duration
    /// `maximum_age`: how old `iat` may be at a login.
    package var maximumAge: Duration
    /// `trusted_audiences`: audiences and authorized parties believed beside our own client id (SEC-28).
    package var trustedAudiences: [String]
    /// `issuer_template`: the `iss` of a multi-tenant issuer, `{tenantid}` filled from the claim `tid` (Microsoft).
    package var issuerTemplate: String?
    /// `tenants`: the `tid`s believed with `issuer_template`; empty for all.
    package var tenants: [String]

    package init(
        algorithms: [SignatureAlgorithm] = [.rs256, .es256, .ps256, .edDSA], leeway: Duration = .seconds(60),
        maximumAge: Duration = .seconds(3600), trustedAudiences: [String] = [], issuerTemplate: String? = nil,
        tenants: [String] = [], issuer: String? = nil
    ) {
        self.issuer = issuer
        self.algorithms = algorithms
        self.leeway = leeway
        self.maximumAge = maximumAge
        self.trustedAudiences = trustedAudiences
        self.issuerTemplate = issuerTemplate
        self.tenants = tenants
    }
}
