import Broker

/// The background work that seals values of older keys again, after an operator has requested it.
enum ResealWork {
    private static let idle = Duration.milliseconds(500)
    /// The pause between batches, so that users' requests come first.
    private static let pause = Duration.milliseconds(5)

    static func service(_ resealing: Resealing, _ context: BrokerContext) -> RepeatedWork {
        RepeatedWork(clock: context.clock, delay: idle) {
            do throws(StoreFailure) {
                return try await resealing.step() ? pause : idle
            } catch {
                context.events.emit(.storeFailed(operation: "reseal", detail: "\(error)"))
                return .seconds(2)
            }
        } end: {
            try? await resealing.stop()
        }
    }
}
