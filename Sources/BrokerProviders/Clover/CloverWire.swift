import Broker

/// Clover's endpoints and the format of its messages (docs/providers/clover.md): two hosts, JSON without `grant_type`, and
/// expiries as times instead of durations.
enum CloverWire {
    /// The two hosts of an environment: `web` for users' browsers, and `api` for the broker's calls.
    private static func hosts(_ environment: CloverSettings.Environment) -> (web: String, api: String) {
        switch environment {
        case .sandbox: ("https://sandbox.dev.clover.com", "https://apisandbox.dev.clover.com")
        case .us: ("https://www.clover.com", "https://api.clover.com")
        case .eu: ("https://www.eu.clover.com", "https://api.eu.clover.com")
        case .la: ("https://www.la.clover.com", "https://api.la.clover.com")
        }
    }

    /// Returns the settings with the format of Clover's messages, and with Clover's endpoints unless `endpoints` names others.
    ///
    /// Throws for a redirect URI or an authentication that Clover would refuse.
    static func settings(_ settings: ProviderSettings, _ own: CloverSettings) throws(CatalogueFailure)
        -> ProviderSettings
    {
        var result = settings
        let hosts = hosts(own.environment)
        let endpoints = settings.endpoints
        let api = endpoints.api?.text ?? hosts.api
        result.discovery = false
        result.endpoints.api = EndpointURL(api)
        result.endpoints.authorization = endpoints.authorization ?? EndpointURL(hosts.web + "/oauth/v2/authorize")
        result.endpoints.token = endpoints.token ?? EndpointURL(api + "/oauth/v2/token")
        result.endpoints.refresh = endpoints.refresh ?? EndpointURL(api + "/oauth/v2/refresh")
        result.endpoints.recovery = endpoints.recovery ?? EndpointURL(api + "/oauth/v2/recovery")
        result.endpoints.migration = endpoints.migration ?? EndpointURL(api + "/oauth/token/migrate_v2")
        var clients: [ClientSettings] = []
        for var client in settings.clients {
            // Clover takes credentials in the body, never as Basic.
            if case .clientSecretBasic(let secret) = client.authentication {
                client.authentication = .clientSecretPost(secret)
            }
            switch client.authentication {
            case .none, .clientSecretPost: break
            default: throw CatalogueFailure("providers.\(settings.name): clover takes auth none or a client_secret")
            }
            if client.profile.callbackParameters.isEmpty { client.profile.callbackParameters = ["employee_id"] }
            client.wire.tokenRequest.encoding = .json
            client.wire.tokenRequest.omit = ["grant_type", "redirect_uri"]
            client.wire.tokenResponse.expiresField = "access_token_expiration"
            client.wire.tokenResponse.refreshExpiresField = "refresh_token_expiration"
            client.wire.tokenResponse.expiresUnit = .epochSeconds
            client.wire.refresh = .singleUse
            client.wire.revocation.style = .none
            if let site = own.siteURL {
                for uri in client.profile.redirectURIs where !lies(uri, under: site) {
                    throw CatalogueFailure(
                        "providers.\(settings.name): redirect URI \(uri.text) is not under site_url \(site)")
                }
            }
            clients.append(client)
        }
        result.clients = clients
        return result
    }

    /// Returns whether a redirect URI is under the Site URL.
    ///
    /// Scheme, host and port must be equal, and the path must be the Site URL's path or below.
    static func lies(_ uri: RedirectURI, under site: String) -> Bool {
        guard let site = RedirectURI(site), uri.scheme == site.scheme, uri.host == site.host, uri.port == site.port
        else { return false }
        let base = site.path.hasSuffix("/") ? site.path : site.path + "/"
        return uri.path == site.path || uri.path.hasPrefix(base)
    }

    /// Reads Clover's errors `{status, message}`; a 401 means a dead code or refresh token.
    ///
    /// The error page of a proxy is ignored.
    static let dialect: @Sendable (ProviderAnswer) -> OAuthError? = { answer in
        guard (400..<500).contains(answer.status), let object = answer.object,
            object["message"]?.string != nil || object["status"]?.string != nil
        else { return nil }
        return OAuthError(
            status: answer.status, code: answer.status == 401 ? "invalid_grant" : "invalid_request",
            recoveryOffered: answer.header("X-Clover-Recovery-Available")?.lowercased() == "true", isNamed: false)
    }
}
