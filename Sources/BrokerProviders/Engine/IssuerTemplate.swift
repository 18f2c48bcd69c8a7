/// Knows Microsoft's multi-tenant issuers: the configured one names no tenant (`…/common/v2.0`), the metadata holds a
/// template (`…/{tenantid}/v2.0`), and each token names its own tenant.
enum IssuerTemplate {
    private static let placeholder = "{tenantid}"
    private static let everybody = ["common", "organizations"]

    /// Returns whether a `tid` can be a tenant's: the names that stand for all of them are nobody's.
    static func isTenant(_ tenant: String) -> Bool { !everybody.contains(tenant) }

    /// Returns whether an issuer is the template's with no tenant named; a tenant's own issuer is an ordinary one.
    static func covers(_ issuer: String, _ template: String) -> Bool {
        everybody.contains { template.replacing(placeholder, with: $0) == issuer }
    }

    /// Returns what the metadata's `issuer` has to be.
    static func issuer(of settings: ProviderSettings) -> String {
        let issuer = settings.issuer ?? ""
        let template = settings.clients.lazy.compactMap(\.wire.idToken.issuerTemplate).first
        return template.flatMap { covers(issuer, $0) ? $0 : nil } ?? issuer
    }
}
