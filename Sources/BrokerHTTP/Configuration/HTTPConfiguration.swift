package import Broker

/// What the HTTP surface has to know, made by the executable from the configuration file.
package struct HTTPConfiguration: Sendable {
    /// The `SameSite` attribute of our cookies.
    package enum SameSite: String, Sendable, CaseIterable {
        case strict, lax, none

        /// The word as cookies have it.
        var attribute: String { rawValue.prefix(1).uppercased() + rawValue.dropFirst() }
    }

    /// Scheme, host and perhaps port, without a trailing slash: `https://auth.example.com`.
    package let publicURL: String
    /// Further names accepted in `Host`.
    package var hosts: [String] = []
    /// Where backends have a listener of their own (`10.0.0.5:8081`); nil where they share the public one.
    package var backendListen: String?
    /// Whether the listeners for apps and backends end TLS themselves.
    package var endsTLS = false
    /// Names accepted in `Host` on the management listener, beside addresses and loopback names.
    package var managementHosts: [String] = []
    package var trustedProxies: [IPNetwork] = []
    /// The session cookie's name; on an http `publicURL` its `__Host-` prefix is left off.
    package var cookieName = "__Host-coatcheck"
    package var sameSite: SameSite = .strict
    /// Web origins whose pages may call us (`https://app.example.com`).
    package var allowedOrigins: Set<String> = []
    package var limits = HTTPLimits()
    package var backends: [BackendConfiguration] = []
    package var adminTokens: [AdminToken] = []
    /// The two app association files; nil is 404.
    package var appleAppSiteAssociation: [UInt8]?
    package var assetLinks: [UInt8]?
    /// The patterns of the paths that open an app: who is shown them in a browser is asked to open it.
    package var appLinkPaths: [String] = []
    /// The contract, as served at `/openapi.yaml`.
    package var openAPI: [UInt8] = []

    /// Creates a configuration with the defaults.
    package init(publicURL: String) { self.publicURL = publicURL }
}
