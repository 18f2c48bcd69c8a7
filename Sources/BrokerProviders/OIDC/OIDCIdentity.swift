import Broker

/// Makes an identity of a verified id_token, with userinfo where the configuration asks for it.
enum OIDCIdentity {
    static func make(
        _ claims: JSONObject, tokens: TokenSet, context: IdentityContext, client: EngineClient, engine: OAuthEngine,
        by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let settings = client.wire.identity
        var source = claims
        if settings.source == .userinfo || settings.source == .api {
            let metadata = try await engine.metadata()
            guard let url = settings.url ?? metadata.userinfo else {
                throw .unusable(detail: "no userinfo endpoint is known")
            }
            source = try await engine.resource(
                url, method: settings.method, token: tokens.accessToken, client: client, by: deadline)
            // Somebody else's userinfo must not dress this subject (SEC-32).
            let own = claims["sub"]?.string ?? ""
            guard settings.source == .api || source["sub"]?.string?.hasBytes(of: own) == true else {
                throw .identityRejected(detail: "userinfo: sub is not the id_token's")
            }
        }
        return try identity(claims, dressedBy: source, context: context, client: client)
    }

    /// Makes an identity of verified claims alone.
    ///
    /// `subject` is where they say who it is, and `names` what is kept of them.
    static func identity(
        _ claims: JSONObject, dressedBy source: JSONObject, context: IdentityContext, client: EngineClient,
        subject: String? = nil, names: [(name: String, pointer: String)]? = nil
    ) throws(ProviderFailure) -> ProviderIdentity {
        let settings = client.wire.identity
        let wanted = names ?? settings.claims ?? IdentitySettings.standardClaims
        var mapped = IdentityMapper.claims(source, wanted)
        let known = Set(mapped.map(\.name))
        mapped += IdentityMapper.claims(claims, wanted.filter { !known.contains($0.name) })
        let signIn = SignInID.read(claims["sid"])
        var identity = ProviderIdentity(
            subject: try IdentityMapper.subject(claims, at: subject ?? settings.subject ?? "/sub"), claims: mapped,
            unverified: IdentityMapper.unverified(context, keeping: client.profile.callbackParameters),
            authenticatedAt: claims["auth_time"]?.double.flatMap { Int64(exactly: $0.rounded(.down)) })
        if case .id(let text) = signIn { identity.sid = text }
        identity.sidIsUnusable = signIn == .unusable
        return identity
    }
}
