import Synchronization

/// What the connections have to say about themselves: how many stand, and how many were lost.
final class ConnectionObserver: Sendable {
    private struct State {
        var up: Set<Int> = []
        var losses = 0
    }

    /// Guards the figures.
    private let state = Mutex(State())

    /// How many connections stand.
    private let count = Atomic<Int>(0)
    var standing: Int { count.load(ordering: .relaxed) }
    /// How many connections were lost or could not be made.
    var losses: Int { state.withLock { $0.losses } }

    func changed(_ connection: Int, isUp: Bool) {
        state.withLock { state in
            if isUp { state.up.insert(connection) } else if state.up.remove(connection) != nil { state.losses += 1 }
            count.store(state.up.count, ordering: .relaxed)
        }
    }

    func failed() { state.withLock { $0.losses += 1 } }
}
