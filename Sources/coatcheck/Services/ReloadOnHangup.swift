import ServiceLifecycle
import UnixSignals

/// Runs an action at each SIGHUP until shutdown.
struct ReloadOnHangup: Service {
    let action: @Sendable () async -> Void

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sighup)
        await cancelWhenGracefulShutdown {
            for await _ in signals { await action() }
        }
    }
}
