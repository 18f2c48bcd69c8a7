import Broker
import Crypto

extension OAuthEngine {
    /// The most that a refresh waits for its nonce.
    private static var primingLimit: Duration { .seconds(5) }

    /// Returns a call with proofs at a server, by the side of it that is called.
    func call(
        provedBy proof: ProofMaker, at url: EndpointURL, client: EngineClient, _ role: ProofNonces.Role,
        repeating nonce: String? = nil, confirms: Bool = false
    ) -> ProvenCall {
        let place = ProofNonces.Place(
            provider: profile.name, client: client.profile.name, origin: ProofAddress(url.text)?.origin ?? url.text,
            role: role)
        return ProvenCall(proof, at: place, nonces, clock, repeating: nonce, confirms: confirms)
    }

    /// Makes a call, and all of it once more where its server asks for another nonce.
    func sending(
        _ call: ProvenCall, _ send: () async throws(ProviderFailure) -> ProviderAnswer
    ) async throws(ProviderFailure) -> ProviderAnswer {
        while true {
            let answer = try await send()
            guard try call.asksAgain(answer) else { return answer }
        }
    }

    /// Posts parameters with the client's proof, and with that of a key where there is one.
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
            // By its nonce: a later try at this call, under the first one's key, would be answered by what refused that.
            let headers = idempotencyKey.map { key in
                idempotency(exchange.sent.map { IdempotencyKey.again(key, nonce: $0) } ?? key, client)
            }
            return try await post(
                parameters, to: url, as: endpoint, client: client, headers: headers ?? [], target: target,
                proving: call,
                by: deadline)
        }
    }

    /// Makes a refresh call with proofs: first what brings a nonce, where the refresh token is better not sent without.
    ///
    /// A confirming call repeats nonce and idempotency key of a sending whose answer was lost; after one that was heard it
    /// asks anew.
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
                if exchange.isRepeated, !checksFirst { request.sending.spendsPerhaps() }
                // Under the first one's key, whoever answers repeated keys would repeat the refusal; and what was lost.
                let key =
                    last?.idempotencyKey
                    ?? (exchange.isRepeated || asksAnew
                        ? IdempotencyKey.again(request.callKey, nonce: exchange.sent) : request.callKey)
                request.sending.begins(nonce: exchange.sent, idempotencyKey: key)
                let answer = try await post(
                    [("grant_type", "refresh_token"), ("refresh_token", request.refreshToken.reveal())], to: url,
                    as: .token, client: client, headers: idempotency(key, client), target: request.target,
                    proving: call, by: deadline)
                request.sending.isHeard()
                return answer
            }
            return (answer, call.exchange)
        } catch {
            // Refused for its nonce it may be spent, and of its repeat nobody knows.
            if case .notSent(let detail) = error, call.exchange.isRepeated, !checksFirst {
                throw .lost(detail: detail)
            }
            throw error
        }
    }

    /// Has a server give a nonce by a pushed request that is never opened, where there is none that is fresh.
    ///
    /// The refresh goes on, whatever becomes of it.
    private func prime(_ proof: ProofMaker, at url: EndpointURL, client: EngineClient, by deadline: Duration) async {
        // One that is down takes no refresh with it: the breaker is shared, and the refresh itself is the probe.
        guard caller.limiter.failuresInARow == 0, client.wire.dpop.par == .proof,
            let par = try? await metadata(for: client).pushedAuthorization,
            let redirect = client.profile.redirectURIs.first, let state = try? random(32),
            let verifier = try? random(32)
        else { return }
        let call = call(provedBy: proof, at: par, client: client, .authorization)
        // A nonce of another origin is none of this one's.
        guard call.place == self.call(provedBy: proof, at: url, client: client, .authorization).place,
            !nonces.isFresh(at: call.place, within: client.wire.dpop.nonceAge, moment: clock.monotonic())
        else { return }
        let request = AuthorizationRequest(
            client: client.profile.name, redirectURI: redirect, state: Secret(Base64URL.encode(state)), nonce: nil,
            codeChallenge: client.profile.pkce == .required ? Base64URL.encode(SHA256.hash(data: verifier)) : nil,
            scope: client.profile.scope, proof: proof)
        // Once: a refusal brings the nonce as an acceptance does.
        _ = try? await post(
            AuthorizationURL.parameters(request, client: client, openID: profile.kind == .oidc), to: par,
            as: .pushedAuthorization, client: client, proving: call,
            by: min(deadline, clock.monotonic() + Self.primingLimit))
    }

    /// Returns the tokens with the key that they are bound to.
    func keyed(_ tokens: TokenSet, by proof: ProofMaker, at url: EndpointURL, client: EngineClient) -> TokenSet {
        var tokens = tokens
        let place = call(provedBy: proof, at: url, client: client, .authorization).place
        tokens.key = TokenKey(pair: proof.key, usesNonces: nonces.newest(at: place) != nil)
        return tokens
    }
}

/// The key that a repeated call is known by (Cloudentity's `X-Idempotency-Key`).
enum IdempotencyKey {
    /// Returns the key of a call that is made anew with another nonce.
    ///
    /// So is one for another API: whoever answers repeated keys would give the first one's token.
    static func again(_ key: String, nonce: String?) -> String {
        Base64URL.encode(SHA256.hash(data: Array("\(key).\(nonce ?? "")".utf8)))
    }
}
