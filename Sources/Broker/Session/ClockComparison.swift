/// Compares this process's wall clock with the store's, which is everybody's.
package struct ClockComparison: Sendable {
    private let context: BrokerContext
    private let store: any SharedStore

    /// A comparison that took longer than this says nothing.
    private static let patience = Duration.seconds(2)

    package init(_ context: BrokerContext, _ store: any SharedStore) {
        self.context = context
        self.store = store
    }

    /// Asks the store for its time; what is found is in the context's `ClockWatch`.
    ///
    /// A store that does not answer, or not soon, says nothing of the clock.
    package func look() async throws(StoreFailure) {
        let (clock, watch) = (context.clock, context.watch)
        let (began, wall) = (clock.monotonic(), watch.uncorrected(clock))
        let time: WallTime
        do throws(StoreFailure) { time = try await store.time() } catch {
            context.memory.store.failed(at: clock.monotonic())
            throw error
        }
        // Asked whether there is work or not, so that a replica without any notices a store that was away, too.
        context.memory.store.answered(at: clock.monotonic())
        let took = clock.monotonic() - began
        // A clock that was set meanwhile is compared the next time.
        let parted = watch.uncorrected(clock).since(wall) - took
        guard took <= Self.patience, parted > .seconds(-1), parted < .seconds(1) else { return }
        watch.compared(ahead: wall.advanced(by: took / 2).since(time), clock)
    }
}
