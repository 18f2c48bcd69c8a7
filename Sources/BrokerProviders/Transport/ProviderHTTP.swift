import AsyncHTTPClient
package import Broker
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// Makes provider calls and reports exactly how they failed: certainly unsent, sent but not fully answered, or answered.
///
/// Redirects are refused, and a call with a single-use secret is never repeated. Every call has limits for its time and for
/// the size of its answer.
package final class ProviderHTTP: Sendable {
    /// The connections of one certificate, which exist as long as a caller holds them.
    private struct Held {
        weak var clients: HTTPClients?
    }

    private struct Kind: Hashable {
        let certificate: Digest?
        let trust: Digest?
    }

    private let settings: TransportSettings
    private let clients: HTTPClients
    /// Guards the connections that show certificates or trust further roots.
    private let others = Mutex<[Kind: Held]>([:])
    /// Whether every provider may be reached at private addresses.
    let allowsPrivate: Bool
    /// Begins the tracing spans of background calls, which are outside any request to the broker; nil if tracing is off.
    let traces: TraceStarter?

    /// Creates the transport; its connections close after the last call that uses them, or at `shutdown()`.
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

    /// Returns the connections for a certificate and trust roots.
    ///
    /// These connections close when the last caller releases them.
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

    /// Returns an `HTTPClient` for one request to another machine; the caller must shut the `HTTPClient` down.
    func client(elsewhere policy: AddressPolicy, trusting trust: TrustRoots?) -> HTTPClient {
        HTTPClients.elsewhere(settings, group: HTTPClient.defaultEventLoopGroup, trusting: trust, policy)
    }

    /// Makes one call, on the shared connections or on those of a certificate.
    ///
    /// `refused` is called if the server refuses the certificate. Throws `notSent` or `lost`; returns an answer with any
    /// status.
    func send(
        _ request: ProviderRequest, over shown: ClientConnections.Shown? = nil, limiter: CallLimiter,
        internalAddresses: Bool, total: Duration, refused: (String) -> Void = { _ in }
    ) async throws(ProviderFailure) -> ProviderAnswer {
        let clients = shown?.clients ?? clients
        // The connections close when the last reference to them is released. If the certificate was replaced meanwhile, this
        // call may have the last reference.
        defer { withExtendedLifetime(clients) {} }
        let policy: AddressPolicy =
            request.url.base.isLoopback ? .loopbackOnly : internalAddresses || allowsPrivate ? .any : .publicOnly
        guard let client = clients[request.connection, policy] else { throw .notSent(detail: "no client") }
        try limiter.begin()
        let mark = SentMark()
        let outcome = await bounded(request, client: client, mark: mark, total: total)
        switch outcome {
        case .answer(let answer):
            // A 500 often concerns one request, but these three statuses mean that the service is unavailable.
            limiter.end([502, 503, 504].contains(answer.status) ? .dead : .alive, failed: answer.status >= 500)
            return answer
        case .refused(let alert) where shown?.certificate == nil:
            // This call showed no certificate, and the server's alert refused it. The server would refuse every other call
            // without a certificate, too, so the breaker counts the provider as unreachable.
            limiter.end(Task.isCancelled ? .nothing : .dead, failed: true)
            throw .notSent(detail: "TLS failed: \(alert)")
        case .refused(let alert):
            // The server is reachable and may accept other clients' certificates, so the breaker does not count this call as a
            // failure.
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
        /// Before any byte of an answer, the server sent a TLS alert about the shown certificate, or about a missing
        /// certificate.
        ///
        /// The server did not read the request.
        case refused(String)
        case failed(String, certainlyUnsent: Bool)
    }

    /// Makes the call in a task of its own, which is cancelled when the time is over.
    ///
    /// AsyncHTTPClient's own deadline would cover only the head of the answer.
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

    /// Runs work at a deadline, or a second later if the process was suspended when the deadline passed.
    ///
    /// After a suspension, all timers fire at once, on their own threads. An answer that arrived meanwhile must be read
    /// before the call is abandoned, because only that answer contains the tokens.
    private static func atDeadline(
        _ deadline: NIODeadline, on loop: any EventLoop, _ work: @escaping @Sendable () -> Void
    ) -> Scheduled<Void> {
        // The work runs in a task, so that a busy executor first handles an answer that has arrived.
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
            return try await Self.answer(client, try request.freshened(outgoing), request.headWithin)
        } catch let error as HTTPClientError
            where error == .remoteConnectionClosed && request.connection == .pooled && request.body == nil
        {
            // The provider closed the kept connection when the request was sent. A request without a body only reads, so it
            // may be repeated.
            do { return try await Self.answer(client, try request.freshened(outgoing), request.headWithin) } catch {
                return Self.failed(error)
            }
        } catch {
            return Self.failed(error)
        }
    }

    private static func answer(
        _ client: HTTPClient, _ request: HTTPClientRequest, _ headWithin: Duration?
    ) async throws -> Outcome {
        let end = headWithin.map { NIODeadline.now() + .milliseconds($0.wholeMilliseconds) } ?? .distantFuture
        let response = try await client.execute(request, deadline: end)
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
            // An alert after an answer's header cannot be a refusal of the request.
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

    /// An error for an alert that arrived in the middle of an answer.
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
        // The error's type is in NIOPosix, which this module does not import. So the type's name is compared.
        if "\(type(of: error))" == "NIOConnectionError" { return .failed("no connection", certainlyUnsent: true) }
        if error is NIOSSLError || error is BoringSSLError { return .failed("TLS failed", certainlyUnsent: true) }
        // An error's text may contain parts of the request, but the name of its type is harmless.
        return .failed("\(type(of: error))", certainlyUnsent: false)
    }
}

/// Records whether AsyncHTTPClient has read a request's body, which it does only on an established connection, after the TLS
/// handshake.
///
/// If the body was not read, a code or refresh token in it is certainly unsent.
final class SentMark: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() { flag.store(true, ordering: .releasing) }

    /// A body of one buffer, which sets the mark when it is read.
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
