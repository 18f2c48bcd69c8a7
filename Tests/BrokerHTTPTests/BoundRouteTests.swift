import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerVault
import HTTPTypes
import Testing

@testable import BrokerHTTP

/// Sends the copied token of a key-bound session to every route (guarantee 9).
@Suite(.timeLimit(.minutes(1)))
struct BoundRouteTests {
    /// The routes that need no session.
    ///
    /// Every caller gets the same answer from them.
    private static let takingNone: Set<String> = [
        "POST /v1/logins", "POST /v1/sessions", "POST /v1/registrations", "GET /v1/providers",
        "GET /callback/{provider}",
        "POST /callback/{provider}", "POST /v1/backchannel-logout/{provider}",
        "GET /handover/{ticket}", "POST /handover/{ticket}", "POST /v1/handovers/redeem",
        "GET /.well-known/apple-app-site-association", "GET /.well-known/assetlinks.json", "GET /openapi.yaml",
    ]
    /// The routes that end a session.
    ///
    /// The session's token is enough for these routes.
    private static let ending: Set<String> = ["DELETE /v1/session"]

    private let harness: HTTPHarness
    private let phone = SigningPhone()

    init() throws {
        var harness = try HTTPHarness(binding: .enforce) { configuration, vault in
            configuration.backends = [Backends.orders(vault)]
        }
        harness.relay = Relay(upstreams: [])
        self.harness = harness
    }

    /// Returns a proof by the phone, for the field `DPoP`.
    private func proof(_ path: String, _ identifier: String) throws -> String {
        try phone.proof(
            method: "POST", address: "https://auth.example.com" + path, identifier: identifier,
            nonce: harness.useCases.proofNonce())
    }

    private func evidence(_ path: String, _ identifier: String) throws -> PresentedEvidence {
        PresentedEvidence(
            proofs: [try proof(path, identifier)], target: ProofTarget(method: "POST", address: .own(path: path)))
    }

    /// Signs in and returns the token of a session that belongs to the phone's key.
    private func bound() async throws -> Secret {
        var start = StartLoginInput(provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"))
        start.evidence = try evidence("/v1/logins", "start")
        let login = try await harness.useCases.startLogin.start(start)
        var input = ForwardCodeInput()
        input.callbackURL = "com.example.app:/cb?code=canary-code&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        input.evidence = try evidence("/v1/sessions", "forward")
        guard case .signedIn(let signedIn) = try await harness.useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return signedIn.token
    }

    private var routes: [Route] {
        BrokerRouter.routes(
            BrokerAPI(
                useCases: harness.useCases, relay: harness.relay, configuration: harness.configuration,
                listener: .public,
                load: harness.load, clock: harness.clock, digest: { [vault = harness.vault] in vault.digest($0) }))
    }

    /// Sends a route's request, with or without a session token.
    private func send(_ method: HTTPRequest.Method, _ path: String, _ session: Secret?) async throws -> Reply {
        var fields = Backends.proof
        let token = session ?? Secret("")
        if let session { fields[.cookie] = "__Host-coatcheck=\(session.reveal())" }
        let uri =
            path.replacing("{upstream}", with: "shop").replacing("{path}", with: "orders")
            .replacing("{provider}", with: "as").replacing("{handle}", with: "ses_" + String(repeating: "A", count: 22))
        switch path {
        case "/v1/introspect": return try await harness.form(uri, "token=\(token.reveal())", fields)
        case "/v1/token":
            return try await harness.form(
                uri,
                "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=\(token.reveal())"
                    + "&subject_token_type=urn:ietf:params:oauth:token-type:access_token", fields)
        case "/v1/sessions" where method == .delete:
            return try await harness.send(method, uri + "?except=current", fields)
        default: return try await harness.send(method, uri, fields, body: method == .post ? "{}" : nil)
        }
    }

    @Test("A bound session's token is sent to a route that needs no session → the same answer as without the token")
    func takingNone() async throws {
        let token = try await bound()
        let all = Set(routes.map { "\($0.method.rawValue) \($0.template)" })
        #expect(Self.takingNone.union(Self.ending).isSubset(of: all))
        for route in routes where Self.takingNone.contains("\(route.method.rawValue) \(route.template)") {
            let with = try await send(route.method, route.template, token)
            let without = try await send(route.method, route.template, nil)
            #expect(with.status == without.status, "\(route.template)")
            #expect(with.json?["code"]?.string == without.json?["code"]?.string, "\(route.template)")
            #expect(!with.body.contains("ses_"), "\(route.template)")
        }
    }

    @Test(
        "A bound session's token is sent without a proof or pass → `proof_required` at each session route, except the log-out"
    )
    func everyRoute() async throws {
        let token = try await bound()
        #expect(
            try await harness.send(.get, "/v1/session", [.cookie: "__Host-coatcheck=\(token.reveal())"]).status == 401)
        var refused = 0
        for route in routes {
            let name = "\(route.method.rawValue) \(route.template)"
            guard !Self.takingNone.contains(name), !Self.ending.contains(name) else { continue }
            let reply = try await send(route.method, route.template, token)
            let code = reply.json?["code"]?.string
            #expect(code == "proof_required", "\(name): \(reply.status) \(reply.body)")
            #expect(reply.header("DPoP-Nonce") != nil, "\(name)")
            #expect(reply.headers[.setCookie] == nil, "\(name)")
            refused += 1
        }
        #expect(refused >= 12)
        // The session survived all of these requests. It can be ended without evidence.
        #expect(
            try await harness.send(.delete, "/v1/session", [.cookie: "__Host-coatcheck=\(token.reveal())"]).status
                == 204)
    }
}
