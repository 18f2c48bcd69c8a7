import Broker
import ServiceLifecycle

/// Repeats a piece of work with pauses until shutdown.
///
/// The work says how long to pause.
struct RepeatedWork: Service {
    let clock: BrokerClock
    /// The pause before the first run, so that start-up is not slowed.
    let delay: Duration
    let work: @Sendable () async -> Duration

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var pause = delay
            while !Task.isCancelled {
                do { try await clock.sleep(pause) } catch { return }
                pause = await work()
            }
        }
    }
}
