import Broker
import CMalloc
import Dispatch
import Foundation
import Synchronization

/// Returns freed memory to the system.
///
/// glibc keeps freed memory. Without this type, the broker would stay large for good after a busy time with many cached
/// sessions or request bodies.
final class FreedMemory: Sendable {
    /// Guards the decision rule, which includes the time of the last attempt to return memory.
    private let rule: Mutex<FreedMemoryRule>

    /// Creates the object before the broker listens, while the process uses little memory.
    init() { rule = Mutex(FreedMemoryRule(atRest: Self.figures(0))) }

    /// The lowest number of unused bytes so far; nil if the system does not report it.
    var atRest: Int? { rule.withLock { $0.fewest } }

    /// Checks the cache's released rows and the unused memory.
    ///
    /// Returns memory to the system if `FreedMemoryRule` decides so.
    func look(at cache: SessionCache, _ moment: Duration) {
        guard rule.withLock({ $0.mayTry(at: moment) }) else { return }
        let released = cache.released
        // The check reads all free lists of the allocator, so run it on a thread that serves no requests.
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

    /// Returns the used and the unused memory; nil if the system does not show them.
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

/// Decides when it is worthwhile to return memory to the system.
///
/// If an attempt leaves much unused memory, a later attempt may still succeed. A page cannot be returned while one small block
/// in it is in use. When that block is freed, the whole page can be returned. Therefore another attempt is made when less
/// memory is in use, and once a minute while much memory is unused.
struct FreedMemoryRule: Sendable {
    /// The process's memory at a moment, in bytes.
    struct Figures: Sendable, Equatable {
        /// The resident bytes outside of files and of the used parts of the heap.
        ///
        /// This is approximately the free memory that the heap keeps.
        var unused: Int
        /// The bytes in use on the heap.
        var used: Int
        /// The number of rows that the cache has dropped so far.
        var released: Int
    }

    /// The number of dropped rows that justifies an attempt to return memory.
    ///
    /// These rows use about 10 MiB.
    static let rows = 4096
    /// The number of unused bytes, beyond the lowest number so far, that justifies an attempt to return memory.
    static let bytes = 8 << 20
    /// The number of bytes freed since the last attempt to return memory that justifies another attempt.
    static let freed = 1 << 20
    /// The shortest time between two attempts to return memory, because each attempt delays all allocations.
    static let pause = Duration.seconds(10)
    /// The longest time between two attempts to return memory while much memory is unused.
    static let patience = Duration.seconds(60)

    /// The smallest number of unused bytes so far.
    ///
    /// The first number is taken at the process's start, because the first check may happen under load.
    private(set) var fewest: Int?
    /// The memory figures after the last attempt to return memory, and the time of this attempt.
    private var last: (figures: Figures, moment: Duration)?

    /// Creates the rule.
    ///
    /// `figures` is the memory of the process before it has served requests; nil if the system does not show it.
    init(atRest figures: Figures?) { fewest = figures?.unused }

    /// Returns whether a check is due.
    func mayTry(at moment: Duration) -> Bool { last.map { moment - $0.moment >= Self.pause } ?? true }

    /// Notes the present memory figures.
    mutating func note(_ figures: Figures) {
        fewest = min(fewest ?? figures.unused, figures.unused)
    }

    /// Returns whether to return memory now.
    func isWorthIt(_ figures: Figures, at moment: Duration) -> Bool {
        guard let last else { return figures.released >= Self.rows || figures.unused >= Self.bytes }
        if figures.released - last.figures.released >= Self.rows { return true }
        // Much memory was freed, so a load has ended. If the process began under this load, `fewest` may be too high, so
        // compare with zero instead.
        if last.figures.used - figures.used >= Self.bytes { return figures.unused >= Self.bytes }
        guard figures.unused - (fewest ?? 0) >= Self.bytes else { return false }
        return figures.unused - last.figures.unused >= Self.bytes
            || last.figures.used - figures.used >= Self.freed || moment - last.moment >= Self.patience
    }

    /// Notes an attempt to return memory, with the memory figures after it.
    mutating func tried(leaving figures: Figures, at moment: Duration) {
        fewest = min(fewest ?? figures.unused, figures.unused)
        last = (figures, moment)
    }
}
