import Synchronization

/// Counts up.
final class CounterSeries: Sendable {
    private let count = Atomic<Int64>(0)

    var value: Int64 { count.load(ordering: .relaxed) }

    /// Takes over what somebody else has counted, who never counts down.
    func advance(to value: Int64) { count.max(value, ordering: .relaxed) }

    func increment(by amount: Int64) { count.wrappingAdd(amount, ordering: .relaxed) }
}

/// Holds the newest value.
final class GaugeSeries: Sendable {
    /// Guards the value: adding reads it first.
    private let state = Mutex(0.0)

    var value: Double { state.withLock { $0 } }

    func set(_ value: Int64) { state.withLock { $0 = Double(value) } }
    func set(_ value: Double) { state.withLock { $0 = value } }
    func increment(by amount: Double) { state.withLock { $0 += amount } }
    func decrement(by amount: Double) { state.withLock { $0 -= amount } }
}

/// Counts durations by fixed buckets, in seconds.
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

    /// Guards the counts, so that a reading adds up.
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
