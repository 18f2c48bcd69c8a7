import Broker
import BrokerHTTP
import Synchronization

/// Compares the process's clock with the store's now and then, and says in the log when they part.
final class ClockCheck: Sendable {
    private let comparison: ClockComparison
    private let watch: ClockWatch
    private let log: ProcessLog
    /// Guards whether the last word in the log was that they have parted.
    private let isSaid = Mutex(false)

    /// The most that they may part without a word.
    static let tolerance = Duration.seconds(5)
    private static let interval = Duration.seconds(2)
    private static let attempts = 3

    init(_ context: BrokerContext, _ store: any SharedStore, log: ProcessLog) {
        comparison = ClockComparison(context, store)
        watch = context.watch
        self.log = log
    }

    /// Compares before anything is served: some times, where a store under load answers too late to say anything.
    func begin() async {
        for _ in 0..<Self.attempts where watch.ahead == nil { await look() }
    }

    /// Compares once; a store that does not answer says nothing of the clock.
    func look() async {
        guard (try? await comparison.look()) != nil, let ahead = watch.ahead else { return }
        let isApart = ahead > Self.tolerance || ahead < .zero - Self.tolerance
        let wasSaid = isSaid.withLock { isSaid in
            defer { isSaid = isApart }
            return isSaid
        }
        guard isApart != wasSaid else { return }
        if isApart {
            log.write(
                .warning, "the clock is not the store's",
                [("ahead", "\(ahead.components.seconds) s"), ("detail", "beyond a minute no session runs out here")])
        } else {
            log.write(.notice, "the clock is the store's again")
        }
    }

    /// The work of comparing.
    func service(_ clock: BrokerClock) -> RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.interval) { [self] in
            await look()
            return Self.interval
        }
    }
}
