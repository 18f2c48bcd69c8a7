package import Broker

/// A provider of kind `clever`.
///
/// Clever has no calls for refreshing and revoking.
package struct CleverClient: EngineBacked, CodeExchanging, TokenImporting {
    package let engine: OAuthEngine
    let own: CleverSettings
    private let api: EndpointURL?
    package var probesKeys: Bool { own.openID }

    init(_ settings: ProviderSettings, _ own: CleverSettings, environment: ProviderEnvironment) throws {
        let wired = CleverWire.settings(settings, own)
        var engine = try OAuthEngine(wired, environment: environment)
        engine.dialect = CleverWire.dialect
        self.engine = engine
        self.own = own
        api = wired.endpoints.api
    }

    package func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        var start = try await engine.start(request, openID: false, by: deadline)
        if let version = try engine.client(request.client).settings.appStart {
            start.appURL = Secret(CleverWire.appURL(start.url.reveal(), sdkVersion: version))
        }
        return start
    }

    package func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await engine.redeem(grant, verifiesIDToken: own.openID, by: deadline)
    }

    package func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(context.client)
        let unverified = IdentityMapper.unverified(context, keeping: client.profile.callbackParameters)
        if own.openID {
            let (subject, claims) = try await openIDIdentity(tokens, context, client, by: deadline)
            return ProviderIdentity(subject: subject, claims: claims, unverified: unverified)
        }
        let me = try await get("/v3.0/me", tokens, client, again: context.secondRead, by: deadline)
        return try await person(me, tokens, client, unverified, again: context.secondRead, by: deadline)
    }

    private func person(
        _ me: JSONObject, _ tokens: TokenSet, _ client: EngineClient, _ unverified: [(name: String, value: JSONValue)],
        again: SecondRead? = nil, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let id = try CleverIdentity.id(me)
        let person = try await get(CleverIdentity.profilePath(me, id: id), tokens, client, again: again, by: deadline)
        guard try CleverIdentity.id(person) == id else {
            throw .identityRejected(detail: "Clever: the profile is another user's")
        }
        return ProviderIdentity(
            subject: id, claims: CleverIdentity.claims(me: me, profile: person), unverified: unverified)
    }

    package func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault? {
        if tokens.accessToken == nil { return FieldFault("/tokens/access_token", .required) }
        if tokens.idToken != nil { return FieldFault("/tokens/id_token", .notAllowed) }
        if tokens.refreshToken != nil { return FieldFault("/tokens/refresh_token", .notAllowed) }
        return tokens.merchantID.map { _ in FieldFault("/tokens/merchant_id", .notAllowed) }
    }

    /// Clever's `tokeninfo` only reports the token's owner.
    package var spendsImportedTokens: Bool { false }

    /// Asks Clever which application an app's imported access token was issued to.
    ///
    /// The token of another application is refused, even if this token can read the user's data.
    package func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let client = try engine.client(request.client)
        guard let url = engine.settings.endpoints.introspection, let posted = request.tokens.accessToken else {
            throw .notSent(detail: "Clever: the access token or the address of tokeninfo is missing")
        }
        var asked = ProviderRequest.get(url)
        asked.headers += [("Authorization", "Bearer " + posted.reveal())]
        asked.headers += client.wire.tokenRequest.headers
        let answer: ProviderAnswer
        do throws(ProviderFailure) { answer = try await engine.caller.send(asked, by: deadline) } catch {
            // The introspection call only reads, so it may be repeated after a lost answer.
            if case .lost(let detail) = error { throw .retryable(status: 0, retryAfter: nil, detail: detail) }
            throw error
        }
        // Clever refuses dead tokens with 401. Any other 4xx may be the page of a firewall.
        if answer.status == 401 {
            throw .rejected(OAuthError(status: answer.status, code: "invalid_grant", isNamed: false))
        }
        guard answer.isSuccess, answer.fault == nil, let owner = answer.object?["client_id"]?.string else {
            // The call only asks about the token, so it may be repeated after any unusable answer.
            throw .retryable(
                status: answer.status, retryAfter: answer.retryAfter(at: engine.clock.now()),
                detail: "tokeninfo: \(answer.summary), no client_id")
        }
        // The operator may have configured the wrong application, so the user stays signed in.
        guard owner.hasBytes(of: client.settings.clientID) else {
            throw .rejected(OAuthError(status: answer.status, code: "unauthorized_client", isNamed: false))
        }
        // The token's age is unknown, so assume the latest possible end, which is one full lifetime from now.
        return TokenSet(
            accessToken: posted, expiresAt: engine.clock.now().advanced(by: own.defaultLifetime))
    }

    /// Reads the user from `/me`, even if OpenID Connect is on, because imported tokens have no id_token.
    ///
    /// Both `/me` and an id_token name the same user id.
    package func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(context.client)
        let me = try await get("/v3.0/me", tokens, client, by: deadline)
        return try await person(me, tokens, client, [], by: deadline)
    }

    private func openIDIdentity(
        _ tokens: TokenSet, _ context: IdentityContext, _ client: EngineClient, by deadline: Duration
    ) async throws(ProviderFailure) -> (String, [(name: String, value: JSONValue)]) {
        guard let idToken = tokens.idToken else { throw .identityRejected(detail: "the answer has no id_token") }
        let claims = try await engine.verifiedIDToken(
            idToken, client: client,
            IDTokenRules.Expectation(
                nonce: context.nonce, accessToken: tokens.accessToken, demands: engine.demands(context, client),
                isFresh: true))
        let subject = try IdentityMapper.subject(claims, at: "/sub", acceptsNumbers: false)
        let userinfo = try await get(
            "/userinfo", tokens, client, subject: "/sub", again: context.secondRead, by: deadline)
        guard userinfo["sub"]?.string?.hasBytes(of: subject) == true else {
            throw .identityRejected(detail: "userinfo: sub is not the id_token's")
        }
        return (subject, CleverIdentity.claims(userinfo: userinfo))
    }

    private func get(
        _ path: String, _ tokens: TokenSet, _ client: EngineClient, subject: String = "/data/id",
        again: SecondRead? = nil, by deadline: Duration
    ) async throws(ProviderFailure) -> JSONObject {
        guard let api else { throw .unusable(detail: "Clever: no API address") }
        return try await engine.resource(
            try api.at(path), token: tokens.accessToken, subject: subject, again: again, client: client, by: deadline)
    }
}

