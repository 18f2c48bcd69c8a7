/// Compares this process's clocks with the store's clock, which all replicas share.
package struct ClockComparison: Sendable {
    private let context: BrokerContext
    private let store: any SharedStore

    /// The longest duration of a comparison that counts as evidence.
    private static let patience = Duration.seconds(2)
    /// The smallest error that every comparison is assumed to have.
    private static let leastError = Duration.milliseconds(5)

    package init(_ context: BrokerContext, _ store: any SharedStore) {
        self.context = context
        self.store = store
    }

    /// Asks the store for its time, and passes the result to the context's `ClockWatch`.
    ///
    /// If the store is unreachable or answers after more than two seconds, its time is ignored.
    package func look() async throws(StoreFailure) {
        let (clock, watch) = (context.clock, context.watch)
        let began = clock.monotonic()
        let time: WallTime
        do throws(StoreFailure) { time = try await store.time() } catch {
            context.memory.store.failed(at: clock.monotonic())
            throw error
        }
        // The poll runs even in an idle replica, so that the replica notices when the store is reachable again.
        context.memory.store.answered(at: clock.monotonic())
        let took = clock.monotonic() - began
        guard took <= Self.patience else { return }
        watch.compared(time, at: began + took / 2, within: max(took / 2, Self.leastError), clock)
        if watch.hasUnnotedStep {
            try await ClockMarks.noteStep(at: time, in: context.store)
            watch.stepIsNoted()
        } else if let stepped = try await ClockMarks.step(in: context.store) {
            // A process that began after the step finds it only in the store. The note may arrive after this process began,
            // so read it with each poll.
            watch.hear(steppedAt: stepped, clock)
        }
    }
}
