import Synchronization

/// The connections and unanswered bytes of one address or one network.
///
/// The connections and bytes of an address are also counted for its networks.
final class PeerAccount: Sendable {
    private struct State {
        var policy: PeerPolicy
        var connections = 0
        var heldBytes = 0
        var hasSession = false
    }

    let key: PeerPolicy.Key
    /// The account of the enclosing network; nil for the largest network.
    let wider: PeerAccount?
    private let state: Mutex<State>

    init(_ policy: PeerPolicy, in wider: PeerAccount?) {
        key = policy.key
        self.wider = wider
        state = Mutex(State(policy: policy))
    }

    /// Applies a new policy, and keeps the counts.
    ///
    /// The ledger calls this method for each new connection. The account may be older than the present configuration, because
    /// it exists as long as any of its addresses is connected.
    func adopt(_ policy: PeerPolicy) { state.withLock { $0.policy = policy } }

    /// Whether this account's limit allows another connection.
    var takesConnection: Bool {
        state.withLock { state in
            let policy = state.policy
            let limit = state.hasSession ? policy.connections : policy.anonymousConnections ?? policy.connections
            return limit.map { state.connections < $0 } ?? true
        }
    }

    /// Counts a connection in this account only.
    func open() { state.withLock { $0.connections += 1 } }

    /// Removes a connection from this account only; returns true if it was the account's last.
    func close() -> Bool {
        state.withLock { state in
            state.connections -= 1
            return state.connections <= 0
        }
    }

    /// Notes that one of the account's connections carried a live session.
    func hasSession() {
        state.withLock { $0.hasSession = true }
        wider?.hasSession()
    }

    /// Adds bytes to the counts of the address and its networks; returns false, with the counts unchanged, if one would exceed
    /// its limit.
    func take(_ bytes: Int) -> Bool {
        let isTaken = state.withLock { state in
            if let limit = state.policy.heldBytes, state.heldBytes + bytes > limit { return false }
            state.heldBytes += bytes
            return true
        }
        guard isTaken else { return false }
        guard let wider, !wider.take(bytes) else { return true }
        state.withLock { $0.heldBytes -= bytes }
        return false
    }

    /// Subtracts bytes from the counts of the address and its networks.
    func give(_ bytes: Int) {
        state.withLock { $0.heldBytes -= bytes }
        wider?.give(bytes)
    }
}
