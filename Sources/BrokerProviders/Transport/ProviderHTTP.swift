import AsyncHTTPClient
package import Broker
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// Makes provider calls and says exactly how they failed: surely not sent, sent without a whole answer, or answered.
///
/// It follows no redirect, never makes a call with a secret twice, and bounds every call, the body included.
package final class ProviderHTTP: Sendable {
    /// Connections of a certificate, as long as somebody holds them.
    private struct Held {
        weak var clients: HTTPClients?
    }

    private struct Kind: Hashable {
        let certificate: Digest?
        let trust: Digest?
    }

    private let settings: TransportSettings
    private let clients: HTTPClients
    /// Guards the connections that certificates are shown on, or that trust further roots.
    private let others = Mutex<[Kind: Held]>([:])
    /// Whether private addresses are open to every provider.
    let allowsPrivate: Bool
    /// Begins the spans of calls that no request wanted; nil where nothing is traced.
    let traces: TraceStarter?

    /// Creates the transport; its connections close with the last call that holds it, or at `shutdown()`.
    package init(settings: TransportSettings = TransportSettings(), traces: TraceStarter? = nil) {
        self.traces = traces
        self.settings = settings
        clients = HTTPClients(settings, group: HTTPClient.defaultEventLoopGroup)
        allowsPrivate = settings.allowPrivate
    }

    /// Ends every connection.
    package func shutdown() async {
        await clients.shutdown()
        for held in others.withLock({ Array($0.values) }) { await held.clients?.shutdown() }
    }

    /// Returns the connections on which a certificate is shown, and no other: who needs them holds them.
    func clients(showing certificate: ClientCertificate?, trusting trust: TrustRoots?) -> HTTPClients {
        let kind = Kind(certificate: certificate?.id, trust: trust?.id)
        return others.withLock { others in
            if let held = others[kind]?.clients { return held }
            let made = HTTPClients(
                settings, group: HTTPClient.defaultEventLoopGroup, showing: certificate, trusting: trust)
            others = others.filter { $0.value.clients != nil }
            others[kind] = Held(clients: made)
            return made
        }
    }

    /// Returns a client for one question to another machine; whoever asks shuts it down.
    func client(elsewhere policy: AddressPolicy, trusting trust: TrustRoots?) -> HTTPClient {
        HTTPClients.elsewhere(settings, group: HTTPClient.defaultEventLoopGroup, trusting: trust, policy)
    }

    /// Makes one call, on everybody's connections or on those of a certificate; `refused` hears of a server that does not
    /// take it.
    ///
    /// Throws `notSent` or `lost`; every status is an answer.
    func send(
        _ request: ProviderRequest, over shown: ClientConnections.Shown? = nil, limiter: CallLimiter,
        internalAddresses: Bool, total: Duration, refused: (String) -> Void = { _ in }
    ) async throws(ProviderFailure) -> ProviderAnswer {
        let clients = shown?.clients ?? clients
        // They close with their last holder, which this call is where their certificate was exchanged meanwhile.
        defer { withExtendedLifetime(clients) {} }
        let policy: AddressPolicy =
            request.url.isLoopback ? .loopbackOnly : internalAddresses || allowsPrivate ? .any : .publicOnly
        guard let client = clients[request.connection, policy] else { throw .notSent(detail: "no client") }
        try limiter.begin()
        let mark = SentMark()
        let outcome = await bounded(request, client: client, mark: mark, total: total)
        switch outcome {
        case .answer(let answer):
            // 500 is often about one request; these three say that the service is not there.
            limiter.end([502, 503, 504].contains(answer.status) ? .dead : .alive, failed: answer.status >= 500)
            return answer
        case .refused(let alert) where shown?.certificate == nil:
            // Nothing was shown that could be refused: the server takes nobody so.
            limiter.end(Task.isCancelled ? .nothing : .dead, failed: true)
            throw .notSent(detail: "TLS failed: \(alert)")
        case .refused(let alert):
            // The server is there, and other clients' certificates may be good.
            limiter.end(Task.isCancelled ? .nothing : .alive, failed: true)
            refused(alert)
            throw .notSent(detail: "the server refuses our certificate: \(alert)")
        case .failed(let detail, let certainlyUnsent):
            limiter.end(Task.isCancelled ? .nothing : .dead, failed: true)
            if request.body == nil ? certainlyUnsent : !mark.isSet { throw .notSent(detail: detail) }
            throw .lost(detail: detail)
        }
    }

    private enum Outcome: Sendable {
        case answer(ProviderAnswer)
        /// Our certificate, or that there is none, by an alert before a byte of an answer: the server has read nothing.
        case refused(String)
        case failed(String, certainlyUnsent: Bool)
    }

    /// Makes the call in a task of its own, which is cancelled when the time is over.
    ///
    /// The client's own deadline ends with the answer's head, and would be a second one.
    private func bounded(
        _ request: ProviderRequest, client: HTTPClient, mark: SentMark, total: Duration
    ) async -> Outcome {
        let deadline = NIODeadline.now() + .milliseconds(total.wholeMilliseconds)
        let call = Task { await self.perform(request, client: client, mark: mark) }
        let timer = Self.atDeadline(deadline, on: client.eventLoopGroup.any()) { call.cancel() }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await call.value
        } onCancel: {
            call.cancel()
        }
    }

    /// Does something at a deadline, and a moment later in a process that stood still over it.
    ///
    /// All that is due comes at once there, on threads of their own: an answer that came meanwhile has to be read before the call
    /// is given up, since nobody else knows its tokens.
    private static func atDeadline(
        _ deadline: NIODeadline, on loop: any EventLoop, _ work: @escaping @Sendable () -> Void
    ) -> Scheduled<Void> {
        // Through the executor: where that is behind, an answer that has come is taken first.
        loop.scheduleTask(deadline: deadline) {
            let stoodStill = NIODeadline.now() - deadline > .seconds(1)
            loop.scheduleTask(in: stoodStill ? .seconds(1) : .zero) { Task { work() } }
        }
    }

    private func perform(
        _ request: ProviderRequest, client: HTTPClient, mark: SentMark
    ) async -> Outcome {
        var outgoing = HTTPClientRequest(url: request.url.text)
        outgoing.method = HTTPMethod(rawValue: request.method)
        outgoing.headers = HTTPHeaders(request.headers.map { ($0.name, $0.value) })
        if !outgoing.headers.contains(name: "User-Agent") {
            outgoing.headers.add(name: "User-Agent", value: "coatcheck")
        }
        outgoing.headers.add(name: "Accept-Encoding", value: "gzip, deflate")
        if let body = request.body {
            outgoing.body = .stream(
                SentMark.Body(buffer: ByteBuffer(bytes: body), mark: mark), length: .known(Int64(body.count)))
        }
        do {
            return try await Self.answer(client, try request.freshened(outgoing))
        } catch let error as HTTPClientError
            where error == .remoteConnectionClosed && request.connection == .pooled && request.body == nil
        {
            // A kept connection that the provider closed just then; a read may be made again.
            do { return try await Self.answer(client, try request.freshened(outgoing)) } catch {
                return Self.failed(error)
            }
        } catch {
            return Self.failed(error)
        }
    }

    private static func answer(
        _ client: HTTPClient, _ request: HTTPClientRequest
    ) async throws -> Outcome {
        let response = try await client.execute(request, deadline: .distantFuture)
        var fault: ProviderAnswer.Fault?
        var body: [UInt8] = []
        do {
            for try await part in response.body {
                guard body.count + part.readableBytes <= ProviderAnswer.maximumBytes else {
                    fault = .tooLarge
                    break
                }
                body.append(contentsOf: part.readableBytesView)
            }
        } catch {
            // What comes behind an answer's head is no refusal of the request.
            throw CertificateRefusal.alert(error) == nil ? error : BrokenOff()
        }
        if fault == nil {
            do throws(ContentCoding.Failure) {
                body = try ContentCoding.decode(
                    body, response.headers[canonicalForm: "Content-Encoding"].map(String.init),
                    maximumBytes: ProviderAnswer.maximumBytes)
            } catch {
                fault = error == .tooLarge ? .tooLarge : .undecodable
            }
        }
        return .answer(
            ProviderAnswer(
                status: Int(response.status.code), headers: response.headers, body: fault == nil ? body : [],
                fault: fault))
    }

    /// An alert amid an answer.
    private struct BrokenOff: Error {}

    private static func failed(_ error: any Error) -> Outcome {
        if error is BrokenOff { return .failed("TLS failed", certainlyUnsent: false) }
        if let alert = CertificateRefusal.alert(error) { return .refused(alert) }
        if error is CancellationError { return .failed("no whole answer in time", certainlyUnsent: false) }
        if error is VaultFailure { return .failed("no proof could be made", certainlyUnsent: true) }
        if error is AddressPolicy.Refused {
            return .failed("the provider's address is not a public one", certainlyUnsent: true)
        }
        if let error = error as? HTTPClientError {
            let unsent: [HTTPClientError] = [
                .connectTimeout, .tlsHandshakeTimeout, .getConnectionFromPoolTimeout, .httpProxyHandshakeTimeout,
                .invalidProxyResponse, .proxyAuthenticationRequired, .invalidURL, .emptyHost, .alreadyShutdown,
            ]
            return .failed(error.shortDescription, certainlyUnsent: unsent.contains(error))
        }
        // NIOPosix's type, which this module does not import.
        if "\(type(of: error))" == "NIOConnectionError" { return .failed("no connection", certainlyUnsent: true) }
        if error is NIOSSLError || error is BoringSSLError { return .failed("TLS failed", certainlyUnsent: true) }
        // A type's name has nothing of the request in it; an error's text may.
        return .failed("\(type(of: error))", certainlyUnsent: false)
    }
}

