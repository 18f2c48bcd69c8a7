import Broker
import BrokerHTTP
import BrokerRelay

/// Turns request records into log lines and metrics.
struct RequestMetrics: Sendable {
    let log: ProcessLog
    let metrics: MetricsRegistry
    /// The listener's name: `public`, `backend` or `management`.
    let listener: String
    let writesLines: Bool
    /// The addresses for which a reached limit was logged in this minute.
    private let limited: AddressLines
    /// The peers for which a line was logged because they are untrusted proxies.
    private let untrusted: AddressLines
    private let known = KnownSeries<Key, Series>()

    private struct Key: Hashable {
        let method: String
        let route: String
        let status: StatusLabel
    }

    private typealias Series = (requests: CounterSeries, durations: HistogramSeries, members: LogMembers)

    init(
        log: ProcessLog, metrics: MetricsRegistry, listener: String, writesLines: Bool,
        monotonic: @escaping @Sendable () -> Duration
    ) {
        limited = AddressLines(window: .seconds(60), capacity: 64, monotonic: monotonic)
        // An untrusted proxy is a lasting fault of the configuration, so one log line a day is enough.
        untrusted = AddressLines(window: .seconds(86_400), capacity: 8, monotonic: monotonic)
        self.log = log
        self.metrics = metrics
        self.listener = listener
        self.writesLines = writesLines
    }

    /// The methods that have a label of their own in metrics (SEC-118).
    private static let methods: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

    /// The log that receives the HTTP layer's records.
    var requestLog: RequestLog { RequestLog { [self] record in take(record) } }

    /// Creates the counters for alerts at zero, so that the first event is an increase.
    func begin(_ routes: [Route]) {
        for route in routes {
            for status in [429, 500, 503] {
                _ = metrics.counter(
                    "coatcheck_http_requests_total",
                    [
                        ("listener", listener), ("method", route.methodName), ("route", route.template),
                        ("status", String(status)),
                    ])
            }
        }
    }

    private func take(_ record: RequestRecord) {
        let method = Self.methods.contains(record.method) ? record.method : "other"
        let status = StatusLabel(record.status)
        let series = known.find(Key(method: method, route: record.route, status: status)) {
            let requests = metrics.counter(
                "coatcheck_http_requests_total",
                [
                    ("listener", listener), ("method", method), ("route", record.route),
                    ("status", status.text),
                ])
            let durations = metrics.histogram(
                "coatcheck_http_request_duration_seconds", [("listener", listener), ("route", record.route)])
            return (requests, durations, LogMembers([("method", method), ("route", record.route)]))
        }
        series.requests.increment(by: 1)
        series.durations.recordNanoseconds(record.duration.nanoseconds)
        if writesLines { write(record, series.members) }
        if record.code == .rateLimited { writeLimit(record) }
        if let peer = record.untrustedProxy, untrusted.line(for: peer) == .one {
            log.write(
                .warning, "a peer outside server.trusted_proxies sends X-Forwarded-For; list it if it is your proxy",
                [
                    ("listener", listener), ("peer", peer),
                    ("detail", "if it is your proxy, all its clients share one address and its limits"),
                ])
        }
    }

    /// Logs that an address has reached a limit, at most once a minute for each address.
    private func writeLimit(_ record: RequestRecord) {
        switch limited.line(for: record.client) {
        case .none: break
        case .one:
            var members = [
                ("client", record.client), ("route", record.route), ("request_id", record.requestID),
                ("detail", record.privateDetail ?? "connections or requests"),
            ]
            if let trace = record.traceID { members.append(("trace_id", trace)) }
            log.write(.warning, "an address has met its limit", members)
        case .manyMore:
            log.write(.warning, "more addresses have met their limits", [("listener", listener)])
        }
    }

    private func write(_ record: RequestRecord, _ members: LogMembers) {
        let level: LogSettings.Level = record.status >= 500 ? .warning : listener == "management" ? .debug : .info
        guard log.threshold.takes(level) else { return }
        var line = LogLine(log.now(), level: level.rawValue, message: "request")
        line.add("request_id", record.requestID)
        line.add(members)
        line.add("status", record.status)
        line.add("duration_us", Int(clamping: record.duration.nanoseconds / 1000))
        line.add("client", record.client)
        if let session = record.session { line.add("session", session.text) }
        if let failed = record.failed {
            line.add("upstream", failed.upstream.text)
            if let target = failed.target {
                if let audience = target.audience { line.add("audience", audience) }
                if !target.resources.isEmpty { line.add("resource", target.resources.joined(separator: " ")) }
            }
        }
        if let code = record.code { line.add("code", code.rawValue) }
        if let detail = record.privateDetail { line.add("detail", detail) }
        if let agent = record.safeUserAgent { line.add("user_agent", agent) }
        if let trace = record.traceID { line.add("trace_id", trace) }
        log.emit(line.finished())
    }
}

extension Duration {
    /// The whole nanoseconds, clamped to the largest value.
    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : product &+ attoseconds / 1_000_000_000
    }
}

/// Measures the relay for each upstream: the time to the answer's head, and the number of answers by class of status.
struct RelayMetrics: Sendable {
    private struct Key: Hashable {
        let upstream: String
        let result: String
    }

    private typealias Series = (durations: HistogramSeries, answers: CounterSeries)

    private let metrics: MetricsRegistry
    private let known = KnownSeries<Key, Series>()

    init(_ metrics: MetricsRegistry) { self.metrics = metrics }

    var observer: Relay.Observer {
        { [metrics, known] upstream, duration, status in
            let result = status.map { Self.classes[$0 / 100] ?? "other" } ?? "none"
            let series = known.find(Key(upstream: upstream.text, result: result)) {
                (
                    metrics.histogram("coatcheck_relay_duration_seconds", [("upstream", upstream.text)]),
                    metrics.counter(
                        "coatcheck_relay_answers_total", [("upstream", upstream.text), ("result", result)])
                )
            }
            series.durations.recordNanoseconds(duration.nanoseconds)
            series.answers.increment(by: 1)
        }
    }

    private static let classes = [2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"]
}
