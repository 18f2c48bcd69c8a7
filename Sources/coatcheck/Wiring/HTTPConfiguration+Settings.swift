import Broker
import BrokerHTTP
import BrokerWire

extension HTTPConfiguration {
    /// Makes the settings of the module `BrokerHTTP` from the configuration file.
    init(_ configuration: Configuration, contract: [UInt8]) {
        self.init(publicURL: configuration.server.publicURL.text)
        let session = configuration.session
        hosts = configuration.server.hosts
        backendListen = configuration.server.backendListen?.description
        endsTLS = configuration.server.tls != nil
        managementHosts = configuration.management.hosts
        trustedProxies = configuration.server.trustedProxies
        translators = AddressTranslators(configuration.server.translators)
        cookieName = session.cookieName
        sameSite = session.sameSite
        allowedOrigins = Set(session.allowedOrigins)
        shellOrigins = Set(session.shellOrigins)
        limits = configuration.limits.http
        limits.connection.idle = configuration.server.keepAlive
        if configuration.takesOldCookies { limits.allowOldCookie() }
        backends = configuration.backends.map(\.settings)
        adminTokens = configuration.management.adminTokens
        appleAppSiteAssociation = configuration.appLinks.ios?.json
        appLinkPaths = configuration.appLinks.ios?.paths ?? []
        assetLinks = configuration.appLinks.android?.json
        openAPI = contract
    }
}

extension AppLinkSettings.Apple {
    /// The content of `apple-app-site-association`, the same bytes at every start (SEC-93).
    var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.name("applinks")
            writer.object { writer in
                writer.name("details")
                writer.array { writer in
                    writer.object { writer in
                        writer.name("appIDs")
                        writer.array { writer in for id in appIDs { writer.string(id) } }
                        writer.name("components")
                        writer.array { writer in
                            for path in paths { writer.object { $0.member("/", path) } }
                        }
                    }
                }
            }
            if webcredentials {
                writer.name("webcredentials")
                writer.object { writer in
                    writer.name("apps")
                    writer.array { writer in for id in appIDs { writer.string(id) } }
                }
            }
        }
        return writer.bytes
    }
}

extension AppLinkSettings.Android {
    /// The content of `assetlinks.json`, the same bytes at every start (SEC-93).
    var json: [UInt8] {
        var writer = JSONWriter()
        writer.array { writer in
            writer.object { writer in
                writer.name("relation")
                writer.array { $0.string("delegate_permission/common.handle_all_urls") }
                writer.name("target")
                writer.object { writer in
                    writer.member("namespace", "android_app")
                    writer.member("package_name", package)
                    writer.name("sha256_cert_fingerprints")
                    writer.array { writer in for fingerprint in fingerprints { writer.string(fingerprint) } }
                }
            }
        }
        return writer.bytes
    }
}

extension Contract {
    /// Returns the contract with this broker's address as the first of its `servers`, so that generated clients call this
    /// broker.
    static func served(at publicURL: String) -> [UInt8] {
        Array(
            text.replacing("- url: https://auth.example.com\n", with: "- url: '\(publicURL)'\n", maxReplacements: 1)
                .utf8)
    }
}
