/// All dependencies of the use cases: the ports and the settings.
///
/// The context is a class, because use cases hold it and are made for each request. Copying a struct would retain and release
/// about twenty references each time.
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
    /// If this memory is lost with the process, some provider calls are made again.
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
        // Read both clocks now, so that a later reading shows whether a clock was stepped since the start.
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
