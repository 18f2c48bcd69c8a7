import Broker
import BrokerStore
import Synchronization

/// Checks at intervals whether the store's role has the rights that the tables need.
///
/// A process that starts without these rights becomes ready when its role gets them. If the role loses some rights later,
/// because another role has migrated, the process reports the loss but stays ready, because it can still serve sessions.
final class RightsWatch: Sendable {
    private struct State {
        /// The rights that were missing at the last check, in a sentence; nil if the role had all.
        var lacking: String?
        var hadAll = false
    }

    private let ask: @Sendable () async throws(StoreFailure) -> String?
    private let log: ProcessLog
    private let state = Mutex(State())

    private static let interval = Duration.seconds(30)
    /// The pause between checks while rights are missing.
    ///
    /// The pause is short, because an operator is probably granting the missing rights.
    private static let faultyInterval = Duration.seconds(2)

    /// Creates the check.
    ///
    /// `ask` returns the missing rights in a sentence.
    init(_ ask: @escaping @Sendable () async throws(StoreFailure) -> String?, log: ProcessLog) {
        self.ask = ask
        self.log = log
    }

    /// Whether the rights allow the process to report ready.
    var isGood: Bool { state.withLock { $0.lacking == nil || $0.hadAll } }

    /// The rights that were missing at the last check, in a sentence; nil if the role had all.
    var lacking: String? { state.withLock { $0.lacking } }

    /// Checks the rights once.
    ///
    /// If the store does not answer, the last result stays.
    func look() async {
        let found: String?
        do throws(StoreFailure) { found = try await ask() } catch { return }
        let before = state.withLock { state in
            defer {
                state.lacking = found
                state.hadAll = state.hadAll || found == nil
            }
            return state.lacking
        }
        guard found != before else { return }
        if let found {
            log.write(.error, "the store's role lacks rights", [("detail", "\(found); GRANT them to it")])
        } else {
            log.write(.notice, "the store's role has its rights again")
        }
    }

    /// Returns the service that repeats the check.
    func service(_ clock: BrokerClock) -> RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.faultyInterval) { [self] in
            await look()
            return lacking == nil ? Self.interval : Self.faultyInterval
        }
    }
}
