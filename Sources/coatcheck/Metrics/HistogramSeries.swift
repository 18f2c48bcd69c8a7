import Synchronization

/// A histogram of durations with fixed buckets, in seconds.
final class HistogramSeries: Sendable {
    /// The buckets' upper bounds in nanoseconds: 0.5 ms to 30 s.
    static let bounds: [Int64] = [
        500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000,
        500_000_000, 1_000_000_000, 2_500_000_000, 5_000_000_000, 10_000_000_000, 30_000_000_000,
    ]

    struct Reading {
        var buckets: [Int64]
        var count: Int64 = 0
        var nanoseconds: Int64 = 0
    }

    /// Guards the counts, so that a reading is consistent.
    private let state = Mutex(Reading(buckets: Array(repeating: 0, count: bounds.count)))

    var reading: Reading { state.withLock { $0 } }

    func recordNanoseconds(_ duration: Int64) {
        let place = Self.bounds.firstIndex { duration <= $0 }
        state.withLock { reading in
            reading.count += 1
            reading.nanoseconds = reading.nanoseconds.addingReportingOverflow(max(0, duration)).partialValue
            if let place { reading.buckets[place] += 1 }
        }
    }
}
