import Broker

/// Caches a fetched document; all callers share one fetch at a time.
///
/// The document is fresh for its lifetime. Afterwards, the document is used for another day if fetches fail or take long. A
/// token with an unknown key id forces a fetch. Forced fetches are limited by small buckets, so that such tokens cannot make
/// the broker flood a provider (SEC-27). The provider's tokens and strangers' tokens have separate buckets.
actor CachedFetch<Value: Sendable> {
    typealias Fetched = (value: Value, lifetime: Duration)

    private let fetch: @Sendable () async -> Result<Fetched, ProviderFailure>
    private let clock: BrokerClock
    private var held: (value: Value, freshUntil: Duration, usableUntil: Duration)?
    private var retryAt = Duration.zero
    private var generation: UInt64 = 0
    private var flight: Task<Result<Fetched, ProviderFailure>, Never>?
    private var forced: [FetchCause: (left: Int, refilledAt: Duration)] = [:]

    /// The longest wait for a newer document while a usable one is cached, so that most of a call's deadline remains.
    private static var patience: Duration { .seconds(1) }
    private static var burst: Int { 3 }
    private static var refill: Duration { .seconds(60) }

    init(
        clock: BrokerClock, fetch: @escaping @Sendable () async -> Result<Fetched, ProviderFailure>
    ) {
        self.fetch = fetch
        self.clock = clock
    }

    /// Returns the document and the number of its fetch; throws if there is no usable document and the fetch fails.
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
        // The fetch takes longer than `patience` and continues in the background. For five seconds, callers get the cached
        // document at once.
        case nil: retryAt = clock.monotonic() + Self.patience * 5
        }
        guard let held else { throw .unusable(detail: "nothing fetched") }
        return (held.value, generation)
    }

    /// Returns a newer document than that of the fetch with the number `seen`; nil if the cause's bucket is empty or the
    /// fetch fails.
    ///
    /// `isOwn` is true if the fetch began for this caller. Otherwise the fetch may have begun before the change that this
    /// caller needs.
    func newer(
        than seen: UInt64, for cause: FetchCause
    ) async -> (value: Value, generation: UInt64, isOwn: Bool)? {
        let isOwn = generation == seen && flight == nil
        if generation == seen {
            guard !isOwn || take(cause) else { return nil }
            guard case .success = await load() else { return nil }
        }
        return held.map { ($0.value, generation, isOwn) }
    }

    /// Takes one permission for a forced fetch from the bucket of a cause; returns false if the bucket is empty.
    private func take(_ cause: FetchCause) -> Bool {
        let now = clock.monotonic()
        var bucket = forced[cause] ?? (Self.burst, now)
        let refills = (now - bucket.refilledAt).components.seconds / Self.refill.components.seconds
        if refills > 0 { bucket = (min(Self.burst, bucket.left + Int(min(refills, Int64(Self.burst)))), now) }
        defer { forced[cause] = bucket }
        guard bucket.left > 0 else { return false }
        bucket.left -= 1
        return true
    }

    /// Fetches the document, or waits for the fetch in progress; nil if that takes longer than `limit`.
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

    /// Begins the fetch in a detached task.
    ///
    /// The first caller may be cancelled or have little time left, while others still wait. The task also stores the result,
    /// because the waiting callers may continue in any order.
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
