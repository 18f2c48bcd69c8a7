import Broker

/// Checks that a client's settings do not contradict each other.
enum ClientRules {
    /// Reports what cannot be together on one client. Keys that stand on the provider are checked with the whole file.
    static func check(
        _ section: ConfigSection, auth: ClientSection.Authentication?, hasKey: Bool, kind: ProviderKind,
        pkce: ClientSection.PKCE?
    ) {
        guard !section.context.isCataloguing else { return }
        let hasSecret = section.has("client_secret")
        switch auth {
        case .none?, .blankSecretBasic?:
            if hasSecret { section.report("client_secret", "is given although `auth` says that there is none") }
        case .privateKeyJWT?:
            if hasSecret { section.report("client_secret", "is given although `auth` is `private_key_jwt`") }
        case .clientSecretBasic?, .clientSecretPost?:
            if !hasSecret, !hasKey { section.report("auth", "needs `client_secret`") }
        case nil:
            break
        }
        if auth == .blankSecretBasic, kind != .clever, kind != .oauth2 {
            section.report("auth", "cannot be `blank_secret_basic` for kind `\(kind.rawValue)`")
        }
        let isPublic = auth == ClientSection.Authentication.none || (auth == nil && !hasSecret && !hasKey)
        if pkce == .unsupported, isPublic, kind != .clever {
            section.report("pkce", "cannot be `unsupported` for a client without a secret: anyone with the code could redeem it")
        }
    }
}
