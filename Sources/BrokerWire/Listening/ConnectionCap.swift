import Synchronization

/// A limit on the open connections of all listeners that share it.
package final class ConnectionCap: Sendable {
    private struct State {
        var open = 0
        var waiting: [@Sendable () -> Void] = []
    }

    /// The highest number of open connections.
    package let maximum: Int
    private let isFull: @Sendable () -> Void
    private let state = Mutex(State())

    /// Creates a cap.
    ///
    /// `isFull` is called each time that a listener has to stop accepting.
    package init(maximum: Int, isFull: @escaping @Sendable () -> Void = {}) {
        self.maximum = max(maximum, 1)
        self.isFull = isFull
    }

    /// The number of open connections.
    package var count: Int { state.withLock { $0.open } }

    /// Counts an accepted connection.
    func opened() { state.withLock { $0.open += 1 } }

    /// Removes a closed connection from the count, and lets waiting listeners accept again.
    func closed() {
        let waiting = state.withLock { state -> [@Sendable () -> Void] in
            state.open -= 1
            guard state.open < maximum else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for resume in waiting { resume() }
    }

    /// Returns whether another connection may be accepted.
    ///
    /// If not, `resume` is called when a connection has closed.
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
