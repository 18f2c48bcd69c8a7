import Synchronization

/// The claim that a flight or an exchange holds, renewed while its owner lives.
final class HeldClaim: Sendable {
    private struct State {
        var fence: Int64?
        var renewedAt = Duration.zero
    }

    /// A claim is renewed when so much time has passed.
    static let renewal = Duration.seconds(8)

    /// Guards fence and time.
    private let state = Mutex(State())

    func take(_ fence: Int64, at moment: Duration) {
        state.withLock { $0 = State(fence: fence, renewedAt: moment) }
    }

    func drop() { state.withLock { $0.fence = nil } }

    func renewed(at moment: Duration) { state.withLock { $0.renewedAt = moment } }

    /// Returns the fence of a claim that is to be renewed now, or nil.
    func due(at moment: Duration) -> Int64? {
        state.withLock { state in moment - state.renewedAt >= Self.renewal ? state.fence : nil }
    }

    /// Renews the claim for as long as its owner lives: looks once a second, until the task is cancelled.
    ///
    /// - Parameters:
    ///   - clock: The time, and the waiting.
    ///   - look: Called with the time at each look.
    ///   - renew: Returns whether the claim of this fence still stands; nil when the store did not say.
    func keepAlive(
        _ clock: BrokerClock, look: (Duration) -> Void = { _ in }, renew: (Int64) async -> Bool?
    ) async {
        while !Task.isCancelled {
            do { try await clock.sleep(.seconds(1)) } catch { return }
            let moment = clock.monotonic()
            look(moment)
            guard let fence = due(at: moment) else { continue }
            switch await renew(fence) {
            case true: renewed(at: moment)
            case false: drop()
            case nil: break
            }
        }
    }
}
