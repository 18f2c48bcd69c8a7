import Broker
import BrokerProviders
import Synchronization

/// Logs one line when a dependency of the broker becomes unreachable, and one when it is back.
///
/// The log lines of requests and the metrics show the failed calls during the outage.
final class Outages: Sendable {
    private let log: ProcessLog
    private let monotonic: @Sendable () -> Duration
    /// Whether the process is ending.
    ///
    /// Connections that close meanwhile are not logged as an outage.
    private let isEnding: @Sendable () -> Bool
    /// Guards two facts: whether PostgreSQL was ever reached, and since when it has been unreachable.
    private let store = Mutex<(isKnown: Bool, awaySince: Duration?)>((false, nil))

    init(
        log: ProcessLog, monotonic: @escaping @Sendable () -> Duration, isEnding: @escaping @Sendable () -> Bool
    ) {
        self.log = log
        self.monotonic = monotonic
        self.isEnding = isEnding
    }

    /// Logs a provider's breaker that opens or closes.
    func note(_ turn: BreakerTurn) {
        let calls = turn.isLogOut ? "its log-out page" : "all calls to it"
        let members = [("provider", turn.provider.text), ("calls", calls)]
        if turn.isOpen {
            log.write(.warning, "a provider does not answer: its breaker is open", members)
        } else {
            log.write(.notice, "a provider answers again: its breaker is closed", members)
        }
    }

    /// Handles a notice from the connection that receives other replicas' notices.
    ///
    /// The broker always keeps this connection open, so its state shows whether PostgreSQL is reachable.
    func note(_ notice: EndingNotice) {
        let now = monotonic()
        switch notice {
        case .hearing:
            let away = store.withLock { store -> Duration? in
                defer { store = (true, nil) }
                return store.awaySince.map { now - $0 }
            }
            guard let away else { return }
            log.write(.notice, "PostgreSQL is back", [("away_ms", String(away.wholeMilliseconds))])
        case .deaf:
            let isNew = store.withLock { store in
                guard store.isKnown, store.awaySince == nil else { return false }
                store.awaySince = now
                return true
            }
            guard isNew, !isEnding() else { return }
            log.write(
                .error, "PostgreSQL is away",
                [
                    (
                        "detail",
                        "requests that need the store get 503, and sessions are kept; caching resumes when it is back"
                    )
                ])
        case .ended, .steppedUp, .changed: break
        }
    }
}
