import Broker
import BrokerProviders
import BrokerWire
import Synchronization
import Testing

@testable import BrokerHTTP
@testable import coatcheck

@Suite("Log lines about limits, proxies and disks", .timeLimit(.minutes(1)))
struct LimitLineTests {
    private final class Lines: Sendable {
        let list = Mutex<[String]>([])
        let time = Mutex(Duration.zero)
        var log: ProcessLog {
            ProcessLog(level: .debug, now: { WallTime(seconds: 0) }) { [self] line in
                list.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
            }
        }
        func take() -> [String] {
            list.withLock { list in
                defer { list = [] }; return list
            }
        }
    }

    private func record(_ client: String, _ code: ProblemCode?, proxy: String? = nil) -> RequestRecord {
        RequestRecord(
            method: "POST", route: "/v1/logins", status: code?.status ?? 200, duration: .zero, requestID: "req_1",
            client: client, session: nil, failed: nil, traceID: nil, untrustedProxy: proxy, userAgent: nil, code: code,
            privateDetail: code.map { _ in "login" })
    }

    @Test(
        "An address is over its limit → one log line a minute; 5,000 are → one for each of 64, one for the rest (SEC-115)"
    )
    func limits() {
        let lines = Lines()
        let log = RequestMetrics(
            log: lines.log, metrics: MetricsRegistry(), listener: "public", writesLines: false,
            monotonic: { lines.time.withLock { $0 } }
        ).requestLog
        for _ in 0..<10 { log.record(record("192.0.2.1", .rateLimited)) }
        log.record(record("192.0.2.2", .invalidRequest))
        let first = lines.take()
        #expect(first.count == 1)
        #expect(first.first?.contains(#""client":"192.0.2.1""#) == true)
        #expect(first.first?.contains(#""detail":"login""#) == true)
        for number in 0..<5000 { log.record(record("198.51.100.\(number)", .rateLimited)) }
        let many = lines.take()
        #expect(many.count == 64)
        #expect(many.last?.contains("more addresses") == true)
        lines.time.withLock { $0 = .seconds(61) }
        log.record(record("192.0.2.1", .rateLimited))
        #expect(lines.take().count == 1)
    }

    @Test(
        "A relayed call fails → its log line names the upstream, and the audience and resource of the API whose token was sent"
    )
    func failedRelayCalls() {
        let lines = Lines()
        let log = RequestMetrics(
            log: lines.log, metrics: MetricsRegistry(), listener: "public", writesLines: true, monotonic: { .zero }
        ).requestLog
        func line(_ failed: FailedCallee?) -> String {
            log.record(
                RequestRecord(
                    method: "GET", route: "/v1/relay/{upstream}/{path}", status: 502, duration: .zero,
                    requestID: "req_1", client: "192.0.2.1", session: nil, failed: failed, traceID: nil,
                    untrustedProxy: nil, userAgent: nil,
                    code: .upstreamError, privateDetail: "the connection: lost"))
            return lines.take().joined()
        }
        let name = UpstreamName(unchecked: "orders")
        #expect(!line(nil).contains("upstream\":\"orders"))
        let plain = line(FailedCallee(upstream: name, target: nil))
        #expect(plain.contains(#""upstream":"orders""#) && !plain.contains("audience"))
        let own = line(
            FailedCallee(
                upstream: name,
                target: TokenTarget(resources: ["https://a.example", "https://b.example"], audience: "shop")))
        #expect(own.contains(#""audience":"shop","resource":"https://a.example https://b.example""#), "\(own)")
    }

    @Test("A provider's breaker opens or closes, or PostgreSQL's notices stop or return → one log line for each change")
    func outages() throws {
        let lines = Lines()
        let isEnding = Mutex(false)
        let outages = Outages(log: lines.log, monotonic: { lines.time.withLock { $0 } }) { isEnding.withLock { $0 } }
        let provider = ProviderName(unchecked: "as")
        outages.note(BreakerTurn(provider: provider, isOpen: true))
        outages.note(BreakerTurn(provider: provider, isOpen: false))
        let breaker = lines.take()
        try #require(breaker.count == 2)
        #expect(breaker.allSatisfy { $0.contains(#""provider":"as""#) })
        #expect(breaker[0].contains(#""level":"warning""#) && breaker[1].contains(#""level":"notice""#))
        // If notices stop, this counts as an outage only after the process has received notices once.
        for notice in [EndingNotice.deaf, .hearing, .ended([]), .hearing] { outages.note(notice) }
        #expect(lines.take().isEmpty)
        for _ in 0..<3 { outages.note(.deaf) }
        lines.time.withLock { $0 += .seconds(3) }
        outages.note(.hearing)
        let store = lines.take()
        try #require(store.count == 2, "\(store)")
        #expect(store[0].contains("PostgreSQL is away"), "\(store)")
        #expect(store[1].contains("PostgreSQL is back") && store[1].contains(#""away_ms":3000"#), "\(store)")
        isEnding.withLock { $0 = true }
        outages.note(.deaf)
        #expect(lines.take().isEmpty)
    }

