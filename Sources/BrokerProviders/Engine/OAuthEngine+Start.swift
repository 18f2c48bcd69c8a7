import Broker

extension OAuthEngine {
    /// Starts a login, with a pushed request (RFC 9126) if the setting `par` permits it or the provider requires it.
    ///
    /// Without a pushed request, or if an optional one fails, the URL contains all parameters.
    func start(
        _ request: AuthorizationRequest, openID: Bool, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        let client = try client(request.client)
        let metadata = try await metadata(for: client)
        guard let endpoint = try metadata.usable(.authorization) else {
            throw .unusable(detail: "no authorization endpoint is known")
        }
        // Check all endpoints of the sign-in now. Otherwise the login could fail after the user has already signed in at the
        // provider.
        for member in needs(of: client) { _ = try metadata.usable(member) }
        // If a server's list of methods lacks S256, the server would ignore or misread the challenge (RFC 9700 section
        // 2.1.1).
        if request.codeChallenge != nil, let methods = metadata.challengeMethods, !methods.contains("S256") {
            throw .unusable(detail: "the metadata's code_challenge_methods_supported lacks S256")
        }
        var pairs = AuthorizationURL.parameters(request, client: client, openID: openID)
        let demands = SignInDemands(pairs)
        var lifetime: Duration?
        let mode = client.wire.pushedAuthorization
        if mode != .off || metadata.requiresPushedAuthorization {
            let isRequired = mode == .required || metadata.requiresPushedAuthorization
            do throws(ProviderFailure) {
                let proof = client.wire.dpop.par == .proof ? request.proof : nil
                let pushed = try await push(pairs, provedBy: proof, client: client, metadata: metadata, by: deadline)
                pairs = [("client_id", client.settings.clientID), ("request_uri", pushed.reference)]
                lifetime = pushed.lifetime
            } catch {
                // If a pushed request is required, a URL with all parameters must never replace it (SEC-10).
                if isRequired { throw error }
            }
        }
        guard let url = endpoint.adding(pairs) else {
            throw .unusable(detail: "the authorization endpoint's own query repeats a parameter")
        }
        return AuthorizationStart(
            url: Secret(url.text), issuer: expectation(metadata), demands: demands, lifetime: lifetime)
    }

    /// Returns the rule for the `iss` of callbacks; for a multi-tenant issuer, `iss` must match the template.
    func expectation(_ metadata: Metadata) -> IssuerExpectation {
        IssuerExpectation(
            issuer: profile.callbackIssuer, demanded: profile.callbackIssuer != nil && metadata.promisesIssuer)
    }

    /// Pushes an authorization request (RFC 9126).
    func push(
        _ pairs: [(name: String, value: String)], provedBy proof: ProofMaker?, client: EngineClient,
        metadata: Metadata, by deadline: Duration
    ) async throws(ProviderFailure) -> (reference: String, lifetime: Duration?) {
        guard let endpoint = try metadata.usable(.pushedAuthorization) else {
            throw .unusable(detail: "no PAR endpoint is known")
        }
        let answer = try await post(
            pairs, to: endpoint, as: .pushedAuthorization, client: client, provedBy: proof, by: deadline)
        try answer.requireUsable(at: clock.now())
        guard answer.isSuccess, let reference = answer.object?["request_uri"]?.string,
            (1...1024).contains(reference.utf8.count), reference.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            let code = answer.object.flatMap { OAuthErrorParser.code(in: $0, isFailure: !answer.isSuccess) }
            if code == "invalid_dpop_proof", proof != nil {
                throw .unusable(
                    detail: "PAR refuses the proof: compare the clocks, or set `dpop: {par: thumbprint}`")
            }
            throw .unusable(detail: "PAR: \(answer.summaryOfObject), \(code ?? "no request_uri")")
        }
        let seconds = answer.object?["expires_in"]?.integer
        return (reference, seconds.flatMap { (1...86_400).contains($0) ? .seconds($0) : nil })
    }
}

/// Builds authorization requests.
///
/// Each name except `resource` occurs once, and the app's parameters never override the broker's (SEC-07).
enum AuthorizationURL {
    /// The names of the parameters that only the broker sets.
    static let reserved: Set<String> = [
        "response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge",
        "code_challenge_method", "response_mode", "request", "request_uri", "client_secret", "dpop_jkt",
    ]

    /// Returns the parameters of an authorization request, in order.
    static func parameters(
        _ request: AuthorizationRequest, client: EngineClient, openID: Bool
    ) -> [(name: String, value: String)] {
        var pairs: [(name: String, value: String)] = [
            ("response_type", "code"), (client.wire.clientParameter, client.settings.clientID),
            ("redirect_uri", client.settings.redirectName ?? request.redirectURI.text),
        ]
        // Every OpenID sign-in needs an id_token, and the provider issues one only for the scope `openid`.
        var scope = openID && !request.scope.contains("openid") ? ["openid"] + request.scope : request.scope
        // Add the scopes of the client's targets, even if the app or the session to be stepped up has fewer scopes. Without
        // these scopes, the token endpoint would later refuse tokens for the targets.
        scope += client.settings.targetScope.filter { !scope.contains($0) }
        if !scope.isEmpty {
            pairs.append((client.wire.scopeParameter, scope.joined(separator: client.wire.scopeSeparator)))
        }
        pairs.append(("state", request.state.reveal()))
        if let nonce = request.nonce { pairs.append(("nonce", nonce.reveal())) }
        if let challenge = request.codeChallenge {
            pairs.append(("code_challenge", challenge))
            pairs.append(("code_challenge_method", "S256"))
        }
        pairs += client.settings.targetResources.map { ("resource", $0) }
        if let proof = request.proof { pairs.append(("dpop_jkt", proof.thumbprint)) }
        if let mode = client.wire.responseMode { pairs.append(("response_mode", mode.rawValue)) }
        var names = Set(pairs.map(\.name)).union(reserved)
        let further = request.demanded + client.wire.authorizationParameters + request.parameters
        for pair in further where names.insert(pair.name).inserted {
            pairs.append(pair)
        }
        return pairs
    }
}
