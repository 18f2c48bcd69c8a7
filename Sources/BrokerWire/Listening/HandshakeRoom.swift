import Synchronization

/// The room for handshakes under way: where there are as many as may be, the one that began first makes room.
///
/// An honest handshake is done in a moment, so what is oldest is most likely nobody's.
package final class HandshakeRoom: Sendable {
    private struct State {
        var next = 0
        /// What ends each handshake, by the order of their beginning.
        var leaving: [Int: @Sendable () -> Void] = [:]
        var oldest = 0
    }

    private let maximum: Int
    private let state = Mutex(State())

    /// Creates a room for so many handshakes.
    package init(maximum: Int = 1024) { self.maximum = max(maximum, 1) }

    /// How many handshakes are under way.
    package var count: Int { state.withLock { $0.leaving.count } }

    /// Begins a handshake; `leave` ends it when another needs its place.
    func enter(_ leave: @escaping @Sendable () -> Void) -> Int {
        let (place, evicted) = state.withLock { state -> (Int, (@Sendable () -> Void)?) in
            var evicted: (@Sendable () -> Void)?
            if state.leaving.count >= maximum {
                while state.oldest < state.next, evicted == nil {
                    evicted = state.leaving.removeValue(forKey: state.oldest)
                    state.oldest += 1
                }
            }
            let place = state.next
            state.next += 1
            state.leaving[place] = leave
            return (place, evicted)
        }
        evicted?()
        return place
    }

    /// Ends a handshake, done or given up.
    func leave(_ place: Int) { state.withLock { _ = $0.leaving.removeValue(forKey: place) } }
}
