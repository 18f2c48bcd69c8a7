/// All dependencies of the use cases: the ports and the settings.
///
/// The context is a class, because use cases hold it and are made for each request. Copying a struct would count about twenty
/// references each time.
package final class BrokerContext: Sendable {
    package let clock: BrokerClock
    package let spawner: Spawner
    package let events: EventSink
    package let vault: any Vault
    package let store: any BrokerStore
    package let providers: ProviderDirectory
    package let cache: SessionCache
    package let notices: SessionNotices
    package let settings: BrokerSettings
    /// The short-lived memory of this process.
    ///
    /// If it is lost, the cost is at most a further call.
    let memory: ProcessMemory
    package let watch: ClockWatch
    /// The operations of a store that several processes share; nil if this process has the store alone.
    let shared: (any SharedStore)?

    package init(
        clock: BrokerClock, spawner: Spawner, events: EventSink, vault: any Vault, store: any BrokerStore,
        providers: ProviderDirectory, cache: SessionCache, notices: SessionNotices, settings: BrokerSettings,
        watch: ClockWatch = ClockWatch(), shared: (any SharedStore)? = nil
    ) {
        self.clock = clock
        self.spawner = spawner
        self.events = events
        self.vault = vault
        self.store = store
        self.providers = providers
        self.cache = cache
        self.notices = notices
        self.settings = settings
        self.shared = shared
        memory = ProcessMemory(
            startedAt: clock.monotonic(), nonceScope: shared == nil ? Self.scope(vault, clock) : "")
        self.watch = watch
        // Read both clocks now, so that later looks can detect a jump since the start.
        watch.look(clock)
    }

    /// Returns a context with other providers and settings, which shares all state with this one.
    package func with(_ providers: ProviderDirectory, _ settings: BrokerSettings) -> BrokerContext {
        BrokerContext(self, providers, settings)
    }

    private init(_ context: BrokerContext, _ providers: ProviderDirectory, _ settings: BrokerSettings) {
        clock = context.clock
        spawner = context.spawner
        events = context.events
        vault = context.vault
        store = context.store
        cache = context.cache
        notices = context.notices
        memory = context.memory
        watch = context.watch
        shared = context.shared
        self.providers = providers
        self.settings = settings
    }

    /// Returns a nonce scope that belongs to this process only.
    private static func scope(_ vault: any Vault, _ clock: BrokerClock) -> String {
        // If there are no random bytes, the time alone distinguishes the processes, and every sign-in fails anyway.
        let random = (try? vault.random(16)) ?? []
        return "\(clock.now().milliseconds) \(clock.monotonic()) " + Base64URL.encode(random)
    }

    /// Throws if the key ring fails to open the stored values.
    ///
    /// Values that are sealed with a wrong ring could not be opened with the right ring later.
    func requireRing() throws(BrokerProblem) {
        guard vault.isTheStores else {
            throw BrokerProblem(
                .storeUnavailable,
                privateDetail: "the key ring opens none of the stored values; put the ring of this store back",
                retryAfter: .seconds(5))
        }
    }
}

/// The configuration of the domain itself.
package struct BrokerSettings: Sendable {
    /// The lifetime of a login that waits for its callback.
    package var loginLifetime: Duration = .seconds(600)
    package var loginLimits = LoginLimits()
    package var sessionsPerSubjectAndClient = 50
    /// The largest number of sessions of a subject that is a shop, for each client; a further session is refused, so that all
    /// devices stay signed in.
    package var sessionsPerShopAndClient = 1000
    /// The time during which a settled exchange gives the same starter the same session again.
    package var replayWindow: Duration = .seconds(600)
    /// The lifetime of a claim of an exchange or refresh; a living owner renews the claim.
    ///
    /// The lifetime must be longer than all provider calls of one claim together.
    package var claimLifetime: Duration = .seconds(25)
    /// The longest time that a caller waits for another caller's exchange or refresh.
    package var waiterPatience: Duration = .seconds(10)
    package var handoffLifetime: Duration = .seconds(60)
    /// The time that the row of an unused handoff is kept after its expiry, for a forward in progress.
    package var handoffSlack: Duration = .seconds(60)
    package var registrationLifetime: Duration = .seconds(900)
    /// The time before its expiry at which an access token is refreshed, plus up to 5 % of jitter.
    package var refreshMargin: Duration = .seconds(60)
    /// The time after which the access token from a forced refresh may be refreshed by force again.
    package var forcedRefreshPause: Duration = .seconds(60)
    /// The origins of the broker's own addresses, for checking the addresses in proofs.
    package var proofOrigins = ProofOrigins()

    package init() {}
}

/// The clocks that the domain uses, as closures that tests and simulations can replace.
package struct BrokerClock: Sendable {
    /// The calendar time, for rows and lifetimes.
    package let now: @Sendable () -> WallTime
    /// The time since some fixed moment; it never goes back and serves for deadlines (SEC-128).
    package let monotonic: @Sendable () -> Duration
    /// Waits; throws `CancellationError` if the task is cancelled.
    package let sleep: @Sendable (Duration) async throws -> Void

    /// Creates a clock from its closures.
    package init(
        now: @escaping @Sendable () -> WallTime,
        monotonic: @escaping @Sendable () -> Duration,
        sleep: @escaping @Sendable (Duration) async throws -> Void
    ) {
        self.now = now
        self.monotonic = monotonic
        self.sleep = sleep
    }
}
