import Broker

/// Keeps a fetched document: fresh for its lifetime, usable for a day more while it cannot be fetched, fetched once for
/// all who wait. Forced fetches come from a small bucket, so that unknown key ids cannot make us flood a provider
/// (SEC-27).
actor CachedFetch<Value: Sendable> {
    typealias Fetched = (value: Value, lifetime: Duration)

    private let fetch: @Sendable () async -> Result<Fetched, ProviderFailure>
    private let monotonic: @Sendable () -> Duration
    private var held: (value: Value, freshUntil: Duration, usableUntil: Duration)?
    private var retryAt = Duration.zero
    private var generation: UInt64 = 0
    private var flight: Task<Result<Fetched, ProviderFailure>, Never>?
    private var forced: (left: Int, refilledAt: Duration)

    private static var burst: Int { 3 }
    private static var refill: Duration { .seconds(60) }

    init(
        clock: BrokerClock, fetch: @escaping @Sendable () async -> Result<Fetched, ProviderFailure>
    ) {
        self.fetch = fetch
        monotonic = clock.monotonic
        forced = (Self.burst, clock.monotonic())
    }

    /// Returns the document and the number of its fetch; throws when there is none and none can be had.
    func current() async throws(ProviderFailure) -> (value: Value, generation: UInt64) {
        let now = monotonic()
        if let held, now < held.freshUntil || (now < held.usableUntil && now < retryAt) {
            return (held.value, generation)
        }
        let result = await load()
        switch result {
        case .success: break
        case .failure(let failure):
            guard let held, monotonic() < held.usableUntil else { throw failure }
            retryAt = monotonic() + .seconds(30)
            return (held.value, generation)
        }
        guard let held else { throw .unusable(detail: "nothing fetched") }
        return (held.value, generation)
    }

    /// Returns a newer document than `seen`, or nil when the bucket is empty or nothing newer can be had.
    func newer(than seen: UInt64) async -> (value: Value, generation: UInt64)? {
        if generation == seen {
            let now = monotonic()
            let refills = (now - forced.refilledAt).components.seconds / Self.refill.components.seconds
            if refills > 0 {
                forced = (min(Self.burst, forced.left + Int(min(refills, Int64(Self.burst)))), now)
            }
            guard flight != nil || forced.left > 0 else { return nil }
            if flight == nil { forced.left -= 1 }
            guard case .success = await load() else { return nil }
        }
        return held.map { ($0.value, generation) }
    }

    private func load() async -> Result<Fetched, ProviderFailure> {
        if let flight { return await flight.value }
        // A task of its own: whoever asked first may be cancelled, the others still wait for it. It also stores what it
        // fetched, since those who wait may be resumed in any order.
        let flight = Task {
            let result = await fetch()
            store(result)
            return result
        }
        self.flight = flight
        return await flight.value
    }

    private func store(_ result: Result<Fetched, ProviderFailure>) {
        flight = nil
        guard case .success(let fetched) = result else { return }
        let now = monotonic()
        held = (fetched.value, now + fetched.lifetime, now + fetched.lifetime + .seconds(86_400))
        generation &+= 1
    }
}
