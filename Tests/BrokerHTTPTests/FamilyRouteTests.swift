import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerVault
import BrokerWire
import HTTPTypes
import Testing

@testable import BrokerHTTP

/// Sends a child's token to every route, and tries the bodies of `POST /v1/session/children` (guarantee 10).
@Suite(.timeLimit(.minutes(1)))
struct FamilyRouteTests {
    private static let widget = ChildKind(unchecked: "widget")

    /// The answers to a child's token at each route that needs a session, by the route's template.
    ///
    /// All other routes need no session.
    private static let answers: [String: String] = [
        "GET /v1/session": "200", "DELETE /v1/session": "204", "POST /v1/session/token": "403 client_not_allowed",
        "POST /v1/session/pass": "403 client_not_allowed", "POST /v1/session/refresh": "403 client_not_allowed",
        "PUT /v1/session/presence-key": "403 client_not_allowed",
        "POST /v1/session/children": "403 client_not_allowed",
        "POST /v1/session/handovers": "403 client_not_allowed", "GET /v1/session/events": "200",
        "GET /v1/sessions": "403 client_not_allowed", "DELETE /v1/sessions": "403 client_not_allowed",
        "DELETE /v1/sessions/{handle}": "403 client_not_allowed",
        "GET /v1/relay/{upstream}/{path}": "403 upstream_not_allowed",
        "GET /v1/forward-auth": "403 backend_not_allowed", "POST /v1/introspect": "200",
        "POST /v1/token": "400 invalid_request",
    ]
    /// The routes that are open to a child that belongs to a key.
    ///
    /// These routes and two routes for backends require the child's evidence. All other routes answer `client_not_allowed`.
    private static let wantsEvidence: Set<String> = [
        "GET /v1/session", "GET /v1/session/events", "POST /v1/session/pass", "GET /v1/relay/{upstream}/{path}",
    ]
    private static let takingNone: Set<String> = [
        "POST /v1/logins", "POST /v1/sessions", "POST /v1/registrations", "GET /v1/providers",
        "GET /callback/{provider}", "POST /callback/{provider}", "POST /v1/backchannel-logout/{provider}",
        "GET /handover/{ticket}", "POST /handover/{ticket}", "POST /v1/handovers/redeem",
        "GET /.well-known/apple-app-site-association", "GET /.well-known/assetlinks.json", "GET /openapi.yaml",
    ]

    private func harness(
        _ policy: ChildPolicy = ChildPolicy(), heartbeat: Duration = .milliseconds(5)
    ) throws -> HTTPHarness {
        var harness = try HTTPHarness(children: [Self.widget: policy]) { configuration, vault in
            configuration.backends = [Backends.orders(vault)]
            configuration.limits.eventHeartbeat = heartbeat
        }
        harness.relay = Relay(upstreams: [])
        return harness
    }

    /// Makes a child of a new session.
    ///
    /// With a thumbprint, the child belongs to a key.
    private func child(
        _ harness: HTTPHarness, thumbprint: Digest? = nil
    ) async throws -> (parent: SignedIn, child: SignedIn) {
        let parent = try await harness.signIn()
        let live = try await harness.useCases.resumeSession.resume(parent.token)
        let child = try await harness.useCases.makeChild.make(
            ChildOrder(kind: Self.widget, name: "home", thumbprint: thumbprint), of: live)
        return (parent, child)
    }

    private func routes(_ harness: HTTPHarness) -> [Route] {
        BrokerRouter.routes(
            BrokerAPI(
                useCases: harness.useCases, relay: harness.relay, configuration: harness.configuration,
                listener: .public, load: harness.load, clock: harness.clock,
                digest: { [vault = harness.vault] in vault.digest($0) }))
    }

