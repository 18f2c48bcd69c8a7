import Broker

/// Makes an identity from a verified id_token, and from userinfo if the configuration requires it.
enum OIDCIdentity {
    static func make(
        _ claims: JSONObject, tokens: TokenSet, context: IdentityContext, client: EngineClient, engine: OAuthEngine,
        by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let settings = client.wire.identity
        var source = claims
        if settings.source == .userinfo || settings.source == .api {
            let metadata = try await engine.metadata(for: client)
            guard let url = if let fixed = settings.url { fixed } else { try metadata.usable(.userinfo) } else {
                throw .unusable(detail: "no userinfo endpoint is known")
            }
            source = try await engine.resource(
                url, method: settings.method, token: tokens.accessToken, provedBy: context.proof,
                subject: settings.source == .api ? settings.subject ?? "/sub" : "/sub", again: context.secondRead,
                client: client, by: deadline)
            // Userinfo of another user must not be used for this subject (SEC-32).
            let own = claims["sub"]?.string ?? ""
            guard settings.source == .api || source["sub"]?.string?.hasBytes(of: own) == true else {
                throw .identityRejected(detail: "userinfo: sub is not the id_token's")
            }
        }
        return try identity(claims, dressedBy: source, context: context, client: client)
    }

    /// Makes an identity from verified claims and a source of further claims.
    ///
    /// The subject comes from the verified claims. Other claims come from `source`, or else from the verified claims.
    ///
    /// `source` is the answer of userinfo or an API, or the verified claims themselves. `subject` is the pointer to the user's
    /// id, and `names` are the claims to keep.
    static func identity(
        _ claims: JSONObject, dressedBy source: JSONObject, context: IdentityContext, client: EngineClient,
        subject: String? = nil, names: [(name: String, pointer: String)]? = nil
    ) throws(ProviderFailure) -> ProviderIdentity {
        let settings = client.wire.identity
        let wanted = names ?? settings.claims ?? IdentitySettings.standardClaims
        let mapped = IdentityMapper.merged(
            IdentityMapper.claims(source, wanted), with: IdentityMapper.claims(claims, wanted))
        let sid = SignInID.read(claims["sid"])
        var identity = ProviderIdentity(
            subject: try IdentityMapper.subject(claims, at: subject ?? settings.subject ?? "/sub"), claims: mapped,
            unverified: IdentityMapper.unverified(context, keeping: client.profile.callbackParameters),
            signIn: signIn(claims))
        if case .id(let text) = sid { identity.sid = text }
        identity.sidIsUnusable = sid == .unusable
        return identity
    }

    /// Reads `acr`, `amr` and `auth_time`; ignores an `acr` or `amr` that is longer than a demand may name.
    private static func signIn(_ claims: JSONObject) -> SignInFacts {
        func isShort(_ text: String) -> Bool { (1...StepUpDemand.longestClass).contains(text.utf8.count) }
        let methods = claims["amr"]?.array?.compactMap(\.string).filter(isShort) ?? []
        return SignInFacts(
            contextClass: claims["acr"]?.string.flatMap { isShort($0) ? $0 : nil }, methods: Array(methods.prefix(16)),
            authenticatedAt: claims["auth_time"]?.double.flatMap { Int64(exactly: $0.rounded(.down)) })
    }
}
