import Synchronization

/// A bound on the open connections of all listeners that share it.
package final class ConnectionCap: Sendable {
    private struct State {
        var open = 0
        var waiting: [@Sendable () -> Void] = []
    }

    /// How many connections there may be.
    package let maximum: Int
    private let isFull: @Sendable () -> Void
    private let state = Mutex(State())

    /// Creates a cap of so many connections; `isFull` hears of it each time that a listener has to stop accepting.
    package init(maximum: Int, isFull: @escaping @Sendable () -> Void = {}) {
        self.maximum = max(maximum, 1)
        self.isFull = isFull
    }

    /// How many connections are open.
    package var count: Int { state.withLock { $0.open } }

    /// Takes note of a connection that was accepted.
    func opened() { state.withLock { $0.open += 1 } }

    /// Takes note of a connection that is gone, and lets a listener that waits accept again.
    func closed() {
        let waiting = state.withLock { state -> [@Sendable () -> Void] in
            state.open -= 1
            guard state.open < maximum else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for resume in waiting { resume() }
    }

    /// Returns whether another connection may be accepted; calls `resume` later when it may not.
    func admits(orElse resume: @escaping @Sendable () -> Void) -> Bool {
        let isAdmitted = state.withLock { state in
            guard state.open >= maximum else { return true }
            state.waiting.append(resume)
            return false
        }
        if !isAdmitted { isFull() }
        return isAdmitted
    }
}