    @Test(
        "Ten requests come through an untrusted proxy → one log line; they come through 100 such proxies → eight lines in all"
    )
    func proxies() {
        let lines = Lines()
        let log = RequestMetrics(
            log: lines.log, metrics: MetricsRegistry(), listener: "public", writesLines: false,
            monotonic: { lines.time.withLock { $0 } }
        ).requestLog
        for _ in 0..<10 { log.record(record("10.0.0.1", nil, proxy: "10.0.0.1")) }
        let said = lines.take()
        #expect(said.count == 1)
        #expect(said.first?.contains("trusted_proxies") == true)
        for number in 0..<100 { log.record(record("10.0.0.1", nil, proxy: "10.0.1.\(number)")) }
        #expect(lines.take().count == 7)
    }

    @Test("Five writes find the disk full → one log line; the next writes succeed → one more log line")
    func disk() {
        let lines = Lines()
        let disk = DiskState(log: lines.log)
        disk.wasWritten()
        #expect(lines.take().isEmpty && !disk.isFull)
        for _ in 0..<5 { disk.wasFull() }
        #expect(lines.take().count == 1 && disk.isFull)
        for _ in 0..<5 { disk.wasWritten() }
        #expect(lines.take().count == 1 && !disk.isFull)
    }

    @Test(
        "A provider's last calls failed at most once → `ok`; twice in a row → `failing`; its breaker is open → `open`")
    func providers() {
        #expect(ProviderHealth.state(.closed(failures: 0), 0) == "ok")
        #expect(ProviderHealth.state(.closed(failures: 1), 1) == "ok")
        #expect(ProviderHealth.state(.closed(failures: 0), 2) == "failing")
        #expect(ProviderHealth.state(.open(until: .zero, pause: .seconds(1)), 9) == "open")
        #expect(ProviderHealth.state(.halfOpen(pause: .seconds(1)), 9) == "open")
    }

    @Test("Requests with 100 invented methods and seven known ones → one series for all invented methods (SEC-118)")
    func methods() {
        let metrics = MetricsRegistry()
        let log = RequestMetrics(
            log: Lines().log, metrics: metrics, listener: "public", writesLines: false, monotonic: { .zero }
        ).requestLog
        for method in (0..<100).map({ "BREW\($0)" }) + ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            log.record(
                RequestRecord(
                    method: method, route: "/v1/session", status: 405, duration: .zero, requestID: "req_1",
                    client: "192.0.2.1", session: nil, failed: nil, traceID: nil, untrustedProxy: nil, userAgent: nil,
                    code: nil, privateDetail: nil))
        }
        #expect(metrics.seriesCount(of: "coatcheck_http_requests_total") == 8)
        let text = metrics.text()
        #expect(!text.contains("BREW"))
        #expect(
            text.contains(
                #"coatcheck_http_requests_total{listener="public",method="other",route="/v1/session",status="405"} 100"#
            ),
            "\(text)")
    }

    @Test(
        "A listener refuses connections → counted by the kind of limit, with one log line a minute for each limit (SEC-105)"
    )
    func connections() throws {
        let lines = Lines()
        let metrics = MetricsRegistry()
        let connections = ConnectionMetrics(log: lines.log, metrics: metrics) { lines.time.withLock { $0 } }
        for reason in ["address", "customer", "network", "all"] {
            #expect(metrics.text().contains(#"coatcheck_connections_refused_total{reason="\#(reason)"} 0"#))
        }
        let six = PeerAddress(high: 0x2001_0DB8_0001_02FE, low: 7)
        func limit(_ high: UInt64, _ prefix: Int) -> PeerPolicy.Key {
            PeerPolicy.Key(PeerAddress(high: high, low: 0), prefix: prefix)
        }
        for _ in 0..<10 {
            connections.refused(six, limit(0x2001_0DB8_0001_02FE, 64))
            connections.refused(six, limit(0x2001_0DB8_0001_0200, 56))
            connections.refused(six, limit(0x2001_0DB8_0001_0000, 48))
            let four = PeerAddress(high: 0, low: 0xFFFF_C000_0201)
            connections.refused(four, PeerPolicy.Key(four, prefix: 32))
            connections.isFull()
        }
        let said = lines.take()
        #expect(said.count == 5, "\(said)")
        for words in [
            #""reason":"address","client":"2001:db8:1:2fe::/64""#,
            #""reason":"customer","client":"2001:db8:1:200::/56""#,
            #""reason":"network","client":"2001:db8:1::/48""#, #""reason":"address","client":"192.0.2.1""#,
            #""reason":"all""#,
        ] { #expect(said.contains { $0.contains(words) }, "\(words)") }
        let text = metrics.text()
        #expect(text.contains(#"coatcheck_connections_refused_total{reason="address"} 20"#))
        for reason in ["customer", "network", "all"] {
            #expect(text.contains(#"coatcheck_connections_refused_total{reason="\#(reason)"} 10"#))
        }
        // The refusals of 5,000 networks are logged in at most 64 lines. All networks beyond this number share one line.
        for number in UInt64(0)..<5000 { connections.refused(six, limit(number << 16, 48)) }
        #expect(lines.take().count <= 64)
        lines.time.withLock { $0 = .seconds(61) }
        connections.isFull()
        connections.refused(six, limit(0x2001_0DB8_0001_0000, 48))
        #expect(lines.take().count == 2)
    }
}
