import Broker

extension OAuthEngine {
    /// Redeems a code with one call, which is repeated only if the server asks for another DPoP nonce.
    ///
    /// With `verifiesIDToken`, the provider's keys are fetched first. If the keys cannot be fetched, the code stays unspent.
    func redeem(
        _ grant: CodeGrant, verifiesIDToken: Bool, by deadline: Duration
    ) async throws(ProviderFailure) -> TokenSet {
        let client = try client(grant.client)
        let endpoint = try await beforeSending { () async throws(ProviderFailure) -> EndpointURL in
            guard let url = try await metadata(for: client).usable(.token) else {
                throw .unusable(detail: "no token endpoint is known")
            }
            if verifiesIDToken { try await keys.warm() }
            return url
        }
        var pairs: [(name: String, value: String)] = [
            ("grant_type", "authorization_code"), ("code", grant.code.reveal()),
        ]
        switch grant.redirect {
        case .uri(let text): pairs.append(("redirect_uri", client.settings.redirectName ?? text))
        case .empty: pairs.append(("redirect_uri", ""))
        case .omitted: break
        }
        if let verifier = grant.verifier { pairs.append(("code_verifier", verifier.reveal())) }
        if grant.isOfOwnRequest { pairs += client.settings.targetResources.map { ("resource", $0) } }
        let answer = try await post(
            pairs, to: endpoint, as: .token, client: client, provedBy: grant.proof,
            idempotencyKey: grant.idempotencyKey, by: deadline)
        var tokens: TokenSet
        let binding = grant.proof == nil ? TokenAnswer.Binding.none : .demanded
        do throws(ProviderFailure) {
            tokens = try answers(client, binding: binding).read(answer, now: clock.now())
        } catch {
            // An empty body may mean a dead grant only in the answer to a refresh. In the answer to a code, an empty body
            // violates the protocol.
            if case .rejected(let refusal) = error, refusal.isEmpty {
                throw .unusable(detail: "token answer: \(answer.summary), no object")
            }
            throw error
        }
        if let proof = grant.proof {
            if tokens.credential == .dpop {
                tokens = keyed(tokens, by: proof, at: endpoint, client: client)
            } else {
                // A client that requires bound tokens must discard unbound ones (RFC 9449 section 5).
                tokens.refusal = tokens.refusal ?? "token answer: not bound to our key, its token_type is not DPoP"
            }
        }
        tokens = client.bound(tokens)
        let required = client.wire.requiredScope
        // Other code may assume that an answer without a scope grants the requested scope. But each scope of `required_scope`
        // must be named in the answer.
        if !required.isEmpty, tokens.refusal == nil, !required.allSatisfy((tokens.scope ?? []).contains) {
            tokens.refusal = "token answer: a required scope was not granted"
        }
        if tokens.refusal != nil, tokens.accessToken.reveal().isEmpty, tokens.refreshToken == nil {
            throw .unusable(detail: tokens.refusal ?? "")
        }
        return tokens
    }

