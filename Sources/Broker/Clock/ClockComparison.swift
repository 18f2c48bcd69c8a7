/// Compares this machine's clock with the store's clock, which is the same for all replicas.
package struct ClockComparison: Sendable {
    private let context: BrokerContext
    private let store: any SharedStore

    /// The longest time that the store may take to answer.
    ///
    /// If the store takes longer, its answer is ignored.
    private static let patience = Duration.seconds(2)
    /// The error that is assumed for a comparison, even if the store answered faster.
    private static let leastError = Duration.milliseconds(5)

    package init(_ context: BrokerContext, _ store: any SharedStore) {
        self.context = context
        self.store = store
    }

    /// Asks the store for its time, and passes the store's answer to the context's `ClockWatch`.
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
        // The comparison runs even if the replica has no other calls to the store. So an idle replica also notices that the
        // store is reachable again.
        context.memory.store.answered(at: clock.monotonic())
        let took = clock.monotonic() - began
        guard took <= Self.patience else { return }
        watch.compared(time, at: began + took / 2, within: max(took / 2, Self.leastError), clock)
        if watch.hasUnnotedStep {
            try await ClockMarks.noteStep(at: time, in: context.store)
            watch.stepIsNoted()
        } else if let stepped = try await ClockMarks.step(in: context.store) {
            // If this process began after a step of the store's clock, it learns of the step only from the store. Another
            // process may record the step after this process began, so read the record at each comparison.
            watch.hear(steppedAt: stepped, clock)
        }
    }
}
