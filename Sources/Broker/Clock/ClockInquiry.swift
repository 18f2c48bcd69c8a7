import Synchronization

/// Tells the time by the `Date` of an answer that is asked for this alone.
package protocol TimeTelling: ProviderClient {
    /// The host that is asked; nil where no answer could be evidence, for example because the host is this machine.
    var timeHost: String? { get }

    /// Asks once, within some seconds; returns nil for an answer that is no evidence.
    ///
    /// The request contains no time of ours that the answer could repeat.
    func time() async -> WallTime?
}

/// Looks for evidence while the clock is doubted: asks the kernel, the store and the configured providers.
///
/// No request of a caller makes it ask anybody.
package final class ClockInquiry: Sendable {
    /// A host is asked at most this often.
    static let pause = Duration.seconds(30)
    /// An answer that takes longer says nothing.
    static let patience = Duration.seconds(5)

    private let context: BrokerContext
    private let kernel: @Sendable () async -> Bool?
    private let sources: @Sendable () -> [any TimeTelling]
    /// Guards the moment at which each host was asked.
    private let asked = Mutex<[String: Duration]>([:])

    /// Creates the inquiry; `kernel` says whether the kernel's clock is synchronised, nil where it does not say.
    package init(
        _ context: BrokerContext, kernel: @escaping @Sendable () async -> Bool?,
        sources: @escaping @Sendable () -> [any TimeTelling]
    ) {
        self.context = context
        self.kernel = kernel
        self.sources = sources
    }

    /// Asks once around, and writes the uses that were kept when the doubt is over.
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

    /// Returns a source of each host that may be asked now; several providers at one host are one.
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
        // A `Date` has whole seconds, cut off.
        watch.hear(
            .provider(host: host), saying: time.advanced(by: .milliseconds(500)), at: began + took / 2, clock)
    }
}
