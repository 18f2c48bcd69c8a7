import Broker

/// Keeps a fetched document: fresh for its lifetime, usable for a day more while it cannot be fetched or that takes
/// long, fetched once for all who wait. Forced fetches come from small buckets, so that unknown key ids cannot make us
/// flood a provider (SEC-27): one for what the provider itself sent, one for what anybody can send.
actor CachedFetch<Value: Sendable> {
    typealias Fetched = (value: Value, lifetime: Duration)

    private let fetch: @Sendable () async -> Result<Fetched, ProviderFailure>
    private let clock: BrokerClock
    private var held: (value: Value, freshUntil: Duration, usableUntil: Duration)?
    private var retryAt = Duration.zero
    private var generation: UInt64 = 0
    private var flight: Task<Result<Fetched, ProviderFailure>, Never>?
    private var forced: [FetchCause: (left: Int, refilledAt: Duration)] = [:]

    /// The time for which a usable document is kept back for a newer one: a call's deadline is not spent on it.
    private static var patience: Duration { .seconds(1) }
    private static var burst: Int { 3 }
    private static var refill: Duration { .seconds(60) }

    init(
        clock: BrokerClock, fetch: @escaping @Sendable () async -> Result<Fetched, ProviderFailure>
    ) {
        self.fetch = fetch
        self.clock = clock
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

    /// Returns a newer document than `seen`, or nil when the cause's bucket is empty or nothing newer can be had.
    ///
    /// `isOwn` is whether its fetch began for this caller: another's may have begun before the change that it looks for.
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

    /// Takes one forced fetch from a bucket; false when it is empty.
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
    /// The caller who asked first may be cancelled, or have little time left, and the others still wait for it. It also
    /// stores what it fetched, since those who wait may be resumed in any order.
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

/// The reason for which a newer document is wanted than the one at hand.
enum FetchCause: Sendable {
    /// A token that the provider itself has answered with.
    case provider
    /// A token that anybody can send: these never use up what logins need.
    case anybody
}
