import Broker

/// Keeps a fetched document: fresh for its lifetime, usable for a day more while it cannot be fetched or that takes
/// long, fetched once for all who wait. Forced fetches come from a small bucket, so that unknown key ids cannot make us flood a provider
/// (SEC-27).
actor CachedFetch<Value: Sendable> {
    typealias Fetched = (value: Value, lifetime: Duration)

    private let fetch: @Sendable () async -> Result<Fetched, ProviderFailure>
    private let clock: BrokerClock
    private var held: (value: Value, freshUntil: Duration, usableUntil: Duration)?
    private var retryAt = Duration.zero
    private var generation: UInt64 = 0
    private var flight: Task<Result<Fetched, ProviderFailure>, Never>?
    private var forced: (left: Int, refilledAt: Duration)

    /// How long a document that is usable is kept back for a newer one: a call's deadline is not spent on it.
    private static var patience: Duration { .seconds(1) }
    private static var burst: Int { 3 }
    private static var refill: Duration { .seconds(60) }

    init(
        clock: BrokerClock, fetch: @escaping @Sendable () async -> Result<Fetched, ProviderFailure>
    ) {
        self.fetch = fetch
        self.clock = clock
        forced = (Self.burst, clock.monotonic())
    }

    /// Returns the document and the number of its fetch; throws when there is none and none can be had.
    func current() async throws(ProviderFailure) -> (value: Value, generation: UInt64) {
        let now = clock.monotonic()
        if let held, now < held.freshUntil || (now < held.usableUntil && now < retryAt) {
            return (held.value, generation)
        }
        let isUsable = held.map { now < $0.usableUntil } ?? false
        switch await load(atMost: isUsable ? Self.patience : nil) {
        case .success: break
        case .failure(let failure):
            guard let held, clock.monotonic() < held.usableUntil else { throw failure }
            retryAt = clock.monotonic() + .seconds(30)
            return (held.value, generation)
        // It goes on being fetched; who asks meanwhile does not wait as well.
        case nil: retryAt = clock.monotonic() + Self.patience * 5
        }
        guard let held else { throw .unusable(detail: "nothing fetched") }
        return (held.value, generation)
    }

    /// Returns a newer document than `seen`, or nil when the bucket is empty or nothing newer can be had.
    func newer(than seen: UInt64) async -> (value: Value, generation: UInt64)? {
        if generation == seen {
            let now = clock.monotonic()
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

    /// Fetches, or joins who does; nil when that takes longer than `limit`.
    private func load(atMost limit: Duration? = nil) async -> Result<Fetched, ProviderFailure>? {
        let flight = flight ?? begin()
        guard let limit else { return await flight.value }
        let clock = clock
        return await withTaskGroup(of: Result<Fetched, ProviderFailure>?.self) { group in
            group.addTask {
                await Detached.run("document", on: Spawner { _, work in Task { await work() } }) { await flight.value }
            }
            group.addTask {
                try? await clock.sleep(limit)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// Begins the fetch in a task of nobody's.
    ///
    /// Whoever asked first may be cancelled, or have little time left, and the others still wait for it. It also stores
    /// what it fetched, since those who wait may be resumed in any order.
    private func begin() -> Task<Result<Fetched, ProviderFailure>, Never> {
        let flight = Task.detached {
            let result = await self.fetch()
            await self.store(result)
            return result
        }
        self.flight = flight
        return flight
    }

    private func store(_ result: Result<Fetched, ProviderFailure>) {
        flight = nil
        guard case .success(let fetched) = result else { return }
        let now = clock.monotonic()
        held = (fetched.value, now + fetched.lifetime, now + fetched.lifetime + .seconds(86_400))
        generation &+= 1
    }
}
