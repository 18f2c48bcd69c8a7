/// Handles Microsoft's multi-tenant issuers.
///
/// The configured issuer names no tenant (`…/common/v2.0`), the metadata contains a template (`…/{tenantid}/v2.0`), and
/// each token names its own tenant.
enum IssuerTemplate {
    private static let placeholder = "{tenantid}"
    private static let everybody = ["common", "organizations"]

    /// Returns whether a `tid` can be the id of a single tenant.
    ///
    /// The names for all tenants are excluded.
    static func isTenant(_ tenant: String) -> Bool { !everybody.contains(tenant) }

    /// Returns whether an issuer stands for all tenants of the template.
    ///
    /// An issuer of a single tenant needs no template.
    static func covers(_ issuer: String, _ template: String) -> Bool {
        everybody.contains { template.replacing(placeholder, with: $0) == issuer }
    }

    /// Returns the value that the metadata's `issuer` must have.
    static func issuer(of settings: ProviderSettings) -> String {
        let issuer = settings.issuer ?? ""
        let template = settings.clients.lazy.compactMap(\.wire.idToken.issuerTemplate).first
        return template.flatMap { covers(issuer, $0) ? $0 : nil } ?? issuer
    }
}
