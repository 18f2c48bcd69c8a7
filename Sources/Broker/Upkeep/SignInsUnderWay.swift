import Synchronization

/// The sign-ins whose session is about to be stored, and the revocation calls in progress.
///
/// With both tables, the broker prevents a revocation from ending tokens that were just issued.
final class SignInsUnderWay: Sendable {
    private struct Call {
        let origin: SignInOrigin
        let reach: RevocationReach
    }

    private struct State {
        var exchanges: [Digest: SignInOrigin] = [:]
        var calls: [Digest: Call] = [:]
    }

    /// Guards both tables, which contain only the work in progress.
    private let state = Mutex(State())

    /// Registers the owner and sign-in of the session that an exchange is about to make.
    func enter(_ exchange: Digest, _ origin: SignInOrigin) { state.withLock { $0.exchanges[exchange] = origin } }

    /// Removes an exchange that is over.
    func leave(_ exchange: Digest) { state.withLock { $0.exchanges[exchange] = nil } }

    /// Returns whether a revocation in progress would end the tokens of this sign-in, too.
    func isRevoking(_ origin: SignInOrigin) -> Bool {
        state.withLock { state in state.calls.values.contains { $0.reach.takes(origin, from: $0.origin) } }
    }

    /// Registers a revocation that is about to be sent.
    ///
    /// Returns false if it would also end the tokens of a sign-in that is being stored.
    func begin(_ row: Digest, _ reach: RevocationReach, from origin: SignInOrigin) -> Bool {
        state.withLock { state in
            if state.exchanges.values.contains(where: { reach.takes($0, from: origin) }) { return false }
            state.calls[row] = Call(origin: origin, reach: reach)
            return true
        }
    }

    /// Removes a revocation that was answered or left out.
    func end(_ row: Digest) { state.withLock { $0.calls[row] = nil } }
}
