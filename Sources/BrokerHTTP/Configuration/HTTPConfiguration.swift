package import Broker
package import BrokerWire

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
    /// The address translators in front of IPv4 clients, so that limits count these clients by their own addresses.
    package var translators = AddressTranslators()
    /// The session cookie's name.
    ///
    /// If `publicURL` is http, the broker omits its `__Host-` prefix.
    package var cookieName = "__Host-coatcheck"
    package var sameSite: SameSite = .strict
    /// Web origins whose pages may call the broker (`https://app.example.com`).
    package var allowedOrigins: Set<String> = []
    /// Origins of apps in a web shell (`capacitor://localhost`).
    ///
    /// Any app can claim such an origin, so cookies from it are refused.
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

/// The limits of the public listener (`limits` in the configuration).
package struct HTTPLimits: Sendable {
    /// The limits on logins and wrong secrets of an address in a minute, and the caps on pending rows.
    package var charges = ChargeLimits()
    /// The largest number of bytes of a JSON or form body.
    package var body = 64 * 1024
    /// The largest number of bytes of a request body that lists every setting of a configuration.
    static let largeBody = 1 << 20
    /// The largest number of bytes of a relayed request body.
    package var relayBody = 1024 * 1024 * 1024
    /// The largest number of open connections of one address.
    package var connectionsPerAddress = 512
    /// The largest number of open connections of one address that have not carried a live session yet.
    package var anonymousConnectionsPerAddress = 128
    /// The largest number of bytes in unanswered requests of one address, except requests of live sessions.
    package var heldBytesPerAddress = 8 * 1024 * 1024
    /// The largest number of bytes in unanswered requests of a trusted proxy; it replaces `heldBytesPerAddress`.
    package var heldBytesOfProxy = 64 * 1024 * 1024
    /// The longest total time for a JSON or form body.
    package var bodyDeadline: Duration = .seconds(30)
    /// The lowest average rate of a relayed body, in bytes per second.
    ///
    /// Only the time that the broker waits for the app counts.
    package var relayMinimumRate = 1024
    /// The time over which one average of the rate is taken; only the time spent waiting for the app counts.
    package var relayRateWindow: Duration = .seconds(30)
    /// The time spent waiting for the app before the first average begins.
    package var relayRateGrace: Duration = .seconds(10)
    /// The longest total time for a relayed upload.
    package var relayUploadDeadline: Duration = .seconds(3600)
    /// The time that a relayed answer may continue after its session's end, unless it is an event stream.
    ///
    /// The configuration cannot change it.
    var relayedGrace: Duration = .seconds(5)
    /// The time between two comments in an event stream, which keep the connection open.
    package var eventHeartbeat: Duration = .seconds(25)
    package var connection = ConnectionLimits()

    package init() {}
}

/// A permission of an admin token (`management.admin_tokens.may`).
/// - `read`: list sessions and keys
/// - `end`: end sessions
/// - `maintain`: write backups and seal values again
/// - `configure`: compare configurations
package enum AdminPermission: String, Sendable, CaseIterable { case read, end, maintain, configure }

/// An operator's credential for the management listener, stored only as a hash (SEC-97).
package struct AdminToken: Sendable {
    /// The token's name in the audit log.
    package let name: String
    package let digest: Digest
    package let may: Set<AdminPermission>

    package init(name: String, digest: Digest, may: Set<AdminPermission>) {
        self.name = name
        self.digest = digest
        self.may = may
    }
}