    /// Makes one refresh call (RFC 6749 section 6).
    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let client = try client(request.client)
        guard client.wire.refresh != .none else { throw .notSent(detail: "this client does not refresh") }
        let endpoint = try await beforeSending { () async throws(ProviderFailure) -> EndpointURL in
            let metadata = try await metadata(for: client)
            if let url = metadata.refresh { return url }
            guard let url = try metadata.usable(.token) else { throw .unusable(detail: "no token endpoint is known") }
            return url
        }
        if let proof = request.proof {
            return try await refresh(request, provedBy: proof, at: endpoint, client: client, by: deadline)
        }
        let answer = try await post(
            [("grant_type", "refresh_token"), ("refresh_token", request.refreshToken.reveal())], to: endpoint,
            as: .token, client: client, headers: idempotency(request.callKey, client), target: request.target,
            by: deadline)
        return client.bound(
            try refreshed(answer, request, answers(client)), isCertified: request.isCertified)
    }

    /// Parses the answer to a refresh.
    ///
    /// For an import, an unusable answer has another meaning (`ProviderAnswer.importFailure`).
    private func refreshed(
        _ answer: ProviderAnswer, _ request: RefreshRequest, _ answers: TokenAnswer
    ) throws(ProviderFailure) -> TokenSet {
        do throws(ProviderFailure) { return try answers.refreshed(answer, request.target, now: clock.now()) } catch {
            throw request.isImport ? answer.importFailure(error, at: clock.now()) : error
        }
    }

    /// Makes the refresh call with DPoP proofs of a key.
    ///
    /// If the tokens have to be bound and the new access token is unbound, the access token is removed. The new refresh token
    /// is kept, because it may be the only valid refresh token.
    private func refresh(
        _ request: RefreshRequest, provedBy proof: ProofMaker, at endpoint: EndpointURL, client: EngineClient,
        by deadline: Duration
    ) async throws(ProviderFailure) -> TokenSet {
        let (answer, exchange) = try await proven(request, proof, at: endpoint, client: client, by: deadline)
        let answers = answers(client, binding: request.isBound ? .demanded : .offered)
        do throws(ProviderFailure) {
            var tokens = try refreshed(answer, request, answers)
            if tokens.credential == .dpop { return keyed(tokens, by: proof, at: endpoint, client: client) }
            if request.isBound {
                tokens.accessToken = Secret("")
                tokens.expiresAt = nil
                return tokens
            }
            return client.bound(tokens, isCertified: request.isCertified)
        } catch {
            guard case .rejected(var refusal) = error else { throw error }
            // A client that requires bound tokens would discard the unbound tokens of an import.
            if refusal.code == "invalid_dpop_proof", !request.isBound, !request.isImport {
                return try await bare(request, at: endpoint, client: client, by: deadline)
            }
            refusal.isOfOldProof = exchange.isOutdated
            throw .rejected(refusal)
        }
    }

    /// Makes the refresh call without a DPoP proof, for unbound tokens.
    ///
    /// Some servers never bind a grant that began unbound, and refuse a proof that comes with the grant's refresh token. If
    /// this call is refused, the grant may still be valid. The server may require a proof, and may have refused the proof of
    /// the preceding call because of a wrong clock.
    private func bare(
        _ request: RefreshRequest, at endpoint: EndpointURL, client: EngineClient, by deadline: Duration
    ) async throws(ProviderFailure) -> TokenSet {
        let isSpentPerhaps = client.wire.dpop.nonceBeforeSpending != .yes
        if isSpentPerhaps { request.sending.markMayBeSpent() }
        let key = IdempotencyKey.again(request.callKey, nonce: nil)
        request.sending.markSending(nonce: nil, idempotencyKey: key)
        request.sending.markBare()
        let answer: ProviderAnswer
        do throws(ProviderFailure) {
            answer = try await post(
                [("grant_type", "refresh_token"), ("refresh_token", request.refreshToken.reveal())], to: endpoint,
                as: .token, client: client, headers: idempotency(key, client), target: request.target, by: deadline)
        } catch {
            if case .notSent(let detail) = error, isSpentPerhaps { throw .lost(detail: detail) }
            throw error
        }
        request.sending.markAnswered()
        do throws(ProviderFailure) {
            return client.bound(
                try answers(client).refreshed(answer, request.target, now: clock.now()),
                isCertified: request.isCertified)
        } catch { throw error.doubted(.noProof) }
    }

    /// Returns the header field with the idempotency key, or no field if the setting is off.
    ///
    /// Cloudentity accepts keys of 32 to 255 characters, so a key of another length is left out.
    func idempotency(_ key: String, _ client: EngineClient) -> [(name: String, value: String)] {
        client.wire.tokenRequest.idempotencyKey && (32...255).contains(key.utf8.count)
            ? [("X-Idempotency-Key", key)] : []
    }
}
