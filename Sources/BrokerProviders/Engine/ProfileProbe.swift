package import Broker
import Crypto

extension OAuthEngine {
    /// Returns a fault for each requirement of the client's `profile` that the metadata does not promise.
    ///
    /// For a client without a `profile`, only two requirements are checked: a list of id_token algorithms, and tokens bound to
    /// certificates. If a requirement is missing in the metadata, the result is only doubtful, because the provider may fulfil
    /// the requirement anyway.
    func lacks(_ known: Metadata, _ client: ClientSettings, isOpenID: Bool) -> [ProbeResult] {
        let known = client.wire.connection.identity == nil ? known : known.withAliases(under: settings.endpoints)
        let (wire, profile) = (client.wire, client.wire.profile)
        let name = client.profile.name.text
        var results: [ProbeResult] = []
        func lack(_ member: String, _ what: String) {
            let text =
                profile.map { "client `\(name)` has `profile: \($0.rawValue)`, and \(member) \(what)" }
                ?? "\(member) \(what), which client `\(name)` rests on"
            results.append(
                ProbeResult(
                    subject: profile?.rawValue ?? "metadata", isGood: profile == nil, text: text,
                    isDoubtful: profile == nil))
        }
        func lists(_ value: String, _ listed: [String]?) -> Bool { listed?.contains(value) == true }
        if profile != nil {
            let method = client.authentication.method
            if known.pushedAuthorization == nil { lack("pushed_authorization_request_endpoint", "is not there") }
            if client.profile.senderConstraint == .dpop, !lists("ES256", known.proofAlgorithms) {
                lack("dpop_signing_alg_values_supported", "does not list ES256")
            }
            if !lists(method, known.tokenMethods) {
                lack("token_endpoint_auth_methods_supported", "does not list \(method)")
            }
            if case .privateKeyJWT(let key) = client.authentication,
                !key.algorithm.isListed(in: known.assertionAlgorithms ?? [])
            {
                lack("token_endpoint_auth_signing_alg_values_supported", "does not list \(key.algorithm.rawValue)")
            }
            if !known.promisesIssuer { lack("authorization_response_iss_parameter_supported", "is not true") }
            if !lists("S256", known.challengeMethods) { lack("code_challenge_methods_supported", "does not list S256") }
        }
        let accepted = wire.idToken.algorithms
        if isOpenID {
            if known.idTokenAlgorithms == nil {
                lack("id_token_signing_alg_values_supported", "is not there")
            } else if profile != nil, !accepted.contains(where: { $0.isListed(in: known.idTokenAlgorithms ?? []) }) {
                lack(
                    "id_token_signing_alg_values_supported",
                    "lists none of \(accepted.map(\.rawValue).joined(separator: ", "))")
            }
        }
        if client.profile.senderConstraint == .mtls, !known.bindsToCertificates {
            lack("tls_client_certificate_bound_access_tokens", "is not true")
        }
        return results
    }

    /// Pushes one authorization request, which is never used, for each client with a profile or bound tokens.
    ///
    /// Clients with `par: off` are left out.
    func pushUnopened(_ signer: any ProofSigner, openID: Bool) async -> [ProbeResult] {
        var results: [ProbeResult] = []
        for client in settings.clients
        where client.wire.pushedAuthorization != .off
            && (client.wire.profile != nil || client.profile.senderConstraint != .off)
        {
            let place = "client `\(client.profile.name.text)`"
            do {
                let givesNonces = try await pushOnce(client, signer, openID: openID)
                let nonces = givesNonces ? "the server gives nonces" : "the server gives no nonces"
                results.append(
                    ProbeResult(
                        subject: "par", isGood: true,
                        text: "\(place): a request that nobody opens was taken: client authentication and clock are in "
                            + "order; \(nonces)"))
            } catch {
                let detail = (error as? ProviderFailure)?.detail ?? "no proof can be made"
                results.append(
                    ProbeResult(
                        subject: "par", isGood: false,
                        text: "\(place): its pushed request is refused: \(detail); check `auth`, what is registered "
                            + "for the client, its redirect URIs and the clock"))
            }
        }
        return results
    }

    /// Pushes a request that is never used; returns whether the server issued a nonce, and throws the server's refusal.
    private func pushOnce(
        _ settings: ClientSettings, _ signer: any ProofSigner, openID: Bool
    ) async throws -> Bool {
        let client = try client(settings.profile.name)
        guard let redirect = settings.profile.redirectURIs.first else { return false }
        let proof =
            settings.profile.senderConstraint == .dpop
            ? ProofMaker(try signer.proofKeyPair(seed: try signer.random(32)), signer, clock) : nil
        func secret() throws -> Secret { Secret(Base64URL.encode(try random(32))) }
        let challenge = Base64URL.encode(SHA256.hash(data: try secret().bytes()))
        let request = AuthorizationRequest(
            client: settings.profile.name, redirectURI: redirect, state: try secret(),
            nonce: settings.profile.nonce ? try secret() : nil,
            codeChallenge: settings.profile.pkce == .required ? challenge : nil, scope: settings.profile.scope,
            proof: proof)
        let metadata = try await metadata(for: client)
        _ = try await push(
            AuthorizationURL.parameters(request, client: client, openID: openID),
            provedBy: settings.wire.dpop.par == .proof ? proof : nil, client: client, metadata: metadata,
            by: caller.ownLimit)
        guard let proof, let endpoint = metadata.pushedAuthorization else { return false }
        let place = call(provedBy: proof, at: endpoint, client: client, .authorization).place
        return nonces.newest(at: place) != nil
    }
}

extension OIDCClient: RequestPushing {
    package func pushUnopened(_ signer: any ProofSigner) async -> [ProbeResult] {
        await engine.pushUnopened(signer, openID: true)
    }
}

extension OAuth2Client: RequestPushing {
    package func pushUnopened(_ signer: any ProofSigner) async -> [ProbeResult] {
        await engine.pushUnopened(signer, openID: false)
    }
}
