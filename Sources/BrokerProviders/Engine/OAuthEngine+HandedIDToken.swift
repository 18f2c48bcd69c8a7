import Broker

extension OAuthEngine {
    /// The greatest age of an id_token that an app hands over, whatever the configuration says: less than its use is remembered
    /// (a day).
    private static let longestAge = Duration.seconds(43_200)

    /// Verifies an id_token that an app has from one of the provider's SDKs, and returns its claims.
    ///
    /// A stranger may have made it: newer keys for it come from a bucket that logins do not share.
    func verified(
        _ handed: HandedIDToken, issuer: String, client: EngineClient, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> JSONObject {
        var settings = client.wire.idToken
        settings.maximumAge = min(settings.maximumAge, Self.longestAge)
        let token = try CompactToken(handed.token.reveal(), allowed: settings.algorithms, types: ["jwt"])
        var rules = IDTokenRules(issuer: issuer, clientID: client.settings.clientID, settings: settings)
        rules.otherClientIDs = client.settings.trustedAudiences
        // The claims first: what cannot be ours costs no signature and no key.
        try rules.check(
            token,
            IDTokenRules.Expectation(
                nonce: .rawOrSHA256(handed.nonce), accessToken: nil, demands: SignInDemands(), isFresh: true),
            now: clock.now())
        try await keys.verify(token, for: .anybody, mayFetch: mayFetchKeys)
        return token.claims
    }
}
