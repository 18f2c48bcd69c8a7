import Broker

/// Verifies signatures with only one issuer's keys (SEC-26).
struct TokenKeys: Sendable {
    private let cache: CachedFetch<KeySet>

    /// `location` returns the JWKS URL before every fetch, because metadata may change it.
    init(
        caller: ProviderCaller, clock: BrokerClock,
        location: @escaping @Sendable () async throws(ProviderFailure) -> EndpointURL?
    ) {
        cache = CachedFetch(clock: clock) {
            do throws(ProviderFailure) {
                guard let url = try await location() else { throw .notSent(detail: "no jwks_uri is known") }
                let answer = try await caller.send(
                    .get(url, accept: "application/jwk-set+json, application/json"), by: caller.ownLimit)
                try answer.requireUsable(at: clock.now())
                guard answer.status == 200, let object = answer.object, let set = KeySet(object) else {
                    throw .unusable(detail: "JWKS: \(answer.summaryOfObject), no key set")
                }
                return .success((set, answer.lifetime))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Loads the keys before a code is sent; throws if the keys are unavailable.
    func warm() async throws(ProviderFailure) { _ = try await cache.current() }

    /// Returns the number of usable keys.
    func count() async throws(ProviderFailure) -> Int { try await cache.current().value.count }

    /// Throws `identityRejected` unless the token's signature verifies.
    ///
    /// Newer keys are fetched in two cases: no key is suitable; or the token names no key and its signature does not verify.
    /// `mayFetch` must permit the fetch. The fetch counts against the bucket of `cause`. If that fetch had already begun for
    /// another caller, one more fetch may follow.
    func verify(
        _ token: CompactToken, for cause: FetchCause = .provider, mayFetch: @escaping @Sendable () -> Bool = { true }
    ) async throws(ProviderFailure) {
        // If several keys have to be tried for a stranger's token, `mayFetch` charges each try like a fetch.
        let mayTry: @Sendable () -> Bool
        switch cause {
        case .provider: mayTry = { true }
        case .anybody: mayTry = mayFetch
        }
        let (set, generation) = try await cache.current()
        if await set.verifies(token, mayTry: mayTry) { return }
        // A token with a known kid and a bad signature is forged. If the kid is missing or unknown, the provider may have
        // added the token's key after this set was fetched.
        if token.keyID == nil || !set.hasKey(for: token), mayFetch(),
            let newer = await cache.newer(than: generation, for: cause)
        {
            if await newer.value.verifies(token, mayTry: mayTry) { return }
            if !newer.isOwn, let own = await cache.newer(than: newer.generation, for: cause),
                await own.value.verifies(token, mayTry: mayTry)
            {
                return
            }
        }
        throw .identityRejected(detail: set.hasKey(for: token) ? "signature does not verify" : "no key fits the token")
    }
}
