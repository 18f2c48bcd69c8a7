import Broker

/// Clever's endpoints and the format of its messages (docs/providers/clever.md).
enum CleverWire {
    /// Returns the settings with the format of Clever's messages, and with Clever's endpoints unless `endpoints` names others.
    static func settings(_ settings: ProviderSettings, _ own: CleverSettings) -> ProviderSettings {
        var result = settings
        let endpoints = settings.endpoints
        result.issuer = settings.issuer ?? "https://clever.com"
        result.endpoints.authorization = endpoints.authorization ?? EndpointURL("https://clever.com/oauth/authorize")
        result.endpoints.token = endpoints.token ?? EndpointURL("https://clever.com/oauth/tokens")
        result.endpoints.api = endpoints.api ?? EndpointURL("https://api.clever.com")
        result.endpoints.introspection = endpoints.introspection ?? EndpointURL("https://clever.com/oauth/tokeninfo")
        // The endpoints are known. Metadata is fetched only for the address of the keys, and only if Clever issues id_tokens.
        result.discovery = own.openID && endpoints.jwks == nil
        result.clients = settings.clients.map { client in
            var client = client
            client.wire.tokenRequest.encoding = .json
            client.wire.refresh = .none
            client.wire.revocation.style = .none
            client.wire.tokenResponse.defaultLifetime =
                client.wire.tokenResponse.defaultLifetime ?? own.defaultLifetime
            return client
        }
        return result
    }

    /// Returns the address that opens a login in the Clever app.
    ///
    /// The address has the app's own scheme, and the parameters of `url`.
    static func appURL(_ url: String, sdkVersion: String) -> String {
        let query = url.firstIndex(of: "?").map { url[url.index(after: $0)...] } ?? ""
        return "com.clever://oauth/authorize?" + query + "&sdk_version=" + FormPairs.encode(sdkVersion)
    }

    /// Reads those of Clever's errors that are text or HTML instead of a JSON object.
    ///
    /// A 401 means a wrong client credential, and the text `invalid grant` an invalid code.
    static let dialect: @Sendable (ProviderAnswer) -> OAuthError? = { answer in
        guard (400..<500).contains(answer.status), answer.object == nil else { return nil }
        let text = String(decoding: answer.body.prefix(4096), as: UTF8.self).lowercased()
        let code =
            answer.status == 401
            ? "invalid_client" : text.contains("invalid grant") ? "invalid_grant" : "invalid_request"
        return OAuthError(status: answer.status, code: code)
    }
}
