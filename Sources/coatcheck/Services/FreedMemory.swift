import Broker
import CMalloc
import Dispatch
import Foundation
import Synchronization

/// Gives memory back to the system that the process has freed: glibc keeps what is free, and a broker that was busy once
/// (many sessions cached, many bodies held) would stay large for good.
final class FreedMemory: Sendable {
    private struct State {
        /// The number of rows that the cache had let go when memory was last given back.
        var released = 0
        /// The bytes that cannot be given back: the least that was unused since, or was left behind the last call.
        var floor = 0
        /// Not before then is it looked at again.
        var next: Duration = .zero
    }

    /// So many dead rows are worth the call: some 10 MiB.
    private static let rows = 4096
    /// So many resident bytes that nobody uses are, beyond those that cannot be given back.
    private static let bytes = 16 << 20
    private static let interval = Duration.seconds(15)

    /// Guards when it was last done.
    private let state = Mutex(State())

    /// Looks at what the cache has let go and at what is free, and gives memory back when it is worth it and some time has
    /// passed.
    func look(at cache: SessionCache, _ moment: Duration) {
        let isDue = state.withLock { state in
            guard moment >= state.next else { return false }
            state.next = moment + Self.interval
            return true
        }
        guard isDue else { return }
        let released = cache.released
        // It walks the free lists: not on a thread that others wait for.
        DispatchQueue.global(qos: .utility).async { [self] in check(released) }
    }

    private func check(_ released: Int) {
        let unused = Self.unused()
        let isWorthIt = state.withLock { state in
            state.floor = min(state.floor, unused)
            guard released - state.released >= Self.rows || unused - state.floor >= Self.bytes else { return false }
            state.released = released
            return true
        }
        guard isWorthIt else { return }
        #if canImport(Glibc)
            _ = malloc_trim(0)
        #endif
        let left = Self.unused()
        state.withLock { $0.floor = left }
    }

    /// Returns how many bytes are resident that neither the heap's users nor files account for: about what is free.
    private static func unused() -> Int {
        #if canImport(Glibc)
            guard let statm = BoundedFile.read("/proc/self/statm", limit: 4096) else { return 0 }
            let pages = String(decoding: statm, as: UTF8.self).split(separator: " ").compactMap { Int($0) }
            guard pages.count > 2 else { return 0 }
            let heap = mallinfo2()
            return (pages[1] - pages[2]) * Int(getpagesize()) - Int(clamping: heap.uordblks)
                - Int(clamping: heap.hblkhd)
        #else
            return 0
        #endif
    }
}
