import Broker
import BrokerHTTP
import BrokerRelay
import BrokerTestSupport
import BrokerVault
import BrokerWire
import HTTPTypes
import NIOCore
import NIOPosix
import Synchronization

/// The whole HTTP surface over an in-memory store, a real vault and a fake provider.
struct HTTPHarness: Sendable {
    let provider: FakeProvider
    let vault: OpenSSLVault
    let store: InMemoryStore
    private(set) var useCases: BrokerUseCases
    private(set) var context: BrokerContext
    let configuration: HTTPConfiguration
    let records: Records
    let clock: BrokerClock
    let load = ServerLoad()
    var relay: Relay?

    /// Collects the records of requests that a broker would write into its log.
    final class Records: Sendable {
        private let list = Mutex<[RequestRecord]>([])
        func add(_ record: RequestRecord) { list.withLock { $0.append(record) } }
        var all: [RequestRecord] { list.withLock { $0 } }
    }

    init(
        publicURL: String = "https://auth.example.com", time: TestClock = TestClock(),
        binding: BindingPolicy.Mode = .off,
        children: [ChildKind: ChildPolicy] = [:],
        _ configure: (inout HTTPConfiguration, OpenSSLVault) -> Void = { _, _ in }
    ) throws {
        let redirect = [RedirectURI("com.example.app:/cb")].compactMap { $0 }
        let hosted = [RedirectURI("https://auth.example.com/callback/as")].compactMap { $0 }
        var clients = [
            ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both, redirectURIs: redirect, scope: ["openid", "email"],
                allowedParameters: ["login_hint"]),
            ClientProfile(
                name: ClientName(unchecked: "desk"), login: .both, transport: .bearer,
                redirectURIs: [RedirectURI("com.example.desk:/cb")].compactMap { $0 }, scope: ["openid"]),
            ClientProfile(
                name: ClientName(unchecked: "web"), redirectURIs: hosted, scope: ["openid"],
                hostedCallbackTo: "https://app.example.com/oauth"),
            ClientProfile(
                name: ClientName(unchecked: "sdk"), login: .app, transport: .bearer,
                redirectURIs: [RedirectURI("com.example.sdk:/cb")].compactMap { $0 }, nativeCode: true),
        ]
        for index in clients.indices {
            clients[index].binding.mode = binding
            clients[index].children = children
        }
        provider = FakeProvider(
            profile: ProviderProfile(
                name: ProviderName(unchecked: "as"), kind: .oidc, displayName: "AS", issuer: "https://as.example",
                clients: clients, stepUp: .everything))
        vault = try OpenSSLVault(ring: KeyRing.generate(now: TestClock.start, random: SystemRandom.bytes))
        store = InMemoryStore()
        clock = BrokerClock(
            now: { time.now }, monotonic: { time.monotonic },
            sleep: { _ in try await Task.sleep(for: .milliseconds(1)) })
        var settings = BrokerSettings()
        settings.proofOrigins = ProofOrigins(publicURL: publicURL)
        context = BrokerContext(
            clock: clock, spawner: Spawner { _, work in Task { await work() } }, events: EventSink { _ in },
            vault: vault, store: store, providers: ProviderDirectory([provider]), cache: SessionCache(),
            notices: SessionNotices(), settings: settings)
        useCases = BrokerUseCases(context, publicURL: publicURL)
        var configuration = HTTPConfiguration(publicURL: publicURL)
        configuration.hosts = ["localhost", "127.0.0.1"]
        configuration.openAPI = Array("openapi: 3.1.0\n".utf8)
        configure(&configuration, vault)
        self.configuration = configuration
        records = Records()
    }

    /// Replaces the settings of the use cases.
    mutating func limit(to settings: BrokerSettings) {
        context = context.with(context.providers, settings)
        useCases = BrokerUseCases(context, publicURL: configuration.publicURL)
    }

    var log: RequestLog { RequestLog { [records] in records.add($0) } }

    var responder: BrokerResponder {
        BrokerRouter.responder(
            useCases: useCases, relay: relay, configuration: configuration, clock: clock,
            digest: { [vault] in vault.digest($0) }, load: load, log: log)
    }

    /// The responder of the backends' own listener.
    var backendResponder: BrokerResponder {
        BackendRouter.responder(
            useCases: useCases, configuration: configuration, clock: clock, digest: { [vault] in vault.digest($0) },
            load: load, log: log)
    }

    var managementResponder: BrokerResponder {
        ManagementRouter.responder(
            health: ManagementHealth(
                ping: { [store] () async throws(StoreFailure) in try await store.ping() },
                metrics: { "coatcheck_up 1\n" }),
            sessions: useCases.adminSessions, configuration: configuration, clock: clock,
            digest: { [vault] in vault.digest($0) }, log: log)
    }

    /// Sends one request in-process.
    func send(
        _ method: HTTPRequest.Method, _ uri: String, _ headers: HTTPFields = [:], body: String? = nil
    ) async throws -> Reply {
        try await Self.send(to: responder, method, uri, headers, body: body)
    }

    /// Sends one request in-process to a listener's responder.
    static func send(
        to responder: BrokerResponder, _ method: HTTPRequest.Method, _ uri: String, _ headers: HTTPFields = [:],
        body: String? = nil
    ) async throws -> Reply {
        var fields = headers
        if let body { fields[.contentLength] = String(body.utf8.count) }
        let request = HTTPRequest(
            method: method, scheme: "http", authority: "localhost", path: uri, headerFields: fields)
        let answer = await responder.respond(
            to: request, body: RequestBody(buffer: ByteBuffer(string: body ?? "")),
            on: MultiThreadedEventLoopGroup.singleton.any())
        return try await Reply(answer)
    }

    /// Posts JSON.
    func post(_ uri: String, _ json: String, _ headers: HTTPFields = [:]) async throws -> Reply {
        var headers = headers
        headers[.contentType] = "application/json"
        return try await send(.post, uri, headers, body: json)
    }

    /// Posts a form.
    func form(_ uri: String, _ form: String, _ headers: HTTPFields = [:]) async throws -> Reply {
        var headers = headers
        headers[.contentType] = "application/x-www-form-urlencoded"
        return try await send(.post, uri, headers, body: form)
    }

    /// Signs in through the use cases and returns the session and its token.
    func signIn(client: String = "ios", code: String = "canary-code") async throws -> SignedIn {
        let login = try await useCases.startLogin.start(
            StartLoginInput(provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: client)))
        let redirect = client == "desk" ? "com.example.desk:/cb" : "com.example.app:/cb"
        var input = ForwardCodeInput()
        input.callbackURL = "\(redirect)?code=\(code)&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        guard case .signedIn(let signedIn) = try await useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return signedIn
    }

    /// Makes a session from an id_token, as an app with a native SDK does, and returns its token.
    func signInByIDToken() async throws -> Secret {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "sdk")
        input.idToken = Secret("good.claims.signature")
        input.nonce = Secret("n")
        guard case .signedIn(let signedIn) = try await useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return signedIn.token
    }

    /// The header of a session cookie.
    func cookie(_ signedIn: SignedIn) -> HTTPFields { [.cookie: "__Host-coatcheck=\(signedIn.token.reveal())"] }

    /// Runs a real server and passes its port to the body.
    func live<Value: Sendable>(_ body: @Sendable @escaping (Int) async throws -> Value) async throws -> Value {
        try await live(responder, body)
    }

    /// Runs a real server of the backends' own listener and passes its port to the body.
    func liveForBackends<Value: Sendable>(
        _ body: @Sendable @escaping (Int) async throws -> Value
    ) async throws -> Value {
        try await live(backendResponder, body)
    }

    /// Runs a real server of the management listener and passes its port to the body.
    func liveForManagement<Value: Sendable>(
        _ body: @Sendable @escaping (Int) async throws -> Value
    ) async throws -> Value {
        try await live(managementResponder, body)
    }

    private func live<Value: Sendable>(
        _ responder: BrokerResponder, _ body: @Sendable @escaping (Int) async throws -> Value
    ) async throws -> Value {
        var settings = HTTPServer.Configuration()
        let terms = ConnectionTerms(configuration.limits.connection)
        settings.terms = { terms }
        settings.ledger = PeerLedger(configuration)
        let server = try await HTTPServer.start(
            ResponderService(responder: responder), settings, on: ListeningSocket(host: "127.0.0.1", port: 0))
        let result: Result<Value, any Error>
        do { result = .success(try await body(server.port)) } catch { result = .failure(error) }
        await server.drain()
        return try result.get()
    }
}

