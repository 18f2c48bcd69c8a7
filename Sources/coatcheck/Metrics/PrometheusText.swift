/// Writes metrics in the Prometheus text format, version 0.0.4.
enum PrometheusText {
    static let mediaType = "text/plain; version=0.0.4; charset=utf-8"

    static func write(_ series: [MetricsRegistry.Key: MetricsRegistry.Series], leftOut: Int64) -> String {
        var text = ""
        let families = Dictionary(grouping: series) { name($0.key.label) }
        for (family, members) in families.sorted(by: { $0.key < $1.key }) {
            let sorted = members.sorted { $0.key.dimensions.lexicographicallyPrecedes($1.key.dimensions) }
            guard let first = sorted.first else { continue }
            if let help = MetricCatalogue.help[family] { text += "# HELP \(family) \(help)\n" }
            text += "# TYPE \(family) \(kind(first.value))\n"
            for member in sorted { text += lines(family, member.key.dimensions, member.value) }
        }
        let counter = "coatcheck_metric_series_left_out_total"
        text += "# HELP \(counter) \(MetricCatalogue.help[counter] ?? "")\n# TYPE \(counter) counter\n"
        return text + "\(counter) \(leftOut)\n"
    }

    private static func kind(_ series: MetricsRegistry.Series) -> String {
        switch series {
        case .counter: "counter"
        case .gauge: "gauge"
        case .histogram: "histogram"
        }
    }

    private static func lines(_ family: String, _ dimensions: [String], _ series: MetricsRegistry.Series) -> String {
        switch series {
        case .counter(let counter):
            return "\(family)\(labels(dimensions)) \(counter.value)\n"
        case .gauge(let gauge):
            return "\(family)\(labels(dimensions)) \(number(gauge.value))\n"
        case .histogram(let histogram):
            let reading = histogram.reading
            var text = ""
            var sum: Int64 = 0
            for (bound, count) in zip(HistogramSeries.bounds, reading.buckets) {
                sum += count
                text += "\(family)_bucket\(labels(dimensions + ["le", number(Double(bound) / 1e9)])) \(sum)\n"
            }
            text += "\(family)_bucket\(labels(dimensions + ["le", "+Inf"])) \(reading.count)\n"
            text += "\(family)_sum\(labels(dimensions)) \(number(Double(reading.nanoseconds) / 1e9))\n"
            return text + "\(family)_count\(labels(dimensions)) \(reading.count)\n"
        }
    }

    private static func labels(_ dimensions: [String]) -> String {
        guard !dimensions.isEmpty else { return "" }
        var pairs: [String] = []
        var rest = dimensions[...]
        while let label = rest.popFirst(), let value = rest.popFirst() {
            pairs.append("\(name(label))=\"\(escaped(value))\"")
        }
        return "{" + pairs.joined(separator: ",") + "}"
    }

    /// A name in Prometheus's form.
    ///
    /// Characters other than letters, digits and `_` become `_`.
    private static func name(_ text: String) -> String {
        var result = ""
        for (index, scalar) in text.unicodeScalars.enumerated() {
            let isLetter = (0x41...0x5A).contains(scalar.value) || (0x61...0x7A).contains(scalar.value) || scalar == "_"
            let isDigit = (0x30...0x39).contains(scalar.value)
            result.unicodeScalars.append(isLetter || (isDigit && index > 0) ? scalar : "_")
        }
        return result.isEmpty ? "_" : result
    }

    private static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    private static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value) { return String(whole) }
        return "\(value)"
    }
}
