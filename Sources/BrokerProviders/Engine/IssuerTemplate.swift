/// Knows Microsoft's multi-tenant issuers: the configured one names no tenant (`…/common/v2.0`), the metadata holds a
/// template (`…/{tenantid}/v2.0`), and each token names its own tenant.
enum IssuerTemplate {
    private static let placeholder = "{tenantid}"

    /// Returns whether an issuer is the template's with no tenant named; a tenant's own issuer is an ordinary one.
    static func covers(_ issuer: String, _ template: String) -> Bool {
        ["common", "organizations"].contains { template.replacing(placeholder, with: $0) == issuer }
    }

    /// Returns what the metadata's `issuer` has to be.
    static func issuer(of settings: ProviderSettings) -> String {
        let issuer = settings.issuer ?? ""
        let template = settings.clients.lazy.compactMap(\.wire.idToken.issuerTemplate).first
        return template.flatMap { covers(issuer, $0) ? $0 : nil } ?? issuer
    }
}
