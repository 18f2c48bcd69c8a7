import ServiceLifecycle
import UnixSignals

/// Runs an action at each SIGHUP until shutdown; signals that come while it runs have it run once more.
struct ReloadOnHangup: Service {
    let action: @Sendable () async -> Void

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sighup)
        await Self.run(signals, action)
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
