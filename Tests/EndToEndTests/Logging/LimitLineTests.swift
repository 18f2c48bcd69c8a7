import Broker
import BrokerProviders
import Synchronization
import Testing

@testable import BrokerHTTP
@testable import coatcheck

@Suite("Lines about limits, proxies and disks", .timeLimit(.minutes(1)))
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
            client: client, untrustedProxy: proxy, userAgent: nil, code: code, privateDetail: code.map { _ in "login" })
    }

    @Test("An address that meets its limit is named once a minute; of very many one line tells (SEC-115)")
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

    @Test("A proxy that is not trusted is said once")
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

    @Test("A full disk is said once, and once when there is room again")
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

    @Test("A provider is ok, failing after two failures in a row, and open while its breaker refuses")
    func providers() {
        #expect(ProviderHealth.state(.closed(failures: 0), 0) == "ok")
        #expect(ProviderHealth.state(.closed(failures: 1), 1) == "ok")
        #expect(ProviderHealth.state(.closed(failures: 0), 2) == "failing")
        #expect(ProviderHealth.state(.open(until: .zero, pause: .seconds(1)), 9) == "open")
        #expect(ProviderHealth.state(.halfOpen(pause: .seconds(1)), 9) == "open")
    }
}
