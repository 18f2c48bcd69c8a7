import Synchronization

/// What one logout token's fetch of newer keys is charged: a wrong token, which comes back when the token verifies.
final class KeyFetchCharge: Sendable {
    private enum State {
        case untouched, taken
        case refused(BrokerProblem)
    }

    private let charge: Charge
    private let state = Mutex(State.untouched)

    init(_ charge: Charge) { self.charge = charge }

    /// Whether the fetch was charged.
    var isTaken: Bool { state.withLock { if case .taken = $0 { true } else { false } } }

    /// Why the caller could not be charged.
    var refusal: BrokerProblem? { state.withLock { if case .refused(let problem) = $0 { problem } else { nil } } }

    /// Charges the fetch; false when the caller cannot be charged.
    func take() -> Bool {
        do throws(BrokerProblem) { try charge.takeWrongToken() } catch {
            state.withLock { $0 = .refused(error) }
            return false
        }
        state.withLock { $0 = .taken }
        return true
    }

    /// Gives back what was taken.
    func giveBack() {
        if isTaken { charge.giveBackWrongToken() }
    }
}
