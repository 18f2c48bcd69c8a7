import Synchronization

/// The sign-ins whose session is about to be stored, and the revocations that are being sent, so that none of the latter
/// meets a token that has just been made.
final class SignInsUnderWay: Sendable {
    private struct Call {
        let origin: SignInOrigin
        let reach: RevocationReach
    }

    private struct State {
        var exchanges: [Digest: SignInOrigin] = [:]
        var calls: [Digest: Call] = [:]
    }

    /// Guards both tables; they hold what this process does right now.
    private let state = Mutex(State())

    /// Notes whose session an exchange is about to make.
    func enter(_ exchange: Digest, _ origin: SignInOrigin) { state.withLock { $0.exchanges[exchange] = origin } }

    /// Forgets an exchange that is over.
    func leave(_ exchange: Digest) { state.withLock { $0.exchanges[exchange] = nil } }

    /// Returns whether a revocation is being sent that takes tokens of this origin along.
    func isRevoking(_ origin: SignInOrigin) -> Bool {
        state.withLock { state in state.calls.values.contains { $0.reach.takes(origin, from: $0.origin) } }
    }

    /// Notes a revocation that is about to be sent; false where an exchange is under way that it would take along.
    func begin(_ row: Digest, _ reach: RevocationReach, from origin: SignInOrigin) -> Bool {
        state.withLock { state in
            if state.exchanges.values.contains(where: { reach.takes($0, from: origin) }) { return false }
            state.calls[row] = Call(origin: origin, reach: reach)
            return true
        }
    }

    /// Forgets a revocation that was answered, or was not sent.
    func end(_ row: Digest) { state.withLock { $0.calls[row] = nil } }
}
