import ServiceLifecycle
import UnixSignals

/// Runs an action at each SIGHUP until shutdown.
///
/// Any number of signals during a run causes one more run. The caller traps SIGHUP at the process's start, so that signals
/// before this service runs are kept.
struct ReloadOnHangup: Service {
    let signals: UnixSignalsSequence
    let action: @Sendable () async -> Void
    /// Called after the last run.
    ///
    /// At shutdown, a run that still waits for a file is cancelled.
    let end: @Sendable () -> Void

    func run() async throws {
        await Self.run(signals, action)
        end()
    }

    /// Runs an action for the elements of a sequence, one at a time.
    static func run<Signals: AsyncSequence & Sendable>(
        _ signals: Signals, _ action: @escaping @Sendable () async -> Void
    ) async {
        let (asked, asking) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    do { for try await _ in signals { asking.yield() } } catch {}
                    asking.finish()
                }
                for await _ in asked { await action() }
                group.cancelAll()
            }
        }
    }
}
