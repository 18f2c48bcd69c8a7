import Synchronization

/// Keeps every metric of the process, and gives them as Prometheus text.
///
/// A counter stays for the life of the process: one that vanished would look like a restart. Labels come from fixed sets;
/// should one not, a family stops growing at `seriesLimit` and counts what it left out (SEC-118).
final class MetricsRegistry: Sendable {
    /// How many label combinations one metric may have.
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

    /// Guards the table; the series guard themselves.
    private let state = Mutex(State())
    /// Takes what a full family gets.
    private let overflow = (counter: CounterSeries(), gauge: GaugeSeries(), histogram: HistogramSeries())

    /// Returns the counter of a name and its labels.
    func counter(_ label: String, _ dimensions: [(String, String)] = []) -> CounterSeries {
        guard case .counter(let found) = series(label, dimensions, make: { .counter(CounterSeries()) }) else {
            return overflow.counter
        }
        return found
    }

    /// Returns the gauge of a name and its labels.
    func gauge(_ label: String, _ dimensions: [(String, String)] = []) -> GaugeSeries {
        guard case .gauge(let found) = series(label, dimensions, make: { .gauge(GaugeSeries()) }) else {
            return overflow.gauge
        }
        return found
    }

    /// Returns the histogram of a name and its labels.
    func histogram(_ label: String, _ dimensions: [(String, String)] = []) -> HistogramSeries {
        guard case .histogram(let found) = series(label, dimensions, make: { .histogram(HistogramSeries()) }) else {
            return overflow.histogram
        }
        return found
    }

    /// Sets a gauge for each of these label values and forgets all others of that name: what is no longer there has no age.
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

    /// How many series a name has.
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

    /// Forgets a gauge whose subject is gone.
    func forget(gauge label: String, _ dimensions: [(String, String)]) {
        let key = Key(label: label, dimensions: dimensions.flatMap { [$0.0, $0.1] })
        state.withLock { state in
            if state.series.removeValue(forKey: key) != nil { state.sizes[label, default: 1] -= 1 }
        }
    }

    /// How many series there are.
    var seriesCount: Int { state.withLock { $0.series.count } }

    /// Returns everything in the Prometheus text format, version 0.0.4.
    func text() -> String {
        let (series, leftOut) = state.withLock { ($0.series, $0.leftOut) }
        return PrometheusText.write(series, leftOut: leftOut)
    }
}
