import Broker
import CMalloc
import Dispatch
import Synchronization

/// Gives memory back to the system after many cached sessions have died: glibc keeps what is free for the process,
/// and a broker that was busy once would stay large for good.
final class FreedMemory: Sendable {
    private struct State {
        /// How many rows the cache had let go when memory was last given back.
        var released = 0
        var at: Duration = .zero
    }

    /// So many dead rows are worth the call: some 10 MiB.
    private static let threshold = 4096
    private static let interval = Duration.seconds(15)

    /// Guards when it was last done.
    private let state = Mutex(State())

    /// Looks at what the cache has let go, and gives memory back when it is worth it and some time has passed.
    func look(at cache: SessionCache, _ moment: Duration) {
        let released = cache.released
        let isDue = state.withLock { state in
            guard released - state.released >= Self.threshold, moment - state.at >= Self.interval else { return false }
            state = State(released: released, at: moment)
            return true
        }
        guard isDue else { return }
        // It walks the free lists: not on a thread that others wait for.
        DispatchQueue.global(qos: .utility).async {
            #if canImport(Glibc)
                _ = malloc_trim(0)
            #endif
        }
    }
}
