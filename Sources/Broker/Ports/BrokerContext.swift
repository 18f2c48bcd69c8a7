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
    /// What a store can do that several processes share; nil where this process has it alone.
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
