import Synchronization

/// The charges for verifying one logout token, or one id_token from an app.
///
/// A fetch of newer keys, and each attempt with one of several keys of the same name, costs as much as a wrong token. The
/// charges are refunded when the token verifies.
final class KeyFetchCharge: Sendable {
    private enum State {
        case taken(Int)
        case refused(BrokerProblem, taken: Int)
    }

    private let charge: Charge
    private let state = Mutex(State.taken(0))

    init(_ charge: Charge) { self.charge = charge }

    /// Whether a fetch of keys, or an attempt with a key, was charged; false once a charge was refused.
    var isTaken: Bool { state.withLock { if case .taken(let count) = $0 { count > 0 } else { false } } }

    private var count: Int {
        state.withLock {
            switch $0 {
            case .taken(let count), .refused(_, let count): count
            }
        }
    }

    /// The problem of the charge that was refused; nil if all charges succeeded.
    var refusal: BrokerProblem? { state.withLock { if case .refused(let problem, _) = $0 { problem } else { nil } } }

    /// Charges a fetch of keys, or an attempt with a key; false if the address has used up its limit.
    func take() -> Bool {
        do throws(BrokerProblem) { try charge.takeWrongToken() } catch {
            let before = count
            state.withLock { $0 = .refused(error, taken: before) }
            return false
        }
        let before = count
        state.withLock { $0 = .taken(before + 1) }
        return true
    }

    /// Refunds all charges.
    func giveBack() {
        for _ in 0..<count { charge.giveBackWrongToken() }
    }
}
