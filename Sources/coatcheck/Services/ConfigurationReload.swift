import Broker

/// Reads the configuration file again and replaces the running configuration, either completely or not at all.
///
/// If the file has a fault, the running configuration stays, and the log gives the reason.
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
                    [
                        (
                            "detail",
                            "a file of the configuration does not answer, for example on a hanging mount; it is used when it does"
                        )
                    ])
            },
            take: { exchange.take($0) })
    }

    /// Reads the file once; returns in three cases: the configuration was replaced; it was refused; or the reading hangs.
    func run() async {
        let isBegun = await reading.run { [load] in
            do throws(ConfigurationFailure) { return .success(try load()) } catch { return .failure(error) }
        }
        if !isBegun { exchange.refuse(["its files do not answer, and several readings hang; check their mounts"]) }
    }

    /// Prevents further replacements of the configuration.
    func stop() { reading.stop() }
}

/// Replaces the running configuration by the configuration that was read from the file.
///
/// `Rereading` passes only one configuration at a time to `take`.
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
            // Even an unchanged configuration can have new warnings, because the mode of a key file may have changed.
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
        // Log only the paths of the changed settings, because values may be secrets.
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
