import Broker
import ServiceLifecycle
import Synchronization

/// The production spawner: work that must not die with the request that wanted it.
///
/// On shutdown it waits until all of it is done; the service group's own limit cuts what hangs (SEC-123).
final class DetachedWork: Service {
    private struct State {
        var running = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    /// Guards the count of running work and who waits for it to come to nothing.
    private let state = Mutex(State())
    private let gauge: GaugeSeries

    init(metrics: MetricsRegistry) { gauge = metrics.gauge("coatcheck_detached_work") }

    /// The port that the domain spawns through.
    var spawner: Spawner { Spawner { [self] name, work in spawn(name, work) } }

    private func spawn(_ name: StaticString, _ work: @escaping @Sendable () async -> Void) {
        state.withLock { $0.running += 1 }
        gauge.increment(by: 1)
        // Nothing of the request goes along but what its lines and spans are known by.
        let scope = RequestScope.current
        Task.detached { [self] in
            await RequestScope.$current.withValue(scope) { await work() }
            finish()
        }
    }

    private func finish() {
        gauge.decrement(by: 1)
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.running -= 1
            guard state.running == 0 else { return [] }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Waits until nothing runs.
    func drained() async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                if state.running > 0 { state.waiters.append(continuation) }
                return state.running == 0
            }
            if isIdle { continuation.resume() }
        }
    }

    func run() async throws {
        try? await gracefulShutdown()
        await drained()
    }
}
