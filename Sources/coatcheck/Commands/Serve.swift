import ArgumentParser
import Broker
import BrokerHTTP
import BrokerStore
import Glibc
import Logging
import ServiceLifecycle
import UnixSignals

/// Runs the broker.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the broker until SIGTERM or SIGINT.",
        discussion: """
            Its log is JSON lines on standard error. The key file is watched. SIGHUP reads it and the configuration again; \
            what cannot be used changes nothing. Sockets that systemd hands over (public, backend, management) are listened \
            on in place of the configuration's addresses.
            """)

    @OptionGroup var file: ConfigOption

    @Flag(
        help: """
            Take the machine's clock for right whatever the database has seen: for one start, after the log has said that \
            the clock is doubted and you have looked at it.
            """)
    var trustClock = false

    func run() async throws {
        // Hooks of certbot and logrotate may send SIGHUP before the process is ready, so collect the signals from now on.
        // Before this line, the process ignores SIGHUP, as `main` has set.
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        // The broker must continue if the reader of its log ends, so ignore SIGPIPE.
        signal(SIGPIPE, SIG_IGN)
        ProcessMetrics.begin()
        // If the file changes after this line and SIGHUP is sent, the broker reads the file again as soon as it runs.
        let configuration = try file.load()
        let sink = LogSink()
        let log = ProcessLog(level: configuration.log.level, now: SystemClock.wallTime, emit: { sink.write($0) })
        defer { sink.close() }
        do {
            try await serve(configuration, hangups, log, sink)
        } catch {
            log.write(.error, "cannot start", [("detail", "\(error)")])
            throw ExitCode(1)
        }
    }

    private func serve(
        _ configuration: Configuration, _ hangups: UnixSignalsSequence, _ log: ProcessLog, _ sink: LogSink
    ) async throws {
        for warning in configuration.warnings {
            log.write(.warning, "configuration", [("detail", warning.description)])
        }
        let handedOver = try ListeningSockets.handedOver()
        let wait = StartWait(clock: SystemClock.clock) { log.write(.warning, "waiting", [("detail", $0)]) }
        let store = try await wait.retrying { () throws(StoreOpenFailure) in
            try await configuration.store.open(longestLifetime: configuration.longestLifetime)
        } while: { failure in
            if case .locked = failure { true } else { false }
        }
        let composition: Composition
        let sockets: ListeningSockets
        do {
            // Open the sockets right after the store. The previous process releases the store's lock just before its sockets,
            // so the sockets become free about now. From here on, connections wait until everything is ready.
            sockets = try await ListeningSockets.open(configuration, handedOver: handedOver, wait: wait)
            composition = try Composition.make(configuration, log: log, store: store)
        } catch {
            await store.close()
            throw error
        }
        LoggingSystem.bootstrap { label in
            JSONLogHandler(label: label, level: .warning, sink: sink, now: SystemClock.wallTime)
        }
        let services = composition.services(
            on: sockets, hangups: hangups,
            listening: { listener, port in
                let from = handedOver[listener] == nil ? [] : [("from", "handed over")]
                log.write(.notice, "listening", [("listener", listener.rawValue), ("port", String(port))] + from)
            },
            load: { [path = file.config] () throws(ConfigurationFailure) in try Configuration.load(path: path) })
        var group = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger(label: "services"))
        group.maximumGracefulShutdownDuration = composition.parts.readiness.limit
        await composition.parts.clockCheck.begin()
        let start = try await Sweeper.checkClock(composition.parts.context, isTrusted: trustClock)
        if let words = start.words {
            log.write(start == .uncertain ? .notice : .warning, words.message, [("detail", words.detail)])
        }
        await composition.parts.rightsWatch?.look()
        await composition.parts.ringWatch.look()
        log.write(.notice, "starting", [("version", Version.text)])
        do {
            try await ServiceGroup(configuration: group).run()
        } catch {
            await composition.close()
            throw error
        }
        await composition.close()
        await sockets.close()
        log.write(.notice, "stopped")
    }
}

extension ClockStart {
    /// The result of comparing the clock with the last time that the store has seen, in words for an operator.
    ///
    /// Nil in two cases: there is nothing to report; or the comparison with the database's clock has already reported the fault.
    fileprivate var words: (message: String, detail: String)? {
        switch self {
        case .believed, .off: nil
        case .uncertain:
            (
                "the clock is more than a day beyond the last time this database has seen",
                "expired sessions are kept for a day of running, because the clock may be wrong"
            )
        case .doubted:
            (
                "the clock is more than a week beyond the last time this database has seen",
                "until there is evidence, sessions do not expire for an hour, and sign-ins on SQLite are refused; if the clock is right, start once with --trust-clock"
            )
        case .behind:
            (
                "the clock is behind the last time this database has seen",
                "sessions do not expire and sign-ins are refused until it has caught up or there is evidence; if the clock is right, start once with --trust-clock"
            )
        }
    }
}