/// One call to a provider.
///
/// It may hold secrets and is never described.
struct ProviderRequest: Sendable {
    /// The connections that may carry the call (library note 5).
    enum ConnectionUse: Sendable {
        /// A connection of its own: a pooled one that the provider closes at that instant would lose a single-use
        /// secret.
        case single
        /// Kept connections: metadata and identity.
        case pooled
    }

    var method: String
    var url: EndpointURL
    var connection: ConnectionUse
    var headers: [(name: String, value: String)] = []
    var body: [UInt8]?
    /// The fields that are made anew for each sending: a proof goes out once.
    var fresh: (@Sendable () throws -> [(name: String, value: String)])?

    static func get(_ url: EndpointURL, accept: String = "application/json") -> ProviderRequest {
        ProviderRequest(method: "GET", url: url, connection: .pooled, headers: [("Accept", accept)])
    }

    /// Returns what is to be sent now, with the fields that are made for this sending.
    func freshened(_ outgoing: HTTPClientRequest) throws -> HTTPClientRequest {
        guard let fresh else { return outgoing }
        var outgoing = outgoing
        for field in try fresh() { outgoing.headers.add(name: field.name, value: field.value) }
        return outgoing
    }
}

/// Knows whether a request's body was asked for: AsyncHTTPClient does so only on a connection that stands, TLS
/// included.
///
/// Until then a code or refresh token in it surely was not sent.
final class SentMark: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() { flag.store(true, ordering: .releasing) }

    /// A body of one buffer that sets the mark when it is taken.
    struct Body: AsyncSequence, Sendable {
        typealias Element = ByteBuffer

        let buffer: ByteBuffer
        let mark: SentMark

        struct AsyncIterator: AsyncIteratorProtocol {
            var buffer: ByteBuffer?
            let mark: SentMark

            mutating func next() async throws -> ByteBuffer? {
                defer { buffer = nil }
                if buffer != nil { mark.set() }
                return buffer
            }
        }

        func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer, mark: mark) }
    }
}