/// Serves a listener's requests with one responder.
private struct ResponderService: WireService {
    let responder: BrokerResponder

    func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer {
        await responder.respond(to: request, body: body, on: connection.eventLoop, of: connection)
    }

    func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer {
        responder.refuse(refusal, on: connection)
    }

    func answersWithoutHost(_ target: String) -> Bool { responder.answersWithoutHost(target) }
}

/// Keeps a streamed body.
private final class KeptBody: BodyWriter {
    private let bytes = Mutex(ByteBuffer())

    func write(_ buffer: ByteBuffer) async throws {
        bytes.withLock { bytes in
            var buffer = buffer
            bytes.writeBuffer(&buffer)
        }
    }

    func finish(_ trailers: HTTPFields?) async throws {}

    func cut() {}

    var text: String { bytes.withLock { String(buffer: $0) } }
}

/// A response, read for assertions.
struct Reply: Sendable {
    let status: Int
    let headers: HTTPFields
    let body: String

    init(_ answer: Answer) async throws {
        status = answer.status.code
        headers = HTTPFields(answer.fields)
        switch answer.body {
        case .none: body = ""
        case .whole(let buffer): body = String(buffer: buffer)
        case .stream(_, let write):
            let kept = KeptBody()
            try await write(kept)
            body = kept.text
        }
    }

    func header(_ name: String) -> String? { HTTPField.Name(name).flatMap { headers[$0] } }

    var json: JSONObject? {
        try? JSONParser.parseObject(Array(body.utf8), maximumBytes: 1 << 20, maximumDepth: 16)
    }

    /// The problem's code.
    var code: String? { json?["code"]?.string }

    /// The faults in a problem's `errors`, each as the text `pointer code`.
    var faults: [String] {
        (json?["errors"]?.array ?? []).compactMap { item in
            guard let object = item.object else { return nil }
            return "\(object["pointer"]?.string ?? "") \(object["code"]?.string ?? "")"
        }
    }
}
