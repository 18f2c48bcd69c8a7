import Broker

/// Builds authorization requests: each name once, nothing of the app's over what the broker sets (SEC-07).
enum AuthorizationURL {
    /// The names that only the broker sets.
    static let reserved: Set<String> = [
        "response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
        "code_challenge_method", "response_mode", "request", "request_uri", "client_secret",
    ]

    /// Returns the parameters of a request, in their order.
    static func parameters(
        _ request: AuthorizationRequest, client: EngineClient, openID: Bool
    ) -> [(name: String, value: String)] {
        var pairs: [(name: String, value: String)] = [
            ("response_type", "code"), ("client_id", client.settings.clientID),
            ("redirect_uri", request.redirectURI.text),
        ]
        // Without `openid` there is no id_token, and without that nobody is signed in.
        let scope = openID && !request.scope.contains("openid") ? ["openid"] + request.scope : request.scope
        if !scope.isEmpty {
            pairs.append((client.wire.scopeParameter, scope.joined(separator: client.wire.scopeSeparator)))
        }
        pairs.append(("state", request.state.reveal()))
        if let nonce = request.nonce { pairs.append(("nonce", nonce.reveal())) }
        if let challenge = request.codeChallenge {
            pairs.append(("code_challenge", challenge))
            pairs.append(("code_challenge_method", "S256"))
        }
        if let mode = client.wire.responseMode { pairs.append(("response_mode", mode.rawValue)) }
        var names = Set(pairs.map(\.name)).union(reserved)
        for pair in client.wire.authorizationParameters + request.parameters where names.insert(pair.name).inserted {
            pairs.append(pair)
        }
        return pairs
    }
}
