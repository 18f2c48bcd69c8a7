/// The dependencies of every use case: the ports and the settings.
///
/// A class, because every use case holds it and is made anew for a request: a copy would count a score of references.
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
    /// The short-lived memory of this process; losing it costs a call, never a session.
    let memory: ProcessMemory
    package let watch: ClockWatch
    /// The operations of a store that several processes share; nil where this process has it alone.
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
        // Later looks are compared with what both clocks say now.
        watch.look(clock)
    }

    /// Returns the same broker with other providers and settings: what it keeps and remembers is shared.
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

    /// Returns what no other process has.
    private static func scope(_ vault: any Vault, _ clock: BrokerClock) -> String {
        // A vault that cannot give random bytes now fails every sign-in; the moment tells processes apart, too.
        let random = (try? vault.random(16)) ?? []
        return "\(clock.now().milliseconds) \(clock.monotonic()) " + Base64URL.encode(random)
    }

    /// Refuses to begin what would be sealed with a ring that opens nothing of what is stored: with the right one back,
    /// nobody could open it.
    func requireRing() throws(BrokerProblem) {
        guard vault.isTheStores else {
            throw BrokerProblem(
                .storeUnavailable, privateDetail: "the key ring opens nothing of what is stored",
                retryAfter: .seconds(5))
        }
    }
}

/// The configuration of the domain itself.
package struct BrokerSettings: Sendable {
    /// The time for which a login waits for its callback.
    package var loginLifetime: Duration = .seconds(600)
    package var loginLimits = LoginLimits()
    package var sessionsPerSubjectAndClient = 50
    /// Of a subject that is a shop: one more is refused, and nobody is signed out for it.
    package var sessionsPerShopAndClient = 1000
    /// The time for which the same starter gets the same session again.
    package var replayWindow: Duration = .seconds(600)
    /// The time for which an exchange's or refresh's claim stands unless its owner, who lives, renews it; longer than
    /// all the provider calls of one claim together.
    package var claimLifetime: Duration = .seconds(25)
    /// The time for which a caller waits for another's exchange or refresh.
    package var waiterPatience: Duration = .seconds(10)
    package var handoffLifetime: Duration = .seconds(60)
    /// The time for which a handoff's row outlives it when nobody redeemed it, for a forward that is under way.
    package var handoffSlack: Duration = .seconds(60)
    package var registrationLifetime: Duration = .seconds(900)
    /// Tokens are refreshed this long before they expire, and up to 5 % of it earlier.
    package var refreshMargin: Duration = .seconds(60)
    /// The time for which an access token that was forced by an upstream or an app is not forced again.
    package var forcedRefreshPause: Duration = .seconds(60)
    /// The origins at which the broker can be reached, for the addresses of proofs.
    package var proofOrigins = ProofOrigins()

    package init() {}
}

/// The time as the domain sees it: three closures, so that tests and simulations own it.
package struct BrokerClock: Sendable {
    /// The calendar time, for rows and lifetimes.
    package let now: @Sendable () -> WallTime
    /// Time since some fixed moment that never goes back, for deadlines (SEC-128).
    package let monotonic: @Sendable () -> Duration
    /// Waits; throws `CancellationError` when the task is cancelled.
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
