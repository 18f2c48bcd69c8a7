import ServiceLifecycle
import UnixSignals

/// Runs an action at each SIGHUP until shutdown; signals that come while it runs have it run once more.
///
/// The signals are trapped by whoever starts the process, so that none is lost that came before the action could run.
struct ReloadOnHangup: Service {
    let signals: UnixSignalsSequence
    let action: @Sendable () async -> Void
    /// What comes after the last run, which a shutdown does not wait for.
    let end: @Sendable () -> Void

    func run() async throws {
        await Self.run(signals, action)
        end()
    }

    /// Runs an action for what a sequence brings, one at a time.
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
