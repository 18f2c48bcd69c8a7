import AsyncHTTPClient
import Broker
import Glibc
import NIOCore
import NIOHTTP1
import ServiceLifecycle
import Synchronization

/// Sends spans to a collector: OTLP over HTTP, in the protocol's JSON (decision 32).
///
/// Callers never wait for the export. If the queue is full or a call to the collector fails, the spans are dropped and counted.
final class OTLPExporter: Service {
    private struct State {
        var waiting: [FinishedSpan] = []
        var isRefused = false
    }

    /// The largest number of waiting spans.
    static let capacity = 8192
    /// The number of spans in one call.
    private static let batch = 512
    private static let interval = Duration.seconds(1)
    private static let connectTimeout = TimeAmount.seconds(2)
    private static let callTimeout = TimeAmount.seconds(5)

    private let url: String
    private let client: HTTPClient
    private let metrics: MetricsRegistry
    private let sent: CounterSeries
    private let log: ProcessLog
    private let clock: BrokerClock
    /// Guards the waiting spans.
    private let state = Mutex(State())

    init(_ settings: TracingSettings, metrics: MetricsRegistry, log: ProcessLog, clock: BrokerClock) {
        url = settings.url
        self.metrics = metrics
        self.log = log
        self.clock = clock
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow, timeout: .init(connect: Self.connectTimeout))
        configuration.httpVersion = .http1Only
        configuration.tracing.tracer = nil
        configuration.connectionPool.retryConnectionEstablishment = false
        // The operator has chosen the collector, so any address is allowed. But a loopback name must resolve to loopback.
        let policy: AddressPolicy = settings.isLoopback ? .loopbackOnly : .any
        configuration.http1_1ConnectionDebugInitializer = { channel in
            if policy.allows(channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }) {
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(ChannelError.connectTimeout(.zero))
        }
        client = HTTPClient(
            eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup), configuration: configuration)
        sent = metrics.counter("coatcheck_spans_sent_total")
        for reason in ["queue", "collector"] { dropped(reason, 0) }
    }

    deinit {
        // Close the client here for an exporter whose `run` was never called.
        let client = client
        Task.detached { try? await client.shutdown() }
    }

    /// Takes a span that has ended.
    ///
    /// The call waits only while another caller appends a span.
    func add(_ span: FinishedSpan) {
        let hasRoom = state.withLock { state in
            guard state.waiting.count < Self.capacity else { return false }
            state.waiting.append(span)
            return true
        }
        if !hasRoom { dropped("queue", 1) }
    }

    /// The number of waiting spans, for tests.
    var waiting: Int { state.withLock { $0.waiting.count } }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            while !Task.isCancelled {
                do { try await clock.sleep(Self.interval) } catch { return }
                await sendWaiting()
            }
        }
        await Task.detached { [self] in await sendWaiting() }.value
        try? await client.shutdown()
    }

    /// Sends the waiting spans.
    ///
    /// If a call to the collector fails, its spans are dropped.
    private func sendWaiting() async {
        while true {
            let spans = state.withLock { state in
                let spans = Array(state.waiting.prefix(Self.batch))
                state.waiting.removeFirst(spans.count)
                return spans
            }
            guard !spans.isEmpty else { return }
            let fault = await send(spans)
            let wasRefused = state.withLock { state in
                defer { state.isRefused = fault != nil }
                return state.isRefused
            }
            if let fault {
                dropped("collector", spans.count)
                if !wasRefused { log.write(.warning, "the collector does not take the traces", [("detail", fault)]) }
                return
            }
            sent.increment(by: Int64(spans.count))
            if wasRefused { log.write(.notice, "the collector takes the traces again") }
        }
    }

    /// Sends spans to the collector in one call; returns the reason if the call failed.
    private func send(_ spans: [FinishedSpan]) async -> String? {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.headers.add(name: "User-Agent", value: "coatcheck/\(Version.text)")
        request.body = .bytes(Self.body(spans))
        do {
            let response = try await client.execute(request, deadline: .now() + Self.callTimeout)
            guard (200...299).contains(response.status.code) else { return "status \(response.status.code)" }
            _ = try await response.body.collect(upTo: 1 << 16)
            return nil
        } catch let error as HTTPClientError {
            return error.shortDescription
        } catch {
            return "\(type(of: error))"
        }
    }

    private func dropped(_ reason: String, _ count: Int) {
        metrics.counter("coatcheck_spans_dropped_total", [("reason", reason)]).increment(by: Int64(count))
    }

    // MARK: The protocol's JSON

    /// The machine's name, which in Kubernetes is the pod's name, and the process's id.
    ///
    /// Together they distinguish this process from the other replicas.
    private static let instance: String = {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return String(getpid()) }
        return "\(String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)):\(getpid())"
    }()

    /// Writes `ExportTraceServiceRequest`: ids in hexadecimal, 64-bit numbers as text, names in lower camel case.
    static func body(_ spans: [FinishedSpan]) -> [UInt8] {
        var writer = JSONWriter(capacity: 512 * spans.count + 512)
        writer.object { writer in
            writer.name("resourceSpans")
            writer.array { writer in
                writer.object { writer in
                    writer.name("resource")
                    writer.object { writer in
                        attributes(
                            [
                                "service.name": .text("coatcheck"), "service.version": .text(Version.text),
                                "service.instance.id": .text(instance),
                            ], &writer)
                    }
                    writer.name("scopeSpans")
                    writer.array { writer in
                        writer.object { writer in
                            writer.name("scope")
                            writer.object { $0.member("name", "coatcheck") }
                            writer.name("spans")
                            writer.array { writer in for item in spans { span(item, &writer) } }
                        }
                    }
                }
            }
        }
        return writer.bytes
    }

    private static func span(_ span: FinishedSpan, _ writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("traceId", span.traceID)
            writer.member("spanId", span.spanID)
            if let parent = span.parentID { writer.member("parentSpanId", parent) }
            writer.member("name", span.name)
            writer.name("kind")
            writer.integer(kind(span.kind))
            writer.member("startTimeUnixNano", String(span.start))
            writer.member("endTimeUnixNano", String(span.end))
            attributes(span.attributes, &writer)
            guard span.hasFailed else { return }
            writer.name("status")
            writer.object { writer in
                writer.name("code")
                writer.integer(2)
            }
        }
    }

    private static func kind(_ kind: TraceKind) -> Int64 {
        switch kind {
        case .server: 2
        case .client: 3
        }
    }

    private static func attributes(_ attributes: [String: FinishedSpan.Value], _ writer: inout JSONWriter) {
        writer.name("attributes")
        writer.array { writer in
            for (key, value) in attributes.sorted(by: { $0.key < $1.key }) {
                writer.object { writer in
                    writer.member("key", key)
                    writer.name("value")
                    writer.object { value.write(to: &$0) }
                }
            }
        }
    }
}

extension FinishedSpan.Value {
    /// Writes the single member of an `AnyValue`.
    fileprivate func write(to writer: inout JSONWriter) {
        switch self {
        case .text(let text): writer.member("stringValue", text)
        case .integer(let number): writer.member("intValue", String(number))
        }
    }
}
