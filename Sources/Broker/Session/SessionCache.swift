import Synchronization

/// The hot path's bounded cache of sealed rows (DESIGN section 6).
///
/// An entry lives 5 s at most; an ending removes it at once, and a load that began before an ending does not insert
/// (SEC-129).
package final class SessionCache: Sendable {
    private struct Entry {
        let row: SessionRow
        let until: Duration
    }

    private struct State {
        var entries: [Digest: Entry] = [:]
        var generation: UInt64 = 0
        var open: Bool
    }

    private let lifetime: Duration
    private let capacity: Int
    /// Guards the entries, the count of endings, and whether anything may be cached.
    private let state: Mutex<State>

    /// Creates a cache; a lifetime of zero caches nothing.
    package init(lifetime: Duration = .seconds(5), capacity: Int = 100_000) {
        self.lifetime = min(lifetime, .seconds(5))
        self.capacity = capacity
        state = Mutex(State(open: lifetime > .zero))
    }

    /// Returns a fresh row, or the generation to load under.
    func lookUp(_ token: Digest, at moment: Duration) -> (row: SessionRow?, generation: UInt64) {
        state.withLock { state in
            guard let entry = state.entries[token] else { return (nil, state.generation) }
            guard moment < entry.until else {
                state.entries[token] = nil
                return (nil, state.generation)
            }
            return (entry.row, state.generation)
        }
    }

    /// Keeps a loaded row, unless something ended since the load began.
    func insert(_ row: SessionRow, loadedAt moment: Duration, generation: UInt64) {
        state.withLock { state in
            guard state.open, state.generation == generation, capacity > 0 else { return }
            if state.entries.count >= capacity, state.entries[row.token] == nil {
                state.entries = state.entries.filter { moment < $0.value.until }
                // All of them are fresh: start over rather than search; they come back within one read each.
                if state.entries.count >= capacity { state.entries = [:] }
            }
            state.entries[row.token] = Entry(row: row, until: moment + lifetime)
        }
    }

    /// Replaces a row that this process changed itself (a slide, a refresh), if it is cached.
    func update(_ token: Digest, _ change: (inout SessionRow) -> Void) {
        state.withLock { state in
            guard let entry = state.entries[token] else { return }
            var row = entry.row
            change(&row)
            state.entries[token] = Entry(row: row, until: entry.until)
        }
    }

    /// Forgets rows, for an ending, a refresh or a notice of one.
    package func remove(_ tokens: [Digest]) {
        state.withLock { state in
            state.generation &+= 1
            for token in tokens { state.entries[token] = nil }
        }
    }

    /// Empties the cache and says whether it may be filled: false while notices cannot be heard.
    package func reset(open: Bool) {
        state.withLock { state in
            state.generation &+= 1
            state.entries = [:]
            state.open = open && lifetime > .zero
        }
    }

    /// How many rows are held.
    package var count: Int { state.withLock { $0.entries.count } }
}
