import Broker
import BrokerHTTP
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

/// Remembers the series of each kind of request or call, so that the hot path does not look them up by their labels.
final class KnownSeries<Key: Hashable & Sendable, Series: Sendable>: Sendable {
    /// Guards the table.
    ///
    /// Its keys come from fixed sets; the registry bounds what they could become.
    private let table = Mutex<[Key: Series]>([:])

    /// Returns the series of `key`; makes them when it is met for the first time.
    func find(_ key: Key, make: () -> Series) -> Series {
        if let found = table.withLock({ $0[key] }) { return found }
        let made = make()
        table.withLock { table in if table.count < 4096 { table[key] = made } }
        return made
    }
}

/// A status as a metric's label: its own number where the broker itself may answer with it, else its class.
///
/// An upstream answers with any it likes, and each would be a series (SEC-118).
enum StatusLabel: Hashable {
    case exact(Int)
    /// The hundreds of it; 0 is none that HTTP knows.
    case group(Int)

    /// What the broker answers with; 499 is the log's word for a client that hung up.
    private static let own = Set(ProblemCode.allCases.map(\.status)).union([200, 201, 202, 204, 303, 499])

    init(_ status: Int) {
        self = Self.own.contains(status) ? .exact(status) : .group((1...5).contains(status / 100) ? status / 100 : 0)
    }

    /// The label's value.
    var text: String {
        switch self {
        case .exact(let status): String(status)
        case .group(0): "other"
        case .group(let hundreds): "\(hundreds)xx"
        }
    }
}
