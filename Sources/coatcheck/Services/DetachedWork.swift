import Broker
import ServiceLifecycle
import Synchronization

/// The production spawner, for work that must outlive the request that started it.
///
/// The shutdown waits until all of this work is done, but at most until the time limit of the service group (SEC-123).
final class DetachedWork: Service {
    private struct State {
        var running = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    /// Guards the number of running pieces of work, and the callers that wait for their end.
    private let state = Mutex(State())
    private let gauge: GaugeSeries

    init(metrics: MetricsRegistry) { gauge = metrics.gauge("coatcheck_detached_work") }

    /// The port through which the module `Broker` starts work that must outlive its request.
    var spawner: Spawner { Spawner { [self] name, work in spawn(name, work) } }

    private func spawn(_ name: StaticString, _ work: @escaping @Sendable () async -> Void) {
        state.withLock { $0.running += 1 }
        gauge.increment(by: 1)
        // The work inherits only the request's ids for its log lines and spans.
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

    /// Waits until all work has ended.
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
