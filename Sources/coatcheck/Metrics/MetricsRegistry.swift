import Broker
import BrokerHTTP
import Synchronization

/// Holds every metric of the process, and writes them as Prometheus text.
///
/// A counter exists for the life of the process, because its disappearance would look like a restart. Labels come from fixed
/// sets. As a precaution, a metric gets no further series at `seriesLimit`, and attempts to use one are counted (SEC-118).
final class MetricsRegistry: Sendable {
    /// The largest number of label combinations of one metric.
    static let seriesLimit = 512

    enum Series {
        case counter(CounterSeries)
        case gauge(GaugeSeries)
        case histogram(HistogramSeries)
    }

    struct Key: Hashable {
        let label: String
        let dimensions: [String]
    }

    private struct State {
        var series: [Key: Series] = [:]
        var sizes: [String: Int] = [:]
        var leftOut: Int64 = 0
    }

    /// Guards the table.
    ///
    /// The series have their own guards.
    private let state = Mutex(State())
    /// Receives the values for series beyond the limit of their metric.
    private let overflow = (counter: CounterSeries(), gauge: GaugeSeries(), histogram: HistogramSeries())

    /// Returns the counter of a metric for these labels; creates it at the first call.
    func counter(_ label: String, _ dimensions: [(String, String)] = []) -> CounterSeries {
        guard case .counter(let found) = series(label, dimensions, make: { .counter(CounterSeries()) }) else {
            return overflow.counter
        }
        return found
    }

    /// Returns the gauge of a metric for these labels; creates it at the first call.
    func gauge(_ label: String, _ dimensions: [(String, String)] = []) -> GaugeSeries {
        guard case .gauge(let found) = series(label, dimensions, make: { .gauge(GaugeSeries()) }) else {
            return overflow.gauge
        }
        return found
    }

    /// Returns the histogram of a metric for these labels; creates it at the first call.
    func histogram(_ label: String, _ dimensions: [(String, String)] = []) -> HistogramSeries {
        guard case .histogram(let found) = series(label, dimensions, make: { .histogram(HistogramSeries()) }) else {
            return overflow.histogram
        }
        return found
    }

    /// Sets a gauge for each of these label values, and removes the metric's other gauges, because a provider or upstream that
    /// is gone has no value.
    func setGauges(_ label: String, _ values: [(dimensions: [(String, String)], value: Double)]) {
        let wanted = Set(values.map { Key(label: label, dimensions: $0.dimensions.flatMap { [$0.0, $0.1] }) })
        state.withLock { state in
            for key in state.series.keys where key.label == label && !wanted.contains(key) {
                state.series[key] = nil
                state.sizes[label, default: 1] -= 1
            }
        }
        for (dimensions, value) in values { gauge(label, dimensions).set(value) }
    }

    /// Returns the number of a metric's series.
    func seriesCount(of label: String) -> Int { state.withLock { $0.sizes[label, default: 0] } }

    private func series(_ label: String, _ dimensions: [(String, String)], make: () -> Series) -> Series? {
        let key = Key(label: label, dimensions: dimensions.flatMap { [$0.0, $0.1] })
        return state.withLock { state in
            if let found = state.series[key] { return found }
            guard state.sizes[label, default: 0] < Self.seriesLimit else {
                state.leftOut += 1
                return nil
            }
            let made = make()
            state.series[key] = made
            state.sizes[label, default: 0] += 1
            return made
        }
    }

    /// Removes a gauge whose provider or upstream is gone.
    func forget(gauge label: String, _ dimensions: [(String, String)]) {
        let key = Key(label: label, dimensions: dimensions.flatMap { [$0.0, $0.1] })
        state.withLock { state in
            if state.series.removeValue(forKey: key) != nil { state.sizes[label, default: 1] -= 1 }
        }
    }

    /// The number of series.
    var seriesCount: Int { state.withLock { $0.series.count } }

    /// Returns everything in the Prometheus text format, version 0.0.4.
    func text() -> String {
        let (series, leftOut) = state.withLock { ($0.series, $0.leftOut) }
        return PrometheusText.write(series, leftOut: leftOut)
    }
}

/// A counter, which only increases.
final class CounterSeries: Sendable {
    private let count = Atomic<Int64>(0)

    var value: Int64 { count.load(ordering: .relaxed) }

    /// Raises the counter to the value of another counter, which never decreases.
    func advance(to value: Int64) { count.max(value, ordering: .relaxed) }

    func increment(by amount: Int64) { count.wrappingAdd(amount, ordering: .relaxed) }
}

/// A gauge, which has the newest value.
final class GaugeSeries: Sendable {
    /// Guards the value, because adding reads it first.
    private let state = Mutex(0.0)

    var value: Double { state.withLock { $0 } }

    func set(_ value: Int64) { state.withLock { $0 = Double(value) } }
    func set(_ value: Double) { state.withLock { $0 = value } }
    func increment(by amount: Double) { state.withLock { $0 += amount } }
    func decrement(by amount: Double) { state.withLock { $0 -= amount } }
}

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

/// Remembers the series for each kind of request or call, so that frequent code needs no lookup by labels.
final class KnownSeries<Key: Hashable & Sendable, Series: Sendable>: Sendable {
    /// Guards the table.
    ///
    /// Its keys come from fixed sets, and the registry limits their number.
    private let table = Mutex<[Key: Series]>([:])

    /// Returns the series of `key`, and makes them at the first call.
    func find(_ key: Key, make: () -> Series) -> Series {
        if let found = table.withLock({ $0[key] }) { return found }
        let made = make()
        table.withLock { table in if table.count < 4096 { table[key] = made } }
        return made
    }
}

/// A status as a metric's label: the exact number if the broker itself may answer with it, and the class otherwise.
///
/// An upstream may answer with any number, and each would become a series (SEC-118).
enum StatusLabel: Hashable {
    case exact(Int)
    /// The first digit of the status; 0 for a status outside HTTP's classes.
    case group(Int)

    /// The statuses of the broker's own answers.
    ///
    /// In the log, 499 means that the client hung up.
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
