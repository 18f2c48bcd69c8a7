import Synchronization

/// The bounded cache of sessions with their opened facts, which most requests use (decision 39).
///
/// An entry lives at most 5 s. An ending removes the session's entry at once, and keeps out the results of loads that began
/// before the ending (SEC-129).
///
/// Entries are in two dictionaries, young and old. After each lifetime, the old dictionary is dropped with its expired
/// entries, and the young dictionary becomes the old one.
package final class SessionCache: Sendable {
    private struct Entry {
        let session: LiveSession
        let until: Duration
    }

    private typealias Entries = [Digest: Entry]

    private struct State {
        var young: Entries = [:]
        var old: Entries = [:]
        /// The time when the young entries last became the old ones.
        var turnedAt: Duration = .zero
        var generation: UInt64 = 0
        var open: Bool
        /// The number of entries that were dropped because of their age.
        var released = 0

        /// Drops the old entries and makes the young ones old if a lifetime has passed; returns dropped entries.
        ///
        /// The caller frees their memory outside the lock.
        mutating func turn(at moment: Duration, every lifetime: Duration) -> Entries {
            guard moment - turnedAt >= lifetime else { return [:] }
            let dead = old
            // After two lifetimes the young entries have expired as well.
            let isOver = moment - turnedAt >= lifetime * 2
            released += dead.count + (isOver ? young.count : 0)
            old = isOver ? [:] : young
            young = [:]
            turnedAt = moment
            return dead
        }

        /// Drops all entries, keeps out the results of loads in progress, and returns the dropped entries.
        mutating func empty() -> [Entries] {
            defer { (young, old) = ([:], [:]) }
            generation &+= 1
            return [young, old]
        }

        mutating func remove(_ tokenDigest: Digest) {
            young[tokenDigest] = nil
            if !old.isEmpty { old[tokenDigest] = nil }
        }
    }

    private let lifetime: Duration
    private let capacity: Int
    /// Guards the entries, the generation that each removal raises, and whether the cache may be filled.
    private let state: Mutex<State>

    /// Creates a cache; a lifetime of zero turns caching off.
    package init(lifetime: Duration = .seconds(5), capacity: Int = 100_000) {
        self.lifetime = min(lifetime, .seconds(5))
        self.capacity = capacity
        state = Mutex(State(open: lifetime > .zero))
    }

    /// Returns a fresh session from the cache, or else the generation to pass to `insert`.
    func lookUp(_ tokenDigest: Digest, at moment: Duration) -> (session: LiveSession?, generation: UInt64) {
        let (session, generation, dead) = state.withLock { state -> (LiveSession?, UInt64, Entries) in
            let dead = state.turn(at: moment, every: lifetime)
            guard let entry = state.young[tokenDigest] ?? state.old[tokenDigest], moment < entry.until else {
                return (nil, state.generation, dead)
            }
            return (entry.session, state.generation, dead)
        }
        _ = consume dead
        return (session, generation)
    }

    /// Caches a loaded session, unless any session was removed from the cache since the load began.
    func insert(_ session: LiveSession, loadedAt moment: Duration, generation: UInt64) {
        state.withLock { state in
            guard state.open, state.generation == generation, capacity > 0 else { return }
            // All entries may be fresh, so empty the cache instead of searching for an expired entry. Each dropped session
            // costs one read.
            if state.young.count + state.old.count >= capacity { state.old = [:] }
            if state.young.count >= capacity { state.young = [:] }
            state.young[session.tokenDigest] = Entry(session: session, until: moment + lifetime)
        }
    }

    /// Changes the row of a cached session after this process has changed it in the store; the facts stay the same.
    func update(_ tokenDigest: Digest, _ change: (inout SessionRow) -> Void) {
        state.withLock { state in
            guard let entry = state.young[tokenDigest] ?? state.old[tokenDigest] else { return }
            var row = entry.session.row
            change(&row)
            state.young[tokenDigest] = Entry(session: entry.session.with(row), until: entry.until)
        }
    }

    /// Removes sessions from the cache after an ending, a refresh, a change of their facts, or a notice of such a change.
    package func remove(_ tokenDigests: [Digest]) {
        state.withLock { state in
            state.generation &+= 1
            for tokenDigest in tokenDigests { state.remove(tokenDigest) }
        }
    }

    /// Removes a session from the cache if `row` has other tokens than the cached row and is at least as new.
    ///
    /// `row` is at least as new if its token version is equal to the version of the cached row, or higher.
    func remove(olderThan row: SessionRow) {
        let known = state.withLock { state in
            (state.young[row.tokenDigest] ?? state.old[row.tokenDigest])?.session.row
        }
        guard let known, known.tokenVersion <= row.tokenVersion, known.tokens != row.tokens else { return }
        remove([row.tokenDigest])
    }

    /// Removes all sessions from the cache, because it is unknown which ones have ended.
    func clear() {
        let dead = state.withLock { $0.empty() }
        _ = consume dead
    }

    /// Drops expired entries, even while the cache is idle.
    package func trim(at moment: Duration) {
        let dead = state.withLock { $0.turn(at: moment, every: lifetime) }
        _ = consume dead
    }

    /// Empties the cache and sets whether it may be filled; `open` is false while this replica receives no notices.
    package func reset(open: Bool) {
        let dead = state.withLock { state in
            state.open = open && lifetime > .zero
            return state.empty()
        }
        _ = consume dead
    }

    /// The number of entries, since the process began, that were dropped because of their age.
    package var released: Int { state.withLock { $0.released } }

    /// The number of sessions in the cache.
    package var count: Int { state.withLock { Set($0.young.keys).union($0.old.keys).count } }
}
