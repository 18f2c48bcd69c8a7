import Broker

extension OAuthEngine {
    /// Verifies an id_token of this provider: first the signature with the issuer's keys, then every claim.
    func verifiedIDToken(
        _ text: Secret, client: EngineClient, _ expected: IDTokenRules.Expectation
    ) async throws(ProviderFailure) -> JSONObject {
        let settings = client.wire.idToken
        let token = try CompactToken(
            text.reveal(), allowed: settings.algorithms, types: ["jwt"], bounds: .answered)
        try await keys.verify(token)
        let rules = IDTokenRules(
            issuer: self.settings.issuer ?? "", clientID: client.settings.clientID, settings: settings)
        try rules.check(token, expected, now: clock.now())
        return token.claims
    }

    /// Returns the demands on the sign-in, from the login and the configuration.
    ///
    /// For a step-up, the demanded age and `acr` are left out here, because the broker checks them later
    /// (`StepUpDemand.isMet`).
    func demands(_ context: IdentityContext, _ client: EngineClient) -> SignInDemands {
        guard let asked = context.demands else { return SignInDemands() }
        var demands = asked.under(SignInDemands(client.wire.authorizationParameters))
        if context.isStepUp { (demands.maximumAge, demands.contextClasses) = (nil, []) }
        return demands
    }

    /// Calls an API with the access token and returns the answer's object.
    ///
    /// The value at the pointer `subject` identifies the user. The signature of a signed answer is verified (SEC-32).
    ///
    /// `again` permits a second call, because some providers recognise a token only a moment after they issued it.
    func resource(
        _ url: EndpointURL, method: String = "GET", token: Secret, provedBy proof: ProofMaker? = nil,
        subject: String, again: SecondRead? = nil, client: EngineClient, by deadline: Duration
    ) async throws(ProviderFailure) -> JSONObject {
        let answer = try await call(
            url, method: method, token: token, provedBy: proof, again: again, client: client, by: deadline)
        if answer.mediaType == "application/jwt" { return try await signedObject(answer, client: client) }
        let object: JSONObject
        do throws(JSONFailure) { object = try answer.parsedObject(mendingTexts: true) } catch {
            throw .identityRejected(detail: "identity: \(answer.summary), \(error.words)")
        }
        if object.halvedTexts.keys.contains(where: { $0 == "/error" || $0.hasPrefix("/error/") }) {
            throw .identityRejected(detail: "identity: half a surrogate pair in error")
        }
        let saysNone = object["error"].map { OAuthErrorParser.saysNone($0, client.wire.identity.noErrors) } ?? true
        if saysNone, object.present("error") != nil, object.value(at: subject).map({ $0.isNull }) ?? true {
            throw .identityRejected(detail: "identity: an error that says none, and no subject")
        }
        let code = OAuthErrorParser.code(in: object, isFailure: false, ignoringError: saysNone)
        if !saysNone || code != nil {
            throw .identityRejected(detail: "identity: \(code ?? "an error of no known form")")
        }
        return object
    }

    /// The pause before a new token is sent a second time.
    private static var secondReadPause: Duration { .milliseconds(500) }

