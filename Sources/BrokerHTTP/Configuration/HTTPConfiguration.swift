package import Broker

/// The settings of the HTTP surface, made by the executable from the configuration file.
package struct HTTPConfiguration: Sendable {
    /// The `SameSite` attribute of the broker's cookies.
    package enum SameSite: String, Sendable, CaseIterable {
        case strict, lax, none

        /// The value as it is written in cookies.
        var attribute: String { rawValue.prefix(1).uppercased() + rawValue.dropFirst() }
    }

    /// The broker's public origin, without a final slash: `https://auth.example.com`.
    package let publicURL: String
    /// Further host names that are accepted in `Host`.
    package var hosts: [String] = []
    /// The address of the backends' own listener (`10.0.0.5:8081`); nil if backends share the public listener.
    package var backendListen: String?
    /// Whether the listeners for apps and backends terminate TLS themselves.
    package var endsTLS = false
    /// The host names that the management listener accepts in `Host`, in addition to addresses and loopback names.
    package var managementHosts: [String] = []
    package var trustedProxies: [IPNetwork] = []
    /// The translators (RFC 6052) that connect IPv4 clients to the broker over IPv6.
    ///
    /// Limits count each of these clients by its IPv4 address.
    package var translators = AddressTranslators()
    /// The session cookie's name.
    ///
    /// If `publicURL` is http, the broker omits the prefix `__Host-` of the name.
    package var cookieName = "__Host-coatcheck"
    package var sameSite: SameSite = .strict
    /// Web origins whose pages may call the broker (`https://app.example.com`).
    package var allowedOrigins: Set<String> = []
    /// Origins of apps in a web shell (`capacitor://localhost`).
    ///
    /// Any app can send such an origin, so the broker refuses cookies in its requests.
    package var shellOrigins: Set<String> = []
    package var limits = HTTPLimits()
    package var backends: [BackendConfiguration] = []
    package var adminTokens: [AdminToken] = []
    /// The two app association files; if one is nil, its path answers 404.
    package var appleAppSiteAssociation: [UInt8]?
    package var assetLinks: [UInt8]?
    /// The path patterns of app links.
    ///
    /// A browser that opens such a path gets a page that asks the user to open the app.
    package var appLinkPaths: [String] = []
    /// The text of openapi.yaml, which is served at `/openapi.yaml`.
    package var openAPI: [UInt8] = []

    /// Creates a configuration with the defaults.
    package init(publicURL: String) { self.publicURL = publicURL }
}
