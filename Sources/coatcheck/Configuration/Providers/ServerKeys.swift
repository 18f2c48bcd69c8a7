/// The settings that describe a provider's server, and so belong only in the provider's section (decision 94).
///
/// Version 0.2 still accepts them in a client's section, with a warning.
enum ServerKeys {
    /// The paths of the settings that belong only to a provider, each relative to the section of a provider or a client.
    static let all = [
        "assertion.typ", "basic_encoding", "dpop.nonce_age", "dpop.nonce_before_spending", "dpop.par",
        "id_token.issuer", "id_token.issuer_template", "id_token.leeway", "identity.subject",
        "revocation.bearer_fallback", "revocation.hint", "revocation.reaches", "scope_separator", "tls.ca_file",
        "token_request.encoding", "token_request.idempotency_key", "token_request.rename",
        "token_response.dead_grants", "token_response.expires_field", "token_response.expires_unit",
        "token_response.invalid_grant_codes", "token_response.refresh_expires_field",
        "token_response.scope.separator", "token_response.scope.when_absent",
    ]

    /// Warns of each setting of `all` that a client's section has, and names its place in the provider's section.
    static func warn(client: ConfigSection, provider: String) {
        for key in all where client.context.lines.has("\(client.path).\(key)") {
            client.context.report(
                "belongs to the provider, at `\(provider).\(key)`; from 0.3 on it is refused on a client",
                path: "\(client.path).\(key)", severity: .warning)
        }
    }
}
