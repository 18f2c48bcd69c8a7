package import Broker
package import BrokerWire

/// The settings of the HTTP surface, made by the executable from the configuration file.
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
    /// The address of the backends' own listener (`10.0.0.5:8081`); nil where they share the public one.
    package var backendListen: String?
    /// Whether the listeners for apps and backends end TLS themselves.
    package var endsTLS = false
    /// Names accepted in `Host` on the management listener, beside addresses and loopback names.
    package var managementHosts: [String] = []
    package var trustedProxies: [IPNetwork] = []
    /// The translators behind which IPv4 clients are counted by their own addresses.
    package var translators = AddressTranslators()
    /// The session cookie's name; on an http `publicURL` its `__Host-` prefix is left off.
    package var cookieName = "__Host-coatcheck"
    package var sameSite: SameSite = .strict
    /// Web origins whose pages may call us (`https://app.example.com`).
    package var allowedOrigins: Set<String> = []
    /// Origins of apps in a web shell (`capacitor://localhost`).
    ///
    /// Any app can claim them, so their cookies are refused.
    package var shellOrigins: Set<String> = []
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

/// The bounds of what the public listener takes (`limits` in the configuration).
package struct HTTPLimits: Sendable {
    /// The most that an address may begin and miss in a minute, and the caps on what waits.
    package var charges = ChargeLimits()
    /// Bytes of a JSON or form body.
    package var body = 64 * 1024
    /// Bytes of a body that names every setting of a configuration.
    static let largeBody = 1 << 20
    /// Bytes of a relayed request body.
    package var relayBody = 1024 * 1024 * 1024
    /// Open connections of one address.
    package var connectionsPerAddress = 512
    /// Open connections of one address until one of them has carried a live session.
    package var anonymousConnectionsPerAddress = 128
    /// Bytes received from one address and not yet answered, those of live sessions aside.
    package var heldBytesPerAddress = 8 * 1024 * 1024
    /// The same for a trusted proxy.
    package var heldBytesOfProxy = 64 * 1024 * 1024
    /// The longest time for a JSON or form body in all.
    package var bodyDeadline: Duration = .seconds(30)
    /// The lowest average rate of a relayed body, in bytes a second of the time that its app is waited for.
    package var relayMinimumRate = 1024
    /// The part of that time over which the average is taken.
    package var relayRateWindow: Duration = .seconds(30)
    /// The part of that time before the first window.
    package var relayRateGrace: Duration = .seconds(10)
    /// The longest time for a relayed upload in all.
    package var relayUploadDeadline: Duration = .seconds(3600)
    /// The time after its session's end for which a relayed answer goes on that is no event stream; no setting.
    var relayedGrace: Duration = .seconds(5)
    /// Between two comments of an event stream.
    package var eventHeartbeat: Duration = .seconds(25)
    package var connection = ConnectionLimits()

    package init() {}
}

/// A permission of an admin token (`management.admin_tokens.may`): to list sessions and keys, to end sessions, to back up
/// and seal again, to compare configurations.
package enum AdminPermission: String, Sendable, CaseIterable { case read, end, maintain, configure }

/// An operator's credential for the management listener, known by its hash only (SEC-97).
package struct AdminToken: Sendable {
    /// The name in the audit.
    package let name: String
    package let digest: Digest
    package let may: Set<AdminPermission>

    package init(name: String, digest: Digest, may: Set<AdminPermission>) {
        self.name = name
        self.digest = digest
        self.may = may
    }
}
