import Broker
import CMalloc
import Dispatch
import Foundation
import Synchronization

/// Gives memory back to the system that the process has freed: glibc keeps what is free, and a broker that was busy once
/// (many sessions cached, many bodies held) would stay large for good.
final class FreedMemory: Sendable {
    /// Guards when it was last done.
    private let rule: Mutex<FreedMemoryRule>

    /// Creates the work while the process is at rest, before it listens.
    init() { rule = Mutex(FreedMemoryRule(atRest: Self.figures(0))) }

    /// The fewest unused bytes so far, if the system shows them.
    var atRest: Int? { rule.withLock { $0.fewest } }

    /// Looks at what the cache has let go and at what is free, and gives memory back when it is worth it and some time has
    /// passed.
    func look(at cache: SessionCache, _ moment: Duration) {
        guard rule.withLock({ $0.mayTry(at: moment) }) else { return }
        let released = cache.released
        // It walks the free lists: not on a thread that others wait for.
        DispatchQueue.global(qos: .utility).async { [self] in check(released, moment) }
    }

    private func check(_ released: Int, _ moment: Duration) {
        guard let before = Self.figures(released) else { return }
        let isWorthIt = rule.withLock { rule in
            rule.note(before)
            return rule.isWorthIt(before, at: moment)
        }
        guard isWorthIt else { return }
        #if canImport(Glibc)
            _ = malloc_trim(0)
        #endif
        guard let after = Self.figures(released) else { return }
        rule.withLock { $0.tried(leaving: after, at: moment) }
    }

    /// Returns how much memory is used and how much is not, or nil if the system does not show it.
    private static func figures(_ released: Int) -> FreedMemoryRule.Figures? {
        #if canImport(Glibc)
            guard let statm = BoundedFile.read("/proc/self/statm", limit: 4096) else { return nil }
            let pages = String(decoding: statm, as: UTF8.self).split(separator: " ").compactMap { Int($0) }
            guard pages.count > 2 else { return nil }
            let heap = mallinfo2()
            let used = Int(clamping: heap.uordblks) + Int(clamping: heap.hblkhd)
            return FreedMemoryRule.Figures(
                unused: (pages[1] - pages[2]) * Int(getpagesize()) - used, used: used, released: released)
        #else
            return nil
        #endif
    }
}

/// Decides when free memory is worth giving back.
///
/// A try that leaves much behind says nothing of the next one: a page stays as long as one small block of it is in use, and when
/// that block is freed, the whole page can go although little more is free than before. So what was left behind is tried again when
/// less is in use, and once a minute in any case.
struct FreedMemoryRule: Sendable {
    /// The memory of the process at a moment, in bytes.
    struct Figures: Sendable, Equatable {
        /// The resident bytes that neither the heap's users nor files account for: about what is free.
        var unused: Int
        /// The bytes in use on the heap.
        var used: Int
        /// The rows that the cache has let go so far.
        var released: Int
    }

    /// So many dead rows are worth a try: some 10 MiB.
    static let rows = 4096
    /// So many unused bytes are, beyond the fewest that there ever were.
    static let bytes = 8 << 20
    /// So many bytes have to be freed since the last try for another one at what it left behind.
    static let freed = 1 << 20
    /// The least time between two tries: they hold up whoever allocates.
    static let pause = Duration.seconds(10)
    /// The time after which what was left behind is tried again.
    static let patience = Duration.seconds(60)

    /// The fewest unused bytes so far.
    ///
    /// The first look may come in the midst of a load, so they are counted from the start on.
    private(set) var fewest: Int?
    /// The figures behind the last try, and its moment.
    private var last: (figures: Figures, moment: Duration)?

    /// Creates the rule of a process with its figures at rest, if the system shows them.
    init(atRest figures: Figures?) { fewest = figures?.unused }

    /// Returns whether it is time for a look.
    func mayTry(at moment: Duration) -> Bool { last.map { moment - $0.moment >= Self.pause } ?? true }

    /// Takes note of what there is.
    mutating func note(_ figures: Figures) {
        fewest = min(fewest ?? figures.unused, figures.unused)
    }

    /// Returns whether to give memory back.
    func isWorthIt(_ figures: Figures, at moment: Duration) -> Bool {
        guard let last else { return figures.released >= Self.rows || figures.unused >= Self.bytes }
        if figures.released - last.figures.released >= Self.rows { return true }
        // A load has ended. The fewest bytes may be the load's own, if the process began under it.
        if last.figures.used - figures.used >= Self.bytes { return figures.unused >= Self.bytes }
        guard figures.unused - (fewest ?? 0) >= Self.bytes else { return false }
        return figures.unused - last.figures.unused >= Self.bytes
            || last.figures.used - figures.used >= Self.freed || moment - last.moment >= Self.patience
    }

    /// Takes note of a try.
    mutating func tried(leaving figures: Figures, at moment: Duration) {
        fewest = min(fewest ?? figures.unused, figures.unused)
        last = (figures, moment)
    }
}
