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
}
