import Testing

@testable import coatcheck

@Suite("Metrics as Prometheus text", .timeLimit(.minutes(2)))
struct PrometheusTests {
    @Test(
        "A metric reaches its limit of series → no series is added, and the number of omitted series is reported (SEC-118)"
    )
    func bounded() {
        let metrics = MetricsRegistry()
        for index in 0..<10_000 { metrics.counter("paths_total", [("path", "/\(index)")]).increment(by: 1) }
        #expect(metrics.seriesCount == MetricsRegistry.seriesLimit)
        #expect(
            metrics.text().contains("coatcheck_metric_series_left_out_total \(10_000 - MetricsRegistry.seriesLimit)"))
    }

    @Test(
        "An answer's status is one that the broker sends → a label of its own; another status → a label such as `4xx` (SEC-118)"
    )
    func statuses() {
        let labels = Set((-1...10_000).map { StatusLabel($0).text })
        #expect(labels.isSuperset(of: ["200", "401", "429", "499", "503", "2xx", "3xx", "4xx", "5xx", "other"]))
        #expect(labels.isDisjoint(with: ["206", "302", "418", "599"]))
        // The relay's route has eight methods. If each has all of the status labels, they use at most half of the series that a
        // metric family may have.
        #expect(labels.count * 8 <= MetricsRegistry.seriesLimit / 2, "\(labels.count)")
        #expect(StatusLabel(418) == StatusLabel(499 - 1))
    }

    @Test("A label's value has special characters → escaped; a metric's name has them → replaced by underscores")
    func escaped() {
        let metrics = MetricsRegistry()
        metrics.counter("a-b.c", [("la bel", "x\"y\\z\n")]).increment(by: 2)
        #expect(metrics.text().contains("# TYPE a_b_c counter\na_b_c{la_bel=\"x\\\"y\\\\z\\n\"} 2\n"))
    }

    @Test("Five durations and a negative one → the histogram's buckets, sum and count are right")
    func histogram() {
        let metrics = MetricsRegistry()
        let timer = metrics.histogram("t_seconds", [("route", "/x")])
        for milliseconds in [0, 1, 4, 400, 40_000] { timer.recordNanoseconds(Int64(milliseconds) * 1_000_000) }
        timer.recordNanoseconds(-5)
        let text = metrics.text()
        #expect(text.contains(#"t_seconds_bucket{route="/x",le="0.0005"} 2"#))
        #expect(text.contains(#"t_seconds_bucket{route="/x",le="0.005"} 4"#))
        #expect(text.contains(#"t_seconds_bucket{route="/x",le="30"} 5"#))
        #expect(text.contains(#"t_seconds_bucket{route="/x",le="+Inf"} 6"#))
        #expect(text.contains(#"t_seconds_sum{route="/x"} 40.405"#))
        #expect(text.contains(#"t_seconds_count{route="/x"} 6"#))
    }

    @Test("One metric name is used with two types → the metric keeps the first type")
    func twoTypes() {
        let metrics = MetricsRegistry()
        metrics.counter("x").increment(by: 1)
        metrics.gauge("x").set(5.0)
        #expect(metrics.text().contains("# TYPE x counter\nx 1\n"))
    }

    @Test("Two counters with the same name and labels → one series with the sum")
    func sameSeries() {
        let metrics = MetricsRegistry()
        metrics.counter("y", [("a", "1")]).increment(by: 1)
        metrics.counter("y", [("a", "1")]).increment(by: 2)
        metrics.gauge("z").set(1.5)
        #expect(metrics.text().contains("y{a=\"1\"} 3\n"))
        #expect(metrics.text().contains("z 1.5\n"))
    }

    @Test("A metric in the catalogue → printed with its help text; another metric → only with its type")
    func help() {
        let metrics = MetricsRegistry()
        metrics.gauge("coatcheck_keys_fit").set(1.0)
        metrics.gauge("other").set(1.0)
        let sentence = "# HELP coatcheck_keys_fit 0 when the key ring does not open a sample of what is stored.\n"
        #expect(metrics.text().contains(sentence + "# TYPE coatcheck_keys_fit gauge\ncoatcheck_keys_fit 1\n"))
        #expect(metrics.text().contains("\n# TYPE other gauge\nother 1\n"))
        #expect(metrics.text().contains("# HELP coatcheck_metric_series_left_out_total Label combinations"))
        for (name, sentence) in MetricCatalogue.help {
            #expect(name.hasPrefix("coatcheck_") || name.hasPrefix("process_"))
            #expect(sentence.hasSuffix(".") && !sentence.contains("\n") && !sentence.contains("\\"), "\(name)")
        }
    }

    @Test("A gauge gets new values without an earlier label → the series with this label is removed")
    func replaced() {
        let metrics = MetricsRegistry()
        metrics.setGauges("age", [([("key", "k1")], 5), ([("key", "k2")], 1)])
        metrics.setGauges("age", [([("key", "k2")], 2)])
        #expect(metrics.text().contains("age{key=\"k2\"} 2\n"))
        #expect(!metrics.text().contains("k1"))
        #expect(metrics.seriesCount(of: "age") == 1)
    }

    @Test("A counter is set to 3, 2 and 7 → it never decreases, and ends at 7")
    func advances() {
        let series = CounterSeries()
        for value: Int64 in [3, 2, 7] { series.advance(to: value) }
        #expect(series.value == 7)
    }
}
