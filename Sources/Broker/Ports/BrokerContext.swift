/// What every use case works with: the ports and the settings.
package struct BrokerContext: Sendable {
    package let clock: BrokerClock
    package let spawner: Spawner
    package let events: EventSink
    package let vault: any Vault
    package let store: any BrokerStore
    package private(set) var providers: ProviderDirectory
    package let cache: SessionCache
    package let notices: SessionNotices
    package private(set) var settings: BrokerSettings
    /// What this process remembers for a short time; losing it costs a call, never a session.
    let memory: ProcessMemory
    package let watch: ClockWatch

    package init(
        clock: BrokerClock, spawner: Spawner, events: EventSink, vault: any Vault, store: any BrokerStore,
        providers: ProviderDirectory, cache: SessionCache, notices: SessionNotices, settings: BrokerSettings,
        watch: ClockWatch = ClockWatch()
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
        memory = ProcessMemory(startedAt: clock.monotonic())
        self.watch = watch
        // What both clocks say now is what later looks are compared with.
        _ = watch.believes(clock)
    }

    /// Returns the same broker with other providers and settings: what it keeps and remembers is shared.
    package func with(_ providers: ProviderDirectory, _ settings: BrokerSettings) -> BrokerContext {
        var context = self
        context.providers = providers
        context.settings = settings
        return context
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
