import Synchronization

/// While the clock is in doubt, asks the kernel, the store and the configured providers whether the clock is right.
///
/// A background task makes these inquiries. A caller's request never starts one.
package final class ClockInquiry: Sendable {
    /// The shortest time between two requests to one host.
    static let pause = Duration.seconds(30)
    /// The longest wait for an answer.
    ///
    /// An answer that takes longer is not used as evidence.
    static let patience = Duration.seconds(5)

    private let context: BrokerContext
    private let kernel: @Sendable () async -> Bool?
    private let sources: @Sendable () -> [any TimeTelling]
    /// Guards the moment of the last request to each host.
    private let asked = Mutex<[String: Duration]>([:])

    /// Creates the inquiry.
    ///
    /// `kernel` returns whether the kernel's clock is synchronised with a time service; nil if this is unknown.
    package init(
        _ context: BrokerContext, kernel: @escaping @Sendable () async -> Bool?,
        sources: @escaping @Sendable () -> [any TimeTelling]
    ) {
        self.context = context
        self.kernel = kernel
        self.sources = sources
    }

    /// While evidence is needed, asks the kernel, the store and the providers once each.
    ///
    /// If the clock is then trusted enough to judge lapses, the session uses in memory (`KeptUses`) are written to the store.
    package func look() async throws(StoreFailure) {
        let (watch, clock) = (context.watch, context.clock)
        if watch.wantsEvidence(clock) {
            if let isSynchronised = await kernel() { watch.kernelSays(isSynchronised: isSynchronised, clock) }
            if let shared = context.shared {
                let isElsewhere = (try? await shared.isElsewhere()) ?? false
                watch.hearStore(isElsewhere: isElsewhere, clock)
            }
            await askProviders()
        }
        if context.may(.concludeLapse) { try await context.writeKeptUses() }
    }

    private func askProviders() async {
        let due = dueSources()
        await withTaskGroup(of: Void.self) { group in
            for (host, source) in due { group.addTask { await self.ask(source, at: host) } }
        }
    }

    /// Returns one provider for each host that was not asked in the last 30 seconds.
    ///
    /// If several providers have the same host, only one of them is returned.
    private func dueSources() -> [(String, any TimeTelling)] {
        let moment = context.clock.monotonic()
        return asked.withLock { asked in
            asked = asked.filter { moment - $0.value < Self.pause }
            return sources().compactMap { source in
                guard let host = source.timeHost, asked[host] == nil else { return nil }
                asked[host] = moment
                return (host, source)
            }
        }
    }

    private func ask(_ source: any TimeTelling, at host: String) async {
        let (watch, clock) = (context.watch, context.clock)
        let began = clock.monotonic()
        let time = await source.time()
        let took = clock.monotonic() - began
        guard let time, took <= Self.patience else { return }
        // A `Date` field has whole seconds only. So add half a second, which is the mean of the fraction that the field leaves
        // out.
        watch.hear(
            .provider(host: host), saying: time.advanced(by: .milliseconds(500)), at: began + took / 2, clock)
    }
}
