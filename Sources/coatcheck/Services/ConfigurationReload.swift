import Broker
import ServiceLifecycle
import UnixSignals

/// Reads the configuration file again and puts it in the place of the running one, whole or not at all.
///
/// Whatever is wrong with it, the running configuration goes on, and the log says why.
struct ConfigurationReload: Sendable {
    typealias Load = @Sendable () throws(ConfigurationFailure) -> Configuration

    private let load: Load
    private let reading: Rereading<Result<Configuration, ConfigurationFailure>>
    private let exchange: Exchange

    init(_ parts: ProcessParts, _ running: ConfigurationOwner, load: @escaping Load) {
        self.load = load
        let exchange = Exchange(parts, running)
        self.exchange = exchange
        reading = Rereading(
            sleep: parts.context.clock.sleep,
            isLate: {
                parts.log.write(
                    .warning, "reload still reading",
                    [("detail", "a file of the configuration does not answer; it is taken over when it does")])
            },
            take: { exchange.take($0) })
    }

    /// Runs once, until the file is in force or refused, or until reading it hangs.
    func run() async {
        let isBegun = await reading.run { [load] in
            do throws(ConfigurationFailure) { return .success(try load()) } catch { return .failure(error) }
        }
        if !isBegun { exchange.refuse(["its files do not answer: several readings of them hang"]) }
    }

    /// Exchanges nothing more from here on.
    func stop() { reading.stop() }
}

/// Puts a configuration that was read in the place of the running one; used by one at a time.
private struct Exchange: Sendable {
    private let parts: ProcessParts
    private let running: ConfigurationOwner
    private let reloaded: CounterSeries
    private let refused: CounterSeries

    init(_ parts: ProcessParts, _ running: ConfigurationOwner) {
        self.parts = parts
        self.running = running
        reloaded = parts.metrics.counter("coatcheck_config_reloads_total", [("result", "done")])
        refused = parts.metrics.counter("coatcheck_config_reloads_total", [("result", "refused")])
    }

    func take(_ read: Result<Configuration, ConfigurationFailure>) {
        switch read {
        case .success(let configuration): exchange(configuration)
        case .failure(let failure): refuse(failure.problems.filter { $0.severity == .error }.map(\.description))
        }
    }

    private func exchange(_ configuration: Configuration) {
        let old = running.current
        let changes = configuration.values.changes(since: old.configuration.values)
        guard !changes.isEmpty else {
            reloaded.increment(by: 1)
            // A warning may be due since the file was read: a key's mode stands in no setting.
            warn(configuration)
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
        warn(configuration)
        // Paths have no values in them.
        parts.log.write(
            .notice, "configuration reloaded",
            [
                ("changed", changes.prefix(20).joined(separator: " ")), ("changes", String(changes.count)),
                ("providers_kept", String(next.kept)),
                ("providers_made", String(configuration.providers.count - next.kept)),
            ])
    }

    private func warn(_ configuration: Configuration) {
        for warning in configuration.warnings {
            parts.log.write(.warning, "configuration", [("detail", warning.description)])
        }
    }

    func refuse(_ reasons: [String]) {
        refused.increment(by: 1)
        for reason in reasons { parts.log.write(.error, "configuration not reloaded", [("detail", reason)]) }
    }
}

/// Runs an action at each SIGHUP until shutdown; signals that come while it runs have it run once more.
///
/// The signals are trapped by whoever starts the process, so that none is lost that came before the action could run.
struct ReloadOnHangup: Service {
    let signals: UnixSignalsSequence
    let action: @Sendable () async -> Void
    /// The work after the last run, which a shutdown does not wait for.
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
