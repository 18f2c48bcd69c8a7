import Synchronization

/// Remembers for which addresses a line was written in this window, so that each is named once in it.
///
/// Bounded: of more addresses than it can hold the rest share one line.
final class AddressLines: Sendable {
    /// What to write.
    enum Line: Equatable { case none, one, manyMore }

    private struct State {
        var since = Duration.zero
        var seen: Set<String> = []
    }

    private let window: Duration
    private let capacity: Int
    private let monotonic: @Sendable () -> Duration
    /// Guards what was written in this window.
    private let state: Mutex<State>

    init(window: Duration, capacity: Int, monotonic: @escaping @Sendable () -> Duration) {
        self.window = window
        self.capacity = capacity
        self.monotonic = monotonic
        state = Mutex(State(since: monotonic()))
    }

    /// Returns what to write about an address that was met now.
    func line(for address: String) -> Line {
        let now = monotonic()
        return state.withLock { state in
            if now - state.since >= window { state = State(since: now) }
            guard state.seen.count <= capacity, state.seen.insert(address).inserted else { return .none }
            return state.seen.count <= capacity ? .one : .manyMore
        }
    }
}
