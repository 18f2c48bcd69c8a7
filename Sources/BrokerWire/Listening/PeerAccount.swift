import Synchronization

/// What the connections of one address take now.
final class PeerAccount: Sendable {
    private struct State {
        var connections = 0
        var heldBytes = 0
        var hasSession = false
    }

    let policy: PeerPolicy
    private let state = Mutex(State())

    init(_ policy: PeerPolicy) { self.policy = policy }

    /// Takes a connection; false when the address has enough.
    func open() -> Bool {
        state.withLock { state in
            let limit = state.hasSession ? policy.connections : policy.anonymousConnections ?? policy.connections
            if let limit, state.connections >= limit { return false }
            state.connections += 1
            return true
        }
    }

    /// Gives a connection back; true when it was the last.
    func close() -> Bool {
        state.withLock { state in
            state.connections -= 1
            return state.connections <= 0
        }
    }

    /// Takes note that one of the connections carried a live session.
    func hasSession() { state.withLock { $0.hasSession = true } }

    /// Takes bytes; false when the address holds as many as it may.
    func take(_ bytes: Int) -> Bool {
        guard let limit = policy.heldBytes else { return true }
        return state.withLock { state in
            guard state.heldBytes + bytes <= limit else { return false }
            state.heldBytes += bytes
            return true
        }
    }

    /// Gives bytes back.
    func give(_ bytes: Int) {
        guard policy.heldBytes != nil else { return }
        state.withLock { $0.heldBytes -= bytes }
    }
}
