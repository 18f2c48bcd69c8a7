import Broker
import BrokerTestSupport
import Foundation
import Synchronization
import Testing

@testable import coatcheck

@Suite("Tracing", .timeLimit(.minutes(1)))
struct TracingTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let parent = "b7ad6b7169203331"
    private static let field = "00-\(trace)-\(parent)-01"

    /// A tracer that collects its spans in a list.
    private final class Spans: Sendable {
        private let list = Mutex<[FinishedSpan]>([])
        func tracer(sample: Double = 1) -> OTLPTracer {
            OTLPTracer(sample: sample, finished: { [self] span in list.withLock { $0.append(span) } })
        }
        var all: [FinishedSpan] { list.withLock { $0 } }
    }

    @Test(
        "A request has a trace context that readers must ignore according to the specification → ignored",
        arguments: [
            "", "00", "00-\(trace)-\(parent)", "00-\(trace)-\(parent)-1", "00-\(trace)-\(parent)-01-more",
            "ff-\(trace)-\(parent)-01", "00-00000000000000000000000000000000-\(parent)-01",
            "00-\(trace)-0000000000000000-01", "00-\(trace.uppercased())-\(parent)-01", "00_\(trace)_\(parent)_01",
            "00-\(trace)-\(parent)-0x", "01-\(trace)-\(parent)-01more", " 00-\(trace)-\(parent)-01",
            String(repeating: "0", count: 55), String(repeating: "é", count: 55),
        ])
    func refused(_ text: String) {
        #expect(TraceParent(text) == nil)
        let span = Spans().tracer().starter.begin("x", .server, TraceOrigin(traceparent: text, isTrusted: true))
        #expect(!span.continuesCaller)
    }

    @Test("A request has a trace context of version 00, or of a later version with more fields → read")
    func read() throws {
        let read = try #require(TraceParent(Self.field))
        #expect(read == TraceParent(traceID: Self.trace, spanID: Self.parent, isSampled: true))
        #expect(read.text == Self.field)
        #expect(
            TraceParent("cc-\(Self.trace)-\(Self.parent)-00-what-comes")
                == TraceParent(traceID: Self.trace, spanID: Self.parent, isSampled: false))
    }

    @Test(
        "A stranger's request has a trace context → the broker continues its trace id, but ignores the decision to record"
    )
    func strangers() throws {
        for (sample, flag, count) in [(0.0, "01", 0), (1.0, "00", 1)] {
            let spans = Spans()
            let origin = TraceOrigin(traceparent: "00-\(Self.trace)-\(Self.parent)-\(flag)", isTrusted: false)
            let span = spans.tracer(sample: sample).starter.begin("x", .server, origin)
            #expect(span.traceID == Self.trace && span.continuesCaller)
            #expect(
                span.traceparent.hasPrefix("00-\(Self.trace)-")
                    && span.traceparent.hasSuffix(count == 1 ? "-01" : "-00"))
            #expect(!span.traceparent.contains(Self.parent))
            // A trace id that a stranger chose must not be sent to a third party.
            #expect(!span.ownTraceparent.contains(Self.trace))
            span.end(nil)
            #expect(spans.all.count == count)
        }
    }

    @Test(
        "A trusted proxy decides whether to record a trace → followed; a backend decides → followed after its authentication"
    )
    func trusted() {
        for (sample, flag, count) in [(0.0, "01", 1), (1.0, "00", 0)] {
            let text = "00-\(Self.trace)-\(Self.parent)-\(flag)"
            let spans = Spans()
            let tracer = spans.tracer(sample: sample)
            let proxied = tracer.starter.begin("x", .server, TraceOrigin(traceparent: text, isTrusted: true))
            // A trusted proxy may forward trace ids that strangers chose. So they must not be sent to a third party.
            #expect(proxied.traceparent.contains(Self.trace) && !proxied.ownTraceparent.contains(Self.trace))
            proxied.end(nil)
            #expect(spans.all.count == count)
            let backend = tracer.starter.begin("y", .server, TraceOrigin(traceparent: text, isTrusted: false))
            backend.believeCaller()
            let child = backend.child("z", .client)
            child.end(nil)
            backend.end(nil)
            #expect(spans.all.count == 3 * count)
        }
        // The broker began this trace itself, so there is no caller.
        let spans = Spans()
        let own = spans.tracer().starter.begin("x", .server, nil)
        own.believeCaller()
        own.end(nil)
        #expect(spans.all.count == 1)
    }

    @Test(
        "A span has a child that fails and is ended twice → two finished spans, nested, and only the child has failed")
    func nesting() throws {
        let spans = Spans()
        let request = spans.tracer().starter.begin(
            "request", .server, TraceOrigin(traceparent: Self.field, isTrusted: true))
        let call = request.child("POST oidc", .client)
        call.set("http.response.status_code", 503)
        call.end("503")
        call.end(nil)
        request.rename("GET /v1/session")
        request.end(nil)
        let all = spans.all
        #expect(all.map(\.name) == ["POST oidc", "GET /v1/session"])
        #expect(all[0].parentID == all[1].spanID && all[1].parentID == Self.parent)
        #expect(all.allSatisfy { $0.traceID == Self.trace && $0.end >= $0.start })
        #expect(all[0].hasFailed && !all[1].hasFailed)
        #expect(all[0].attributes == ["http.response.status_code": .integer(503), "error.type": .text("503")])
    }

    @Test("A finished span is sent to the collector → OTLP's JSON, with hexadecimal ids and 64-bit numbers as text")
    func body() throws {
        let span = FinishedSpan(
            traceID: Self.trace, spanID: Self.parent, parentID: nil, name: "GET /v1/session", kind: .server,
            start: 1_795_208_400_007_000_001, end: 1_795_208_400_008_000_000,
            attributes: ["http.response.status_code": .integer(200), "http.route": .text("/v1/session")],
            hasFailed: true)
        let text = String(decoding: OTLPExporter.body([span]), as: UTF8.self)
        #expect(
            text.contains(
                #"{"traceId":"\#(Self.trace)","spanId":"\#(Self.parent)","name":"GET /v1/session","kind":2,"#
                    + #""startTimeUnixNano":"1795208400007000001","endTimeUnixNano":"1795208400008000000","attributes":"#
                    + #"[{"key":"http.response.status_code","value":{"intValue":"200"}},"#
                    + #"{"key":"http.route","value":{"stringValue":"/v1/session"}}],"status":{"code":2}}"#))
        #expect((try? JSONSerialization.jsonObject(with: Data(text.utf8))) != nil)
    }

    @Test(
        "100 spans exceed the exporter's queue, or the collector is unreachable → the spans are dropped and counted"
    )
    func bounded() async throws {
        let metrics = MetricsRegistry()
        let log = ProcessLog(level: .error, now: { WallTime(seconds: 0) }, emit: { _ in })
        let settings = try #require(
            try ConfigurationFixture.load(ConfigurationFixture.minimal + "\ntracing: {otlp: \"http://127.0.0.1:1\"}\n")
                .tracing)
        #expect(settings.url == "http://127.0.0.1:1/v1/traces" && settings.sample == 1)
        let exporter = OTLPExporter(settings, metrics: metrics, log: log, clock: SystemClock.clock)
        let starter = OTLPTracer(sample: 1, finished: { exporter.add($0) }).starter
        for _ in 0..<(OTLPExporter.capacity + 100) { starter.begin("x", .server, nil).end(nil) }
        #expect(exporter.waiting == OTLPExporter.capacity)
        #expect(metrics.text().contains(#"coatcheck_spans_dropped_total{reason="queue"} 100"#))
        let running = Task { try await exporter.run() }
        func refused() -> Int {
            let name = #"coatcheck_spans_dropped_total{reason="collector"} "#
            let line = metrics.text().split(separator: "\n").first { $0.hasPrefix(name) }
            return line.flatMap { Int($0.dropFirst(name.count)) } ?? 0
        }
        try await eventually("the collector has refused a batch") { refused() > 0 }
        // The exporter sends batches of 512 spans. After a refusal it pauses for a second, so here it has dropped only whole
        // batches.
        #expect(refused() % 512 == 0)
        running.cancel()
        try await running.value
    }

    @Test("The broker's start fails before its span exporter runs → the exporter's HTTP client is closed")
    func neverRan() throws {
        let settings = try #require(
            try ConfigurationFixture.load(ConfigurationFixture.minimal + "\ntracing: {otlp: \"http://127.0.0.1:1\"}\n")
                .tracing)
        let log = ProcessLog(level: .error, now: { WallTime(seconds: 0) }, emit: { _ in })
        weak var gone: OTLPExporter?
        do {
            let exporter = OTLPExporter(settings, metrics: MetricsRegistry(), log: log, clock: SystemClock.clock)
            gone = exporter
        }
        // In a debug build, releasing an open client crashes the process.
        #expect(gone == nil)
    }
}
