/// The closed list of emulated providers.
enum Catalogue {
    static let providers: [any SandboxProvider] =
        [
            OIDCProvider(), OAuth2Provider(), GitHubProvider(), GoogleProvider(), SlackProvider(), MicrosoftProvider(),
            AppleProvider(), CloudentityProvider.hosted, CloudentityProvider.vanity, CleverProvider(), CloverProvider(),
            FacebookProvider(), LinkedInProvider(), ZephrProvider(), ZephrOAuthProvider(), UpstreamAPI(),
        ] + VendorProvider.all

    private static let byPrefix: [String: any SandboxProvider] = {
        var out: [String: any SandboxProvider] = [:]
        for provider in providers {
            for prefix in provider.prefixes { out[prefix] = provider }
        }
        return out
    }()

    static func named(_ name: String) -> (any SandboxProvider)? { providers.first { $0.name == name } }

    /// Returns the provider for a path, which the first segment names.
    ///
    /// In a well-known path (RFC 8414), the segment after the document's name is the first segment of the issuer's path.
    static func provider(path: String) -> (any SandboxProvider)? {
        let segments = path.split(separator: "/", omittingEmptySubsequences: true)
        guard let first = segments.first else { return nil }
        if path.hasPrefix(ZephrOAuthProvider().issuerPath) { return ZephrOAuthProvider() }
        if first == ".well-known", segments.count > 2 { return byPrefix[String(segments[2])] }
        return byPrefix[String(first)]
    }
}