    /// Sends a route's request with a session token.
    private func send(
        _ harness: HTTPHarness, _ method: HTTPRequest.Method, _ path: String, _ token: Secret
    ) async throws -> Reply {
        var fields: HTTPFields = [.authorization: "Bearer \(token.reveal())"]
        let uri =
            path.replacing("{upstream}", with: "shop").replacing("{path}", with: "orders")
            .replacing("{provider}", with: "as").replacing("{handle}", with: "ses_" + String(repeating: "A", count: 22))
        switch path {
        case "/v1/forward-auth":
            return try await harness.send(method, uri, Backends.proof.with(fields))
        case "/v1/introspect": return try await harness.form(uri, "token=\(token.reveal())", Backends.proof)
        case "/v1/token":
            return try await harness.form(
                uri,
                "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=\(token.reveal())"
                    + "&subject_token_type=urn:ietf:params:oauth:token-type:access_token", Backends.proof)
        case "/v1/sessions" where method == .delete:
            return try await harness.send(method, uri + "?except=current", fields)
        case "/v1/session/children", "/v1/session/handovers":
            return try await harness.post(uri, #"{"kind": "widget", "name": "another"}"#, fields)
        case "/v1/session/events":
            fields[.contentType] = nil
            return try await harness.send(.head, uri, fields)
        default: return try await harness.send(method, uri, fields, body: method == .post ? "{}" : nil)
        }
    }

    private func told(_ reply: Reply) -> String {
        [String(reply.status), reply.code].compactMap { $0 }.joined(separator: " ")
    }

    @Test(
        "A child's token is sent to each route → the route answers as this test's table lists, without a provider's token"
    )
    func everyRoute() async throws {
        let harness = try harness()
        let (parent, child) = try await child(harness)
        var walked: Set<String> = []
        // The log-out has to be last, because it ends the session.
        let all = routes(harness)
        let end = all.filter { $0.method == .delete && $0.template == "/v1/session" }
        for route in all.filter({ $0.method != .delete || $0.template != "/v1/session" }) + end {
            let name = "\(route.method.rawValue) \(route.template)"
            guard !Self.takingNone.contains(name) else { continue }
            walked.insert(name)
            let wanted = try #require(
                Self.answers[name], "\(name) accepts sessions, so this test needs the expected answer for a child")
            let reply = try await send(harness, route.method, route.template, child.token)
            #expect(told(reply) == wanted, "\(name): \(reply.body)")
            #expect(!reply.body.contains("canary"), "\(name)")
            #expect(reply.headers[.setCookie] == nil, "\(name)")
            switch name {
            case "POST /v1/introspect": #expect(reply.body == #"{"active":false}"#)
            case "POST /v1/token": #expect(reply.json?["error"]?.string == "invalid_target")
            case "GET /v1/session":
                #expect(reply.json?["kind"]?.string == "widget")
                #expect(reply.json?["parent"]?.string == parent.session.handle.text)
            default: break
            }
        }
        #expect(walked == Set(Self.answers.keys))
        // The child's log-out has ended only the child. Its parent still lives.
        let after = try await harness.send(.get, "/v1/session", harness.cookie(parent))
        #expect(after.status == 200 && after.json?["kind"] == .null && after.json?["parent"] == .null)
        let ended = try await harness.send(.get, "/v1/session", [.authorization: "Bearer \(child.token.reveal())"])
        #expect(told(ended) == "401 session_ended")
    }

