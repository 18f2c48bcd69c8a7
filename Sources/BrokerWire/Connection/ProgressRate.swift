/// The average rate of a stream over a sliding window, compared with a lower bound.
///
/// Times are nanoseconds that begin at zero and never decrease. The caller passes the time, and may leave out intervals in
/// which the connection does not wait for the client. The window moves in steps of a tenth of its length. A slow stream is
/// therefore detected at most one step late, and never early.
package struct ProgressRate: Sendable, Equatable {
    private static let slices = 10

    /// The smallest number of bytes in a window that is fast enough.
    ///
    /// A window with fewer bytes is too slow.
    private let least: Int
    private let grace: Int64
    private let slice: Int64
    /// The bytes of each tenth of the window, as a ring buffer.
    private var bytes: [Int]
    /// The number of the current tenth, counted from the start.
    private var current: Int64 = 0

    /// Creates the rate of a stream that has carried no bytes yet.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: the lower bound of the average.
    ///   - window: the window's length in nanoseconds.
    ///   - grace: the nanoseconds before the first window.
    package init(bytesPerSecond: Int, window: Int64, grace: Int64) {
        slice = max(window / Int64(Self.slices), 1)
        self.grace = max(grace, 0)
        let least = Double(bytesPerSecond) * Double(slice) * Double(Self.slices) / 1e9
        self.least = Int(exactly: least.rounded(.up)) ?? .max
        bytes = Array(repeating: 0, count: Self.slices + 1)
    }

    /// Adds bytes of the stream that were transmitted at `time`.
    package mutating func account(_ count: Int, at time: Int64) {
        guard time >= grace else { return }
        slide(to: time)
        let index = Int(current % Int64(bytes.count))
        let (sum, overflow) = bytes[index].addingReportingOverflow(max(count, 0))
        bytes[index] = overflow ? .max : sum
    }

    /// Whether the last whole window had fewer bytes than required; false before the end of the first window.
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
