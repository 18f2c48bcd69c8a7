import Synchronization

/// The exchanges whose session is about to be stored, and the revocation calls in progress.
///
/// With both tables, the broker prevents a revocation from ending tokens that a sign-in has just received.
final class SignInsUnderWay: Sendable {
    private struct Call {
        let origin: SignInOrigin
        let reach: RevocationReach
    }

    private struct State {
        var exchanges: [Digest: SignInOrigin] = [:]
        var calls: [Digest: Call] = [:]
    }

    /// Guards both tables.
    ///
    /// The tables contain only exchanges and revocation calls in progress.
    private let state = Mutex(State())

    /// Registers an exchange that is about to make a session, with the user and the sign-in of this session.
    func enter(_ exchange: Digest, _ origin: SignInOrigin) { state.withLock { $0.exchanges[exchange] = origin } }

    /// Removes an exchange that has ended.
    func leave(_ exchange: Digest) { state.withLock { $0.exchanges[exchange] = nil } }

    /// Returns whether a revocation call in progress would also end the tokens of the given sign-in.
    func isRevoking(_ origin: SignInOrigin) -> Bool {
        state.withLock { state in state.calls.values.contains { $0.reach.takes(origin, from: $0.origin) } }
    }

    /// Registers a revocation call that is about to be sent.
    ///
    /// Returns false if the call is forbidden, because it would also end the tokens of a sign-in whose session is being stored.
    func begin(_ row: Digest, _ reach: RevocationReach, from origin: SignInOrigin) -> Bool {
        state.withLock { state in
            if state.exchanges.values.contains(where: { reach.takes($0, from: origin) }) { return false }
            state.calls[row] = Call(origin: origin, reach: reach)
            return true
        }
    }

    /// Removes a revocation call that was answered or omitted.
    func end(_ row: Digest) { state.withLock { $0.calls[row] = nil } }
}