    @Test(
        "A bound child sends a request without a proof → refused, except at the log-out, even if its parent is unbound"
    )
    func boundWithoutEvidence() async throws {
        let harness = try harness(
            ChildPolicy(upstreams: [UpstreamName(unchecked: "shop")], backends: [BackendName(unchecked: "orders")]))
        let phone = SigningPhone()
        let thumbprint = try #require(Base64URL.decode(phone.thumbprint).flatMap(Digest.init))
        let (_, child) = try await child(harness, thumbprint: thumbprint)
        for route in routes(harness) where route.method != .delete || route.template != "/v1/session" {
            let name = "\(route.method.rawValue) \(route.template)"
            guard let open = Self.answers[name] else { continue }
            let reply = try await send(harness, route.method, route.template, child.token)
            let isOpen =
                Self.wantsEvidence.contains(name) || ["GET /v1/forward-auth", "POST /v1/token"].contains(name)
            switch name {
            case "POST /v1/introspect":
                #expect(reply.body == #"{"active":false,"code":"proof_required"}"#)
            default:
                // The answer to HEAD has no body, so its code is in a header field.
                #expect(
                    (reply.code ?? reply.header("Coatcheck-Code"))
                        == (isOpen ? "proof_required" : "client_not_allowed"), "\(name), else \(open): \(reply.body)")
            }
            #expect(!reply.body.contains("ses_"), "\(name)")
        }
        // With a proof by its key, the child is served.
        let proof = try phone.proof(
            method: "GET", address: "https://auth.example.com/v1/session", identifier: "one",
            nonce: harness.useCases.proofNonce(), token: child.token)
        let fields: HTTPFields = [
            .authorization: "DPoP \(child.token.reveal())", FieldName.named("DPoP"): proof,
        ]
        #expect(try await harness.send(.get, "/v1/session", fields).status == 200)

    }

    @Test(
        "A child kind lists upstreams and backends → its children may call these upstreams, these backends may ask about children"
    )
    func named() async throws {
        let harness = try harness(
            ChildPolicy(upstreams: [UpstreamName(unchecked: "shop")], backends: [BackendName(unchecked: "orders")]))
        let (parent, child) = try await child(harness)
        let forwarded = try await send(harness, .get, "/v1/forward-auth", child.token)
        #expect(forwarded.status == 200)
        #expect(forwarded.header("X-Auth-Kind") == "widget")
        #expect(forwarded.header("X-Auth-Parent") == parent.session.handle.text)
        #expect(forwarded.header("X-Auth-Session") == child.session.handle.text)
        #expect(forwarded.header("X-Auth-Subject") == parent.session.subject)
        let told = try await send(harness, .post, "/v1/introspect", child.token)
        #expect(told.json?["active"] == .bool(true))
        #expect(told.json?["kind"]?.string == "widget")
        #expect(told.json?["parent"]?.string == parent.session.handle.text)
        let exchanged = try await send(harness, .post, "/v1/token", child.token)
        #expect(exchanged.json?["access_token"]?.string == "canary-access")
        // The relay accepts the child's token. The call fails only because the upstream in this path does not exist.
        let relayed = try await send(harness, .get, "/v1/relay/{upstream}/{path}", child.token)
        #expect(relayed.code == "upstream_not_found")
        // For a session without a parent, both fields are present but empty.
        let own = try await send(harness, .get, "/v1/forward-auth", parent.token)
        #expect(own.header("X-Auth-Kind") == "" && own.header("X-Auth-Parent") == "")
        let other = try await send(harness, .post, "/v1/introspect", parent.token)
        #expect(other.json?["kind"] == nil && other.json?["parent"] == nil)
    }

    @Test(
        "An app's request for a child has faults → each fault is named; a valid request → the answer's body has the child's token"
    )
    func made() async throws {
        let harness = try harness()
        let parent = try await harness.signIn()
        let faulty = [
            ("{}", ["/kind required", "/name required"]),
            (#"{"kind": "widget", "name": "Home"}"#, ["/name malformed"]),
            (#"{"kind": "widget", "name": ""}"#, ["/name too_short"]),
            (#"{"kind": "widget", "name": "\#(String(repeating: "a", count: 33))"}"#, ["/name too_long"]),
            (#"{"kind": "w/1", "name": "a", "x": 1}"#, ["/kind malformed", "/x unknown"]),
            (#"{"kind": "widget", "name": "a", "jkt": "\#(String(repeating: "B", count: 43))"}"#, ["/jkt malformed"]),
            (#"{"kind": "widget", "name": "a", "jkt": "short"}"#, ["/jkt too_short"]),
            (#"{"kind": "web", "name": "a"}"#, ["/kind not_allowed"]),
        ]
        for (body, faults) in faulty {
            let reply = try await harness.post("/v1/session/children", body, harness.cookie(parent))
            #expect(told(reply) == "400 invalid_request" && reply.faults == faults, "\(body): \(reply.body)")
        }
        let none = try await harness.post("/v1/session/children", #"{"kind": "widget", "name": "a"}"#)
        #expect(told(none) == "401 session_required")
        let unknown = try await harness.post(
            "/v1/session/children", #"{"kind": "tv", "name": "a"}"#, harness.cookie(parent))
        #expect(told(unknown) == "403 client_not_allowed")
        let foreign = try await harness.post(
            "/v1/session/children", #"{"kind": "widget", "name": "a"}"#,
            harness.cookie(parent).with([FieldName.named("Sec-Fetch-Site"): "cross-site"]))
        #expect(told(foreign) == "403 cross_origin")
        let reply = try await harness.post(
            "/v1/session/children", #"{"kind": "widget", "name": "home-1", "device": "Ana's"}"#, harness.cookie(parent))
        #expect(reply.status == 201 && reply.headers[.setCookie] == nil)
        #expect(reply.headers[.cacheControl] == "no-store")
        let token = try #require(reply.json?["session_token"]?.string)
        let read = try await harness.send(.get, "/v1/session", [.authorization: "Bearer \(token)"])
        #expect(read.json?["handle"] == reply.json?["handle"])
        let list = try await harness.send(.get, "/v1/sessions", harness.cookie(parent))
        let items = try #require(list.json?["items"]?.array)
        #expect(items.map { $0.object?["kind"]?.string } == [nil, "widget"])
        #expect(items[1].object?["device"]?.string == "Ana's" && items[1].object?["current"] == .bool(false))
    }

    @Test(
        "A bound session asks for a child → the request must have a proof instead of a pass, and the child's own key")
    func boundParent() async throws {
        let harness = try HTTPHarness(binding: .enforce, children: [Self.widget: ChildPolicy()])
        let phone = SigningPhone()
        let other = SigningPhone()
        func proof(_ path: String, _ identifier: String, _ token: Secret? = nil) throws -> String {
            try phone.proof(
                method: "POST", address: "https://auth.example.com" + path, identifier: identifier,
                nonce: harness.useCases.proofNonce(), token: token)
        }
        func evidence(_ path: String, _ identifier: String) throws -> PresentedEvidence {
            PresentedEvidence(
                proofs: [try proof(path, identifier)], target: ProofTarget(method: "POST", address: .own(path: path)))
        }
        var start = StartLoginInput(provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"))
        start.evidence = try evidence("/v1/logins", "start")
        let login = try await harness.useCases.startLogin.start(start)
        var input = ForwardCodeInput()
        input.callbackURL = "com.example.app:/cb?code=c&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        input.evidence = try evidence("/v1/sessions", "forward")
        guard case .signedIn(let parent) = try await harness.useCases.forwardCode.forward(input) else {
            Issue.record("not signed in")
            return
        }
        let pass = try #require(parent.pass?.text.reveal())
        let path = "/v1/session/children"
        func ask(_ body: String, _ more: HTTPFields) async throws -> Reply {
            try await harness.post(path, body, harness.cookie(parent).with(more))
        }
        let whole = #"{"kind": "widget", "name": "a", "jkt": "\#(other.thumbprint)"}"#
        #expect(told(try await ask(whole, [:])) == "401 proof_required")
        #expect(told(try await ask(whole, [FieldName.named("Coatcheck-Pass"): pass])) == "401 proof_required")
        let keyless = try await ask(
            #"{"kind": "widget", "name": "a"}"#, [FieldName.named("DPoP"): try proof(path, "k1", parent.token)])
        #expect(told(keyless) == "400 invalid_request" && keyless.faults == ["/jkt required"])
        let own = try await ask(
            #"{"kind": "widget", "name": "a", "jkt": "\#(phone.thumbprint)"}"#,
            [FieldName.named("DPoP"): try proof(path, "k2", parent.token)])
        #expect(own.faults == ["/jkt not_allowed"])
        let made = try await ask(whole, [FieldName.named("DPoP"): try proof(path, "k3", parent.token)])
        #expect(made.status == 201, "\(made.body)")
        // The child proves its key before it gets its first pass.
        #expect(made.json?["pass"] == nil)
        #expect(made.json?["binding"]?.object?["jkt"]?.string == other.thumbprint)
        let token = try #require(made.json?["session_token"]?.string)
        let copied = try await harness.send(.get, "/v1/session", [.authorization: "Bearer \(token)"])
        #expect(told(copied) == "401 proof_required")
        // A proof by the parent's key is not accepted for the child.
        let wrong = try phone.proof(
            method: "GET", address: "https://auth.example.com/v1/session", identifier: "k4",
            nonce: harness.useCases.proofNonce(), token: Secret(token))
        let refused = try await harness.send(
            .get, "/v1/session", [.authorization: "DPoP \(token)", FieldName.named("DPoP"): wrong])
        #expect(told(refused) == "401 proof_invalid")
        let right = try other.proof(
            method: "GET", address: "https://auth.example.com/v1/session", identifier: "k5",
            nonce: harness.useCases.proofNonce(), token: Secret(token))
        let served = try await harness.send(
            .get, "/v1/session", [.authorization: "DPoP \(token)", FieldName.named("DPoP"): right])
        #expect(served.status == 200)
    }
}

extension HTTPFields {
    /// Returns these fields, followed by the fields in `more`.
    fileprivate func with(_ more: HTTPFields) -> HTTPFields {
        var fields = self
        for field in more { fields.append(field) }
        return fields
    }
}