/// Makes one provider's calls: the transport with that provider's limiter and address rule.
struct ProviderCaller: Sendable {
    let http: ProviderHTTP
    let limiter: CallLimiter
    let allowPrivate: Bool
    let total: Duration
    /// The connections that its calls go on; nil for everybody's.
    var shown: ClientConnections.Shown?
    /// Hears of a server that refuses the certificate.
    var refused: @Sendable (String) -> Void = { _ in }
    private let name: ProviderName
    private let clock: BrokerClock

    /// Creates it; `turned` hears of the breaker of these calls.
    init(
        http: ProviderHTTP, settings: ProviderSettings, clock: BrokerClock,
        turned: @escaping @Sendable (_ isOpen: Bool) -> Void = { _ in }
    ) {
        self.clock = clock
        name = settings.name
        self.http = http
        limiter = CallLimiter(limits: settings.limits, clock: clock, turned: turned)
        allowPrivate = settings.allowPrivate
        total = settings.limits.total
    }

    /// The moment by which a call that begins now has ended by its own limit: for the calls of nobody's work, such as a
    /// shared document's.
    var ownLimit: Duration { clock.monotonic() + total }

    /// Returns a caller whose refused certificates somebody hears of.
    func refusing(_ refused: @escaping @Sendable (String) -> Void) -> ProviderCaller {
        var caller = self
        caller.refused = refused
        return caller
    }

    /// Makes one call, which has ended by a monotonic moment.
    ///
    /// Throws `notSent` or `lost`; every status is an answer.
    func send(_ request: ProviderRequest, by deadline: Duration) async throws(ProviderFailure) -> ProviderAnswer {
        let rest = deadline - clock.monotonic()
        guard rest > .zero else { throw .notSent(detail: "no time is left for it") }
        guard let span = span(of: request) else {
            return try await http.send(
                request, over: shown, limiter: limiter, internalAddresses: allowPrivate, total: min(total, rest),
                refused: refused)
        }
        var request = request
        // Never the caller's own: what a stranger has chosen goes to no third party.
        request.headers.append((name: "traceparent", value: span.ownTraceparent))
        do throws(ProviderFailure) {
            let answer = try await http.send(
                request, over: shown, limiter: limiter, internalAddresses: allowPrivate, total: min(total, rest),
                refused: refused)
            span.set("http.response.status_code", answer.status)
            span.end(answer.status >= 500 ? String(answer.status) : nil)
            return answer
        } catch {
            span.end(error.shortDescription)
            throw error
        }
    }

    private func span(of request: ProviderRequest) -> (any TraceSpan)? {
        let text = { "\(request.method) \(name)" }
        let span =
            RequestScope.current.map { $0.span?.child(text(), .client) } ?? http.traces?.begin(text(), .client, nil)
        span?.set("http.request.method", request.method)
        span?.set("coatcheck.provider", name.text)
        return span
    }
}