    /// Calls an API with the access token; throws `identityRejected` if the API refuses the token.
    ///
    /// Some providers recognise a token only a moment after they issued it. So the API is called a second time if it refuses
    /// the token, `again` permits a second call, and enough time is left (decision 80).
    func call(
        _ url: EndpointURL, method: String = "GET", token: Secret, provedBy proof: ProofMaker? = nil,
        again: SecondRead? = nil, client: EngineClient, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderAnswer {
        var answer = try await send(
            url, method: method, token: token, provedBy: proof, client: client, by: deadline)
        if [401, 403, 404].contains(answer.status), let again,
            clock.monotonic() + Self.secondReadPause + .seconds(1) < deadline, again.take()
        {
            do { try await clock.sleep(Self.secondReadPause) } catch { throw .lost(detail: "the process ends") }
            answer = try await send(
                url, method: method, token: token, provedBy: proof, client: client, by: deadline)
        }
        try answer.requireUsable(at: clock.now())
        guard answer.isSuccess else {
            throw .identityRejected(detail: "identity: \(answer.summary)", refusesToken: answer.status == 401)
        }
        return answer
    }

    private func send(
        _ url: EndpointURL, method: String, token: Secret, provedBy proof: ProofMaker?, client: EngineClient,
        by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderAnswer {
        var request = ProviderRequest.get(url)
        request.method = method
        if method != "GET" { request.body = [] }
        let scheme = proof == nil ? "Bearer " : "DPoP "
        request.headers += [("Authorization", scheme + token.reveal())] + client.wire.tokenRequest.headers
        let answer: ProviderAnswer
        if let proof {
            let call = call(provedBy: proof, at: url, client: client, .resource)
            request.fresh = { [try call.field(method, url, token: token)] }
            answer = try await sending(call) { [request] () async throws(ProviderFailure) -> ProviderAnswer in
                let answer = try await client.caller.send(request, by: deadline)
                call.heard(answer)
                return answer
            }
        } else {
            answer = try await client.caller.send(request, by: deadline)
        }
        try client.requireCertificate(answer)
        return answer
    }

    private func signedObject(
        _ answer: ProviderAnswer, client: EngineClient
    ) async throws(ProviderFailure) -> JSONObject {
        guard let text = String(validating: answer.body, as: UTF8.self) else {
            throw .identityRejected(detail: "userinfo is no token")
        }
        let token = try CompactToken(
            text.filter { !$0.isWhitespace }, allowed: client.wire.idToken.algorithms, types: ["jwt"],
            bounds: .answered)
        try await keys.verify(token)
        // If signed userinfo names an issuer or an audience, these must be the provider's issuer and this client (OpenID
        // Connect Core 5.3.2).
        if let issuer = token.claims.present("iss"), issuer.string?.hasBytes(of: settings.issuer ?? "") != true {
            throw .identityRejected(detail: "userinfo: iss is not the issuer")
        }
        if let audience = token.claims.present("aud") {
            let all = audience.string.map { [$0] } ?? audience.array?.compactMap(\.string) ?? []
            guard all.contains(where: { $0.hasBytes(of: client.settings.clientID) }) else {
                throw .identityRejected(detail: "userinfo: aud is not this client")
            }
        }
        return token.claims
    }

    /// Returns the claims, with the verified primary e-mail address from a list such as GitHub's.
    ///
    /// A user may hide the address at the provider, so the claims stay unchanged if the list has no verified primary address.
    /// But if the list marks the address in the claims as unverified, that address counts as unverified.
    func withPrimaryEmail(
        _ claims: [(name: String, value: JSONValue)], from url: EndpointURL, token: Secret,
        provedBy proof: ProofMaker? = nil, client: EngineClient, by deadline: Duration
    ) async -> [(name: String, value: JSONValue)] {
        guard let answer = try? await call(url, token: token, provedBy: proof, client: client, by: deadline),
            let result = try? JSONParser.parse(answer.text, maximumBytes: 65_536, maximumDepth: 4),
            let entries = result.value.array?.compactMap(\.object)
        else { return claims }
        func isVerified(_ entry: JSONObject) -> Bool { entry["verified"].map(EmailVerdict.isVerified) ?? false }
        let others = claims.filter { $0.name != "email" && $0.name != "email_verified" }
        if let primary = entries.first(where: { $0["primary"]?.bool == true && isVerified($0) }),
            let email = primary["email"]?.string, email.utf8.count <= 320
        {
            return others + [("email", .string(email)), ("email_verified", .bool(true))]
        }
        guard let own = claims.first(where: { $0.name == "email" })?.value.string,
            entries.contains(where: { $0["email"]?.string?.hasBytes(of: own) == true && !isVerified($0) })
        else { return claims }
        return others + [("email", .string(own)), ("email_verified", .bool(false))]
    }
}

extension OAuthEngine {
    /// The greatest age of an id_token from an app, even if the configuration permits a greater age.
    ///
    /// The broker keeps the record of a used id_token for a day. When the record is deleted, the token is already too old to
    /// be used again.
    private static let longestAge = Duration.seconds(43_200)

    /// Verifies an id_token that an app got from one of the provider's SDKs, and returns its claims.
    ///
    /// A stranger may have made the token. Therefore the bucket that limits fetches of newer keys for such tokens is separate
    /// from the bucket for logins.
    func verified(
        _ handed: HandedIDToken, issuer: String, client: EngineClient, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> JSONObject {
        var settings = client.wire.idToken
        settings.maximumAge = min(settings.maximumAge, Self.longestAge)
        let token = try CompactToken(handed.token.reveal(), allowed: settings.algorithms, types: ["jwt"])
        var rules = IDTokenRules(issuer: issuer, clientID: client.settings.clientID, settings: settings)
        rules.otherClientIDs = client.settings.trustedAudiences
        // Check the claims first, so that a token for another client costs no signature check or fetch of keys.
        try rules.check(
            token,
            IDTokenRules.Expectation(
                nonce: .rawOrSHA256(handed.nonce), accessToken: nil, demands: SignInDemands(), isFresh: true),
            now: clock.now())
        try await keys.verify(token, for: .anybody, mayFetch: mayFetchKeys)
        return token.claims
    }
}