/// Reads the signed-in user from Clever's answers.
enum CleverIdentity {
    /// Returns the user's id from an answer of `/me` or of the profile.
    static func id(_ object: JSONObject) throws(ProviderFailure) -> String {
        try IdentityMapper.subject(object, at: "/data/id", acceptsNumbers: false)
    }

    /// Returns the path of the user's profile: the canonical link in the answer of `/me`, or else the path in version 3 of the
    /// API.
    ///
    /// The path is appended to the API's configured address. So only a plain path that ends with the user's id is accepted.
    static func profilePath(_ me: JSONObject, id: String) throws(ProviderFailure) -> String {
        let links = me["links"]?.array?.compactMap(\.object) ?? []
        let path = links.first { $0["rel"]?.string == "canonical" }?["uri"]?.string ?? "/v3.0/users/" + id
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        let isPlain = path.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: "/-_.".utf8.contains(byte)
            }
        }
        guard path.hasPrefix("/v"), path.utf8.count <= 256, isPlain, segments.count == 4, segments.last == id[...],
            !segments.dropFirst().contains(where: { $0.isEmpty || $0 == "." || $0 == ".." })
        else { throw .identityRejected(detail: "Clever: no usable canonical link") }
        return path
    }

    /// Returns the claims of `/me` and the profile: role, district, name and e-mail address.
    static func claims(me: JSONObject, profile: JSONObject) -> [(name: String, value: JSONValue)] {
        // The role is the member `type` or `/data/type` of `/me`, or else the first key of the profile's `/data/roles`. The
        // role `user` is ignored, because it is too general.
        let types = [me["type"], me.value(at: "/data/type")].compactMap { $0?.string }.filter { $0 != "user" }
        let role = types.first ?? profile.value(at: "/data/roles")?.object?.names.first
        var claims: [(name: String, value: JSONValue)] = role.map { [("role", .string($0))] } ?? []
        claims += IdentityMapper.claims(me, [("district", "/data/district")])
        claims += name(profile, at: "/data/name")
        return claims + IdentityMapper.claims(profile, [("email", "/data/email")])
    }

    /// Returns the claims of `/userinfo`, whose `name` may be an object.
    static func claims(userinfo: JSONObject) -> [(name: String, value: JSONValue)] {
        var claims = IdentityMapper.claims(userinfo, [("role", "/user_type"), ("district", "/district")])
        let names = name(userinfo, at: "/name")
        claims +=
            names.isEmpty
            ? IdentityMapper.claims(userinfo, [("given_name", "/given_name"), ("family_name", "/family_name")]) : names
        return claims
            + IdentityMapper.claims(userinfo, [("email", "/email"), ("email_verified", "/email_verified")])
    }

    private static func name(_ answer: JSONObject, at pointer: String) -> [(name: String, value: JSONValue)] {
        guard answer.value(at: pointer)?.object != nil else { return [] }
        func part(_ name: String) -> String? {
            let place = pointer + "/" + name
            let text = answer.halvedTexts[place] ?? answer.value(at: place)?.string
            return text.flatMap { $0.isEmpty || $0.utf8.count > 256 ? nil : $0 }
        }
        let whole = ["first", "middle", "last"].compactMap(part).joined(separator: " ")
        let parts = [("given_name", part("first")), ("family_name", part("last"))]
        return (whole.isEmpty ? [] : [("name", .string(whole))])
            + parts.compactMap { name, value in value.map { (name, .string($0)) } }
    }
}
