import Broker
import Crypto

extension OAuthEngine {
    /// The longest time that a refresh waits for a new nonce before its own call.
    private static var primingLimit: Duration { .seconds(5) }

    /// Returns a call with DPoP proofs; `role` is whether the called server is the authorization server or a resource.
    func call(
        provedBy proof: ProofMaker, at url: EndpointURL, client: EngineClient, _ role: ProofNonces.Role,
        repeating nonce: String? = nil, confirms: Bool = false
    ) -> ProvenCall {
        let place = ProofNonces.Place(
            provider: profile.name, client: client.profile.name, origin: ProofAddress(url.text)?.origin ?? url.text,
            role: role)
        return ProvenCall(proof, at: place, nonces, clock, repeating: nonce, confirms: confirms)
    }

    /// Makes a call, and repeats the whole call one time if the server asks for another nonce.
    func sending(
        _ call: ProvenCall, _ send: () async throws(ProviderFailure) -> ProviderAnswer
    ) async throws(ProviderFailure) -> ProviderAnswer {
        while true {
            let answer = try await send()
            guard try call.asksAgain(answer) else { return answer }
        }
    }

    /// Posts parameters with the client's authentication, and with a DPoP proof if a key is given.
    func post(
        _ parameters: [(name: String, value: String)], to url: EndpointURL, as endpoint: ClientAuthenticator.Endpoint,
        client: EngineClient, provedBy proof: ProofMaker?, idempotencyKey: String? = nil, target: TokenTarget? = nil,
        by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderAnswer {
        guard let proof else {
            let headers = idempotencyKey.map { idempotency($0, client) } ?? []
            return try await post(
                parameters, to: url, as: endpoint, client: client, headers: headers, target: target, by: deadline)
        }
        let call = call(provedBy: proof, at: url, client: client, .authorization)
        return try await sending(call) { () async throws(ProviderFailure) -> ProviderAnswer in
            let exchange = call.exchange
            // The idempotency key depends on the nonce. If the repeated call had the first call's key, a server could return
            // the refusal that it stored for the first call.
            let headers = idempotencyKey.map { key in
                idempotency(exchange.sent.map { IdempotencyKey.again(key, nonce: $0) } ?? key, client)
            }
            return try await post(
                parameters, to: url, as: endpoint, client: client, headers: headers ?? [], target: target,
                proving: call,
                by: deadline)
        }
    }

    /// Makes a refresh call with DPoP proofs; requests a nonce first if the refresh token should not be sent without a fresh
    /// nonce.
    ///
    /// With `recovering`, the call confirms an earlier refresh whose result is unknown:
    /// - If the last request of that refresh got no answer, the call repeats its nonce and its idempotency key.
    /// - If that request was answered with a demand for another nonce, and its repeat was not sent, the call gets a new key.
    func proven(
        _ request: RefreshRequest, _ proof: ProofMaker, at url: EndpointURL, client: EngineClient,
        by deadline: Duration
    ) async throws(ProviderFailure) -> (answer: ProviderAnswer, exchange: NonceExchange) {
        let checksFirst = client.wire.dpop.nonceBeforeSpending == .yes
        let last = request.recovering ? request.sending.last : nil
        if request.usesNonces, last == nil, !checksFirst { await prime(proof, at: url, client: client, by: deadline) }
        let call = call(
            provedBy: proof, at: url, client: client, .authorization, repeating: last?.nonce,
            confirms: request.recovering)
        let asksAnew = request.recovering && request.sending.isAnswered
        do throws(ProviderFailure) {
            let answer = try await sending(call) { () async throws(ProviderFailure) -> ProviderAnswer in
                let exchange = call.exchange
                if exchange.isRepeated, !checksFirst { request.sending.markMayBeSpent() }
                // A server that replays answers returns the stored answer for a key that it knows. A call after a lost answer
                // needs the stored answer, so it has the earlier key. A call after a refused nonce needs a new answer, so it
                // gets a new key.
                let key =
                    last?.idempotencyKey
                    ?? (exchange.isRepeated || asksAnew
                        ? IdempotencyKey.again(request.callKey, nonce: exchange.sent) : request.callKey)
                request.sending.markSending(nonce: exchange.sent, idempotencyKey: key)
                let answer = try await post(
                    [("grant_type", "refresh_token"), ("refresh_token", request.refreshToken.reveal())], to: url,
                    as: .token, client: client, headers: idempotency(key, client), target: request.target,
                    proving: call, by: deadline)
                request.sending.markAnswered()
                return answer
            }
            return (answer, call.exchange)
        } catch {
            // The server may have spent the token before it refused the nonce, and the repeated call was not sent. So it is
            // unknown whether the token is still valid.
            if case .notSent(let detail) = error, call.exchange.isRepeated, !checksFirst {
                throw .lost(detail: detail)
            }
            throw error
        }
    }

    /// Gets a new nonce by a pushed authorization request that is never used; makes no request if a fresh nonce is known.
    ///
    /// If the request fails, the refresh continues without a new nonce.
    private func prime(_ proof: ProofMaker, at url: EndpointURL, client: EngineClient, by deadline: Duration) async {
        // If the last calls failed, send no pushed request. It shares the breaker with the refresh, and the refresh should be
        // the breaker's probe.
        guard caller.limiter.failuresInARow == 0, client.wire.dpop.par == .proof,
            let par = try? await metadata(for: client).pushedAuthorization,
            let redirect = client.profile.redirectURIs.first, let state = try? random(32),
            let verifier = try? random(32)
        else { return }
        let call = call(provedBy: proof, at: par, client: client, .authorization)
        // A nonce is valid only at one origin. So send no pushed request if its endpoint and the token endpoint have different
        // origins.
        guard call.place == self.call(provedBy: proof, at: url, client: client, .authorization).place,
            !nonces.isFresh(at: call.place, within: client.wire.dpop.nonceAge, moment: clock.monotonic())
        else { return }
        let request = AuthorizationRequest(
            client: client.profile.name, redirectURI: redirect, state: Secret(Base64URL.encode(state)), nonce: nil,
            codeChallenge: client.profile.pkce == .required ? Base64URL.encode(SHA256.hash(data: verifier)) : nil,
            scope: client.profile.scope, proof: proof)
        // One call is enough, because a refusal contains a new nonce, too.
        _ = try? await post(
            AuthorizationURL.parameters(request, client: client, openID: profile.kind == .oidc), to: par,
            as: .pushedAuthorization, client: client, proving: call,
            by: min(deadline, clock.monotonic() + Self.primingLimit))
    }

    /// Returns the tokens together with the key that they are bound to.
    func keyed(_ tokens: TokenSet, by proof: ProofMaker, at url: EndpointURL, client: EngineClient) -> TokenSet {
        var tokens = tokens
        let place = call(provedBy: proof, at: url, client: client, .authorization).place
        tokens.key = TokenKey(pair: proof.key, usesNonces: nonces.newest(at: place) != nil)
        return tokens
    }
}

/// The idempotency key of a repeated call (Cloudentity's `X-Idempotency-Key`).
enum IdempotencyKey {
    /// Returns the key for a call that is made again with another nonce.
    ///
    /// Refreshes for several APIs need different keys, too. If two such calls had the same key, a server that replays answers
    /// would return the first API's token for the second call.
    static func again(_ key: String, nonce: String?) -> String {
        Base64URL.encode(SHA256.hash(data: Array("\(key).\(nonce ?? "")".utf8)))
    }
}
