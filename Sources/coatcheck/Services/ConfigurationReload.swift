import Broker
import Dispatch

/// Reads the configuration file again and puts it in the place of the running one, whole or not at all.
///
/// Whatever is wrong with it, the running configuration goes on, and the log says why.
struct ConfigurationReload: Sendable {
    private let parts: ProcessParts
    private let running: ConfigurationOwner
    private let load: @Sendable () throws(ConfigurationFailure) -> Configuration
    private let reloaded: CounterSeries
    private let refused: CounterSeries

    init(
        _ parts: ProcessParts, _ running: ConfigurationOwner,
        load: @escaping @Sendable () throws(ConfigurationFailure) -> Configuration
    ) {
        self.parts = parts
        self.running = running
        self.load = load
        reloaded = parts.metrics.counter("coatcheck_config_reloads_total", [("result", "done")])
        refused = parts.metrics.counter("coatcheck_config_reloads_total", [("result", "refused")])
    }

    /// Runs once; not to be run by two at a time.
    func run() async {
        // Reading files and certificates blocks.
        await withCheckedContinuation { continuation in
            DispatchQueue.global(qos: .utility).async {
                work()
                continuation.resume()
            }
        }
    }

    private func work() {
        let configuration: Configuration
        do throws(ConfigurationFailure) { configuration = try load() } catch {
            return refuse(error.problems.filter { $0.severity == .error }.map(\.description))
        }
        let old = running.current
        let changes = configuration.values.changes(since: old.configuration.values)
        guard !changes.isEmpty else {
            reloaded.increment(by: 1)
            return parts.log.write(.notice, "configuration unchanged")
        }
        let fixed = FixedSettings.changes(old.configuration, configuration)
        guard fixed.isEmpty else {
            return refuse(fixed.map { "\($0): has changed, which takes a restart" })
        }
        let next: RunningConfiguration
        do throws(StartFailure) { next = try RunningConfiguration(configuration, parts, after: old) } catch {
            return refuse([error.description])
        }
        parts.adopt(configuration, next.http)
        _ = running.exchange(for: next)
        old.forget(whatIsNotIn: configuration)
        reloaded.increment(by: 1)
        for warning in configuration.warnings {
            parts.log.write(.warning, "configuration", [("detail", warning.description)])
        }
        // Paths have no values in them.
        parts.log.write(
            .notice, "configuration reloaded",
            [
                ("changed", changes.prefix(20).joined(separator: " ")), ("changes", String(changes.count)),
                ("providers_kept", String(next.kept)),
                ("providers_made", String(configuration.providers.count - next.kept)),
            ])
    }

    private func refuse(_ reasons: [String]) {
        refused.increment(by: 1)
        for reason in reasons { parts.log.write(.error, "configuration not reloaded", [("detail", reason)]) }
    }
}
