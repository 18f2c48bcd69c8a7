import Synchronization

/// Holds every metric of the process, and writes them as Prometheus text.
///
/// A counter exists for the life of the process, because its disappearance would look like a restart. Labels come from fixed
/// sets. As a precaution, a metric gets no further series beyond `seriesLimit`, and attempts to use a further series are
/// counted (SEC-118).
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

    /// Returns the counter of a metric for these labels; creates the counter at the first call.
    func counter(_ label: String, _ dimensions: [(String, String)] = []) -> CounterSeries {
        guard case .counter(let found) = series(label, dimensions, make: { .counter(CounterSeries()) }) else {
            return overflow.counter
        }
        return found
    }

    /// Returns the gauge of a metric for these labels; creates the gauge at the first call.
    func gauge(_ label: String, _ dimensions: [(String, String)] = []) -> GaugeSeries {
        guard case .gauge(let found) = series(label, dimensions, make: { .gauge(GaugeSeries()) }) else {
            return overflow.gauge
        }
        return found
    }

    /// Returns the histogram of a metric for these labels; creates the histogram at the first call.
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
