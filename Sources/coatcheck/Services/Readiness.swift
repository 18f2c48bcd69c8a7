import Broker
import BrokerHTTP
import ServiceLifecycle
import Synchronization

/// Makes the broker report unready at the beginning of a shutdown, so that load balancers notice it before the listeners close
/// (SEC-123).
final class Readiness: Service {
    /// The longest time for a whole shutdown, including the delay before the listeners close.
    let limit: Duration
    private let delay: Duration
    private let load: ServerLoad
    private let log: ProcessLog
    private let clock: BrokerClock
    private let draining = Atomic<Bool>(false)
    private let began = Mutex(Duration.zero)

    /// Creates the service.
    ///
    /// Listeners close `delay` after the broker began to report unready, and then have `timeout` for running requests.
    init(delay: Duration, timeout: Duration, load: ServerLoad, log: ProcessLog, clock: BrokerClock) {
        self.delay = delay
        self.load = load
        self.log = log
        self.clock = clock
        limit = delay + timeout
    }

    /// Whether the process is ending.
    var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// The service that stops after the listeners have drained, and logs the end of the drain.
    var end: some Service { End(readiness: self) }

    func run() async throws {
        guard await Self.shutdownBegins() else { return }
        draining.store(true, ordering: .relaxed)
        load.drains()
        began.withLock { $0 = clock.monotonic() }
        log.write(
            .notice, "draining",
            underWay + [
                ("delay_ms", String(delay.wholeMilliseconds)), ("at_most_ms", String(limit.wholeMilliseconds)),
            ])
        try? await clock.sleep(delay)
    }

    private struct End: Service {
        let readiness: Readiness

        func run() async throws {
            guard await Readiness.shutdownBegins() else {
                // The task was cancelled, because the time was up before the listeners had finished.
                if readiness.isDraining { readiness.write(.warning, "drain cut short") }
                return
            }
            readiness.write(.notice, "drained")
        }
    }

    /// Waits for a graceful shutdown; returns false if the task was cancelled instead.
    private static func shutdownBegins() async -> Bool {
        do {
            try await gracefulShutdown()
            return true
        } catch {
            return false
        }
    }

    private func write(_ level: LogSettings.Level, _ message: String) {
        let took = clock.monotonic() - began.withLock { $0 }
        log.write(level, message, underWay + [("took_ms", String(took.wholeMilliseconds))])
    }

    private var underWay: [(String, String)] {
        [("requests", String(load.requests)), ("streams", String(load.streams))]
    }
}
