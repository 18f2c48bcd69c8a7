import Synchronization

/// What the connections of one address, or of one network, take now; what an address takes, its networks take with it.
final class PeerAccount: Sendable {
    private struct State {
        var policy: PeerPolicy
        var connections = 0
        var heldBytes = 0
        var hasSession = false
    }

    let key: PeerPolicy.Key
    /// The account of the network that it is in; nil for the widest that is counted.
    let wider: PeerAccount?
    private let state: Mutex<State>

    init(_ policy: PeerPolicy, in wider: PeerAccount?) {
        key = policy.key
        self.wider = wider
        state = Mutex(State(policy: policy))
    }

    /// Goes on with what may be taken now: the account of a network lives for as long as anybody in it is connected.
    func adopt(_ policy: PeerPolicy) { state.withLock { $0.policy = policy } }

    /// Whether another connection may be opened, as far as this account goes.
    var takesConnection: Bool {
        state.withLock { state in
            let policy = state.policy
            let limit = state.hasSession ? policy.connections : policy.anonymousConnections ?? policy.connections
            return limit.map { state.connections < $0 } ?? true
        }
    }

    /// Takes a connection, here alone.
    func open() { state.withLock { $0.connections += 1 } }

    /// Gives a connection back, here alone; true when it was the last.
    func close() -> Bool {
        state.withLock { state in
            state.connections -= 1
            return state.connections <= 0
        }
    }

    /// Takes note that one of the connections carried a live session.
    func hasSession() {
        state.withLock { $0.hasSession = true }
        wider?.hasSession()
    }

    /// Takes bytes; false when the address or one of its networks holds as many as it may.
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

    /// Gives bytes back.
    func give(_ bytes: Int) {
        state.withLock { $0.heldBytes -= bytes }
        wider?.give(bytes)
    }
}
