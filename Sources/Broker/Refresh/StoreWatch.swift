import Synchronization

/// How the store stands for this process: since when nothing failed, and how many results in hand it did not take yet.
final class StoreWatch: Sendable {
    private struct State {
        var standsSince: Duration
        /// Pairs of refreshes that a store refused.
        var unwritten = 0
        /// Results of exchanges on their way into the store.
        var results = 0
    }

    /// Lapsed claims are taken over only when the store has stood for so long: who holds a pair comes first.
    static let calm = Duration.seconds(5)
    /// With so many results in hand nothing new is begun.
    static let capacity = 1_000

    /// Guards the two figures.
    private let state: Mutex<State>

    init(startedAt moment: Duration) { state = Mutex(State(standsSince: moment)) }

    func failed(at moment: Duration) { state.withLock { $0.standsSince = max($0.standsSince, moment) } }

    /// Returns whether lapsed claims may be taken over.
    func isCalm(at moment: Duration) -> Bool { state.withLock { moment - $0.standsSince >= Self.calm } }

    /// Notes that a pair is in hand that the store did not take.
    func keep() { state.withLock { $0.unwritten += 1 } }

    func wrote() { state.withLock { $0.unwritten -= 1 } }

    /// Notes that an exchange's result is on its way into the store.
    func keepResult() { state.withLock { $0.results += 1 } }

    func wroteResult() { state.withLock { $0.results -= 1 } }

    /// Whether pairs wait to be written: no refresh is claimed before they are.
    var isOwed: Bool { state.withLock { $0.unwritten > 0 } }

    /// Whether so many wait that nothing new may begin.
    var isFull: Bool { state.withLock { $0.unwritten + $0.results >= Self.capacity } }
}
