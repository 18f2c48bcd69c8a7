import Broker
import BrokerHTTP
import Synchronization

/// Compares the process's clock with the store's at intervals, and logs doubts with their reason.
///
/// While the clock is in doubt, the check also looks for evidence of the right time.
final class ClockCheck: Sendable {
    private struct Said {
        /// Whether the last log line reported that the clock differs from the store's.
        var isApart = false
        var doubt: ClockDoubt?
        var witnesses: [ClockWitness] = []
    }

    private let context: BrokerContext
    private let comparison: ClockComparison?
    private let log: ProcessLog
    private let said = Mutex(Said())

    /// The largest difference that is not logged.
    static let tolerance = Duration.seconds(5)
    private static let interval = Duration.seconds(2)
    private static let attempts = 3

    /// Creates the check.
    ///
    /// `store` is nil if the store has no clock of its own.
    init(_ context: BrokerContext, _ store: (any SharedStore)?, log: ProcessLog) {
        self.context = context
        comparison = store.map { ClockComparison(context, $0) }
        self.log = log
    }

    /// Compares the clocks before any request is served.
    ///
    /// Several attempts are made, because a store under load may answer too late for a comparison.
    func begin() async {
        for _ in 0..<Self.attempts where comparison != nil && context.watch.ahead == nil { await look() }
    }

    /// Compares the clocks once.
    ///
    /// If the store does not answer, this check has no effect.
    func look() async {
        guard let comparison, (try? await comparison.look()) != nil, let ahead = context.watch.ahead else { return }
        let isApart = ahead > Self.tolerance || ahead < .zero - Self.tolerance
        let wasSaid = said.withLock { said in
            defer { said.isApart = isApart }
            return said.isApart
        }
        guard isApart != wasSaid else { return }
        if isApart {
            log.write(
                .warning, "the clock differs from the store's",
                [
                    ("ahead", "\(ahead.components.seconds) s"),
                    (
                        "detail",
                        "the store's time is used; set this machine's clock; if they differ by over a minute, sessions do not expire"
                    ),
                ])
        } else {
            log.write(.notice, "the clock is the store's again")
        }
    }

    /// Logs a line when one of these begins or ends: a doubt about the clock; or a kind of evidence that its time is right.
    private func tell() {
        let now = context.watch.standing(context.clock)
        let before = said.withLock { said in
            defer { (said.doubt, said.witnesses) = (now.doubt, now.witnesses) }
            return said
        }
        let evidence = [
            ("evidence", now.witnesses.isEmpty ? "none" : now.witnesses.map(\.word).joined(separator: ", "))
        ]
        if let doubt = now.doubt {
            guard doubt != before.doubt || now.witnesses != before.witnesses else { return }
            let level = doubt == .uncertain ? LogSettings.Level.notice : .warning
            log.write(
                level, "the clock is doubted",
                [("reason", doubt.rawValue)] + evidence + [("detail", doubt.consequence)])
        } else if before.doubt != nil {
            log.write(.notice, "the clock is trusted", [("by", now.isProven ? "evidence" : "time")])
        }
    }

    /// The service that compares the process's clock with the store's clock at intervals.
    var comparing: RepeatedWork {
        RepeatedWork(clock: context.clock, delay: Self.interval) { [self] in
            await look()
            return Self.interval
        }
    }

    /// Returns the service that looks for evidence of the right time at intervals, and may wait for providers.
    ///
    /// `providers` returns the providers of the current configuration.
    func inquiring(_ providers: @escaping @Sendable () -> ProviderDirectory) -> RepeatedWork {
        let inquiry = ClockInquiry(
            context, kernel: KernelClock.isSynchronised,
            sources: { providers().all.compactMap { $0 as? any TimeTelling } })
        return RepeatedWork(clock: context.clock, delay: Self.interval) { [self] in
            do throws(StoreFailure) { try await inquiry.look() } catch {
                context.events.emit(.storeFailed(operation: "slide", detail: "\(error)"))
            }
            tell()
            return Self.interval
        }
    }
}

extension ClockDoubt {
    /// The consequence of the doubt, in words for operators.
    fileprivate var consequence: String {
        switch self {
        case .jumped, .absent, .behind: "sessions do not expire; on SQLite, sign-ins need evidence of the time"
        case .apart, .uncompared, .storeJumped: "sessions do not expire"
        case .uncertain: "sessions expire, but their rows are kept"
        }
    }
}
