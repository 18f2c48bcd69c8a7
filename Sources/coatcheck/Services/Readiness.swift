import ServiceLifecycle
import Synchronization

/// Turns readiness red before anything else stops, so that a load balancer looks away first (SEC-123).
final class Readiness: Service {
    private let draining = Atomic<Bool>(false)

    /// Whether the process is on its way out.
    var isDraining: Bool { draining.load(ordering: .relaxed) }

    func run() async throws {
        try? await gracefulShutdown()
        draining.store(true, ordering: .relaxed)
    }
}
