import Broker

/// Verifies signatures with one issuer's keys, and only with those (SEC-26).
struct TokenKeys: Sendable {
    private let cache: CachedFetch<KeySet>

    /// `location` is asked for the JWKS URL at every fetch, since metadata may change it.
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
                    throw .unusable(detail: "JWKS: \(answer.summary), no key set")
                }
                return .success((set, answer.lifetime))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Has the keys at hand before a code is risked; throws when they cannot be had.
    func warm() async throws(ProviderFailure) { _ = try await cache.current() }

    /// The number of usable keys.
    func count() async throws(ProviderFailure) -> Int { try await cache.current().value.count }

    /// Throws `identityRejected` unless the token's signature verifies; looks for newer keys once when no key fits and
    /// `mayFetch` says yes, from the bucket of the cause.
    func verify(
        _ token: CompactToken, for cause: FetchCause = .provider, mayFetch: @Sendable () -> Bool = { true }
    ) async throws(ProviderFailure) {
        let (set, generation) = try await cache.current()
        if await set.verifies(token) { return }
        // A token with a known kid and a bad signature is forged; one without a fitting key, or without a kid, may be
        // signed with a key that came since.
        if token.keyID == nil || !set.hasKey(for: token), mayFetch(),
            let newer = await cache.newer(than: generation, for: cause)
        {
            if await newer.value.verifies(token) { return }
            if !newer.isOwn, let own = await cache.newer(than: newer.generation, for: cause),
                await own.value.verifies(token)
            {
                return
            }
        }
        throw .identityRejected(detail: set.hasKey(for: token) ? "signature does not verify" : "no key fits the token")
    }
}
