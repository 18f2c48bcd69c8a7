/// The average rate of a stream over a sliding window, against a lower bound.
///
/// Times are nanoseconds from zero that never go back, and they are the caller's: a clock that stands still while nobody
/// is waited for makes it a rate of the time waited. The window slides by tenths, so that a stream is found to be too
/// slow at most a tenth of it late, and never too early.
package struct ProgressRate: Sendable, Equatable {
    private static let slices = 10

    /// The bytes that have to come in a window: fewer are too slow.
    private let least: Int
    private let grace: Int64
    private let slice: Int64
    /// The bytes of the slice that is being filled and of the whole ones before it, round and round.
    private var bytes: [Int]
    /// The number of the slice that is being filled.
    private var current: Int64 = 0

    /// Creates a rate.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: the lower bound of the average.
    ///   - window: the nanoseconds over which it is taken.
    ///   - grace: the nanoseconds before the first window.
    package init(bytesPerSecond: Int, window: Int64, grace: Int64) {
        slice = max(window / Int64(Self.slices), 1)
        self.grace = max(grace, 0)
        let least = Double(bytesPerSecond) * Double(slice) * Double(Self.slices) / 1e9
        self.least = Int(exactly: least.rounded(.up)) ?? .max
        bytes = Array(repeating: 0, count: Self.slices + 1)
    }

    /// Counts bytes that came.
    package mutating func account(_ count: Int, at time: Int64) {
        guard time >= grace else { return }
        slide(to: time)
        let index = Int(current % Int64(bytes.count))
        let (sum, overflow) = bytes[index].addingReportingOverflow(max(count, 0))
        bytes[index] = overflow ? .max : sum
    }

    /// Whether less came in the last whole window than the lower bound asks for; never before the first one is over.
    package mutating func isBelow(at time: Int64) -> Bool {
        guard time >= grace else { return false }
        slide(to: time)
        guard current >= Int64(Self.slices) else { return false }
        var left = least
        for count in bytes {
            guard count < left else { return false }
            left -= count
        }
        return true
    }

    private mutating func slide(to time: Int64) {
        let now = (time - grace) / slice
        guard now > current else { return }
        for step in 1...min(now - current, Int64(bytes.count)) {
            bytes[Int((current + step) % Int64(bytes.count))] = 0
        }
        current = now
    }
}
