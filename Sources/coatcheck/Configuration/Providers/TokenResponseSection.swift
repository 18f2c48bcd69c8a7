/// Is how a token answer differs from RFC 6749's (`token_response`).
struct TokenResponseSection: Sendable {
    enum ExpiresUnit: String, Sendable, CaseIterable { case seconds, epochSeconds = "epoch_seconds" }

    /// A JSON pointer to the object that holds the tokens.
    var path: String?
    var expiresField: String?
    var refreshExpiresField: String?
    var expiresUnit: ExpiresUnit?
    var defaultLifetime: Duration?

    init() {}

    init(_ section: ConfigSection) {
        path = section.pointer("path")
        expiresField = section.text("expires_field", limit: 64)
        refreshExpiresField = section.text("refresh_expires_field", limit: 64)
        expiresUnit = section.choice("expires_unit")
        defaultLifetime = section.optionalDuration("default_lifetime", in: .seconds(1) ... .seconds(400 * 86_400))
    }

    func over(_ base: TokenResponseSection) -> TokenResponseSection {
        var merged = self
        merged.path = path ?? base.path
        merged.expiresField = expiresField ?? base.expiresField
        merged.refreshExpiresField = refreshExpiresField ?? base.refreshExpiresField
        merged.expiresUnit = expiresUnit ?? base.expiresUnit
        merged.defaultLifetime = defaultLifetime ?? base.defaultLifetime
        return merged
    }
}
