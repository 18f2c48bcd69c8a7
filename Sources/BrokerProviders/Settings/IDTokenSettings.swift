/// `id_token`: the rules for id_tokens; a token's own header never decides which algorithm is accepted (SEC-25).
package struct IDTokenSettings: Sendable {
    /// The setting `algorithms`.
    package var algorithms: [SignatureAlgorithm]
    /// `issuer`: the `iss` of the id_tokens from the provider's SDKs, if it differs from the sign-in's issuer.
    ///
    /// For kind `oauth2`, id_tokens from SDKs are accepted only if `issuer` is set.
    package var issuer: String?
    /// `leeway`: clock skew, at most 120 s (SEC-29).
    package var leeway: Duration
    /// `maximum_age`: the greatest age of `iat` at a login.
    package var maximumAge: Duration
    /// `trusted_audiences`: audiences and authorized parties that are trusted in addition to the client id (SEC-28).
    package var trustedAudiences: [String]
    /// `issuer_template`: the `iss` of a multi-tenant issuer.
    ///
    /// The placeholder `{tenantid}` stands for the claim `tid` (Microsoft).
    package var issuerTemplate: String?
    /// `tenants`: the values of `tid` that are accepted with `issuer_template`; empty means all.
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
