/// Compares this process's clocks with the store's, which is everybody's.
package struct ClockComparison: Sendable {
    private let context: BrokerContext
    private let store: any SharedStore

    /// A comparison that took longer than this says nothing.
    private static let patience = Duration.seconds(2)
    /// The least error of a comparison.
    private static let leastError = Duration.milliseconds(5)

    package init(_ context: BrokerContext, _ store: any SharedStore) {
        self.context = context
        self.store = store
    }

    /// Asks the store for its time; what is found is in the context's `ClockWatch`.
    ///
    /// A store that does not answer, or not soon, says nothing of the clock.
    package func look() async throws(StoreFailure) {
        let (clock, watch) = (context.clock, context.watch)
        let began = clock.monotonic()
        let time: WallTime
        do throws(StoreFailure) { time = try await store.time() } catch {
            context.memory.store.failed(at: clock.monotonic())
            throw error
        }
        // Asked whether there is work or not, so that a replica without any notices a store that was away, too.
        context.memory.store.answered(at: clock.monotonic())
        let took = clock.monotonic() - began
        guard took <= Self.patience else { return }
        watch.compared(time, at: began + took / 2, within: max(took / 2, Self.leastError), clock)
        if watch.hasUnnotedStep {
            try await ClockMarks.noteStep(at: time, in: context.store)
            watch.stepIsNoted()
        } else if let stepped = try await ClockMarks.step(in: context.store) {
            // A process that began after the step cannot see it, and may have begun before another one noted it.
            watch.hear(steppedAt: stepped, clock)
        }
    }
}
