import Broker
import ServiceLifecycle

/// Repeats a piece of work with pauses until shutdown.
///
/// The work returns the next pause. After the last run, `end` releases the work's resources before the store closes.
struct RepeatedWork: Service {
    let clock: BrokerClock
    /// The pause before the first run, which keeps the start fast.
    let delay: Duration
    let work: @Sendable () async -> Duration
    /// The work after the last run.
    let end: @Sendable () async -> Void

    init(
        clock: BrokerClock, delay: Duration, work: @escaping @Sendable () async -> Duration,
        end: @escaping @Sendable () async -> Void = {}
    ) {
        self.clock = clock
        self.delay = delay
        self.work = work
        self.end = end
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var pause = delay
            while !Task.isCancelled {
                do { try await clock.sleep(pause) } catch { return }
                pause = await work()
            }
        }
        await end()
    }
}
