import Broker
import BrokerRelay
import BrokerVault
import HTTPTypes
import Testing

@testable import BrokerHTTP

/// Sends the cookie of a web page's session to every route (guarantee 10).
@Suite(.timeLimit(.minutes(1)))
struct WebChildRouteTests {
    private static let origin = "https://auth.example.com"
    private static let secret = Secret(String(repeating: "s", count: 43))

    /// The answers to the token of a web page's session at each route that needs a session.
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
    private static let takingNone: Set<String> = [
        "POST /v1/logins", "POST /v1/sessions", "POST /v1/registrations", "GET /v1/providers",
        "GET /callback/{provider}", "POST /callback/{provider}", "POST /v1/backchannel-logout/{provider}",
        "GET /handover/{ticket}", "POST /handover/{ticket}", "POST /v1/handovers/redeem",
        "GET /.well-known/apple-app-site-association", "GET /.well-known/assetlinks.json", "GET /openapi.yaml",
    ]

    private func harness() throws -> HTTPHarness {
        var web = ChildPolicy()
        web.origins = [Self.origin]
        var harness = try HTTPHarness(children: [.web: web]) { configuration, vault in
            configuration.backends = [Backends.orders(vault)]
            configuration.limits.eventHeartbeat = .milliseconds(5)
        }
        harness.relay = Relay(upstreams: [])
        return harness
    }

    private func handedOver(_ harness: HTTPHarness, _ parent: SignedIn) async throws -> SignedIn {
        let live = try await harness.useCases.resumeSession.resume(parent.token)
        let order = HandoverOrder(
            origin: Self.origin, path: "/", challenge: harness.vault.digest(Self.secret))
        let url = try await harness.useCases.handOver.begin(order, of: live).url.reveal()
        return try await harness.useCases.handOver.spend(
            Secret(String(url.suffix(43))), verifier: Self.secret, held: []
        ).child
    }

    private func send(
        _ harness: HTTPHarness, _ method: HTTPRequest.Method, _ path: String, _ token: Secret
    ) async throws -> Reply {
        var fields: HTTPFields = [.cookie: "__Host-coatcheck-web=\(token.reveal())"]
        let uri =
            path.replacing("{upstream}", with: "shop").replacing("{path}", with: "orders")
            .replacing("{handle}", with: "ses_" + String(repeating: "A", count: 22))
        switch path {
        case "/v1/introspect": return try await harness.form(uri, "token=\(token.reveal())", Backends.proof)
        case "/v1/token":
            return try await harness.form(
                uri,
                "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=\(token.reveal())"
                    + "&subject_token_type=urn:ietf:params:oauth:token-type:access_token", Backends.proof)
        case "/v1/forward-auth":
            for field in Backends.proof { fields.append(field) }
            return try await harness.send(method, uri, fields)
        case "/v1/sessions" where method == .delete:
            return try await harness.send(method, uri + "?except=current", fields)
        case "/v1/session/children", "/v1/session/handovers":
            return try await harness.post(uri, #"{"kind": "web", "name": "another"}"#, fields)
        case "/v1/session/events": return try await harness.send(.head, uri, fields)
        default: return try await harness.send(method, uri, fields, body: method == .post ? "{}" : nil)
        }
    }

    @Test(
        "A web child's token is sent to each route → the route answers as this test's table lists, without a provider's token"
    )
    func everyRoute() async throws {
        let harness = try harness()
        let parent = try await harness.signIn()
        let child = try await handedOver(harness, parent)
        let all = BrokerRouter.routes(
            BrokerAPI(
                useCases: harness.useCases, relay: harness.relay, configuration: harness.configuration,
                listener: .public, load: harness.load, clock: harness.clock,
                digest: { [vault = harness.vault] in vault.digest($0) }))
        var walked: Set<String> = []
        // The log-out has to be last, because it ends the session.
        let isEnd = { (route: Route) in route.method == .delete && route.template == "/v1/session" }
        for route in all.filter({ !isEnd($0) }) + all.filter(isEnd) {
            let name = "\(route.method.rawValue) \(route.template)"
            guard !Self.takingNone.contains(name) else { continue }
            walked.insert(name)
            let wanted = try #require(
                Self.answers[name],
                "\(name) accepts sessions, so this test needs the expected answer for a web page's session")
            let reply = try await send(harness, route.method, route.template, child.token)
            let told = [String(reply.status), reply.code].compactMap { $0 }.joined(separator: " ")
            #expect(told == wanted, "\(name): \(reply.body)")
            #expect(!reply.body.contains("canary"), "\(name)")
            // Only the log-out clears a cookie, and this is the cookie of the page's session.
            let set = reply.headers[values: .setCookie]
            #expect(isEnd(route) || set.isEmpty, "\(name): \(set)")
            #expect(set.allSatisfy { $0.hasPrefix("__Host-coatcheck-web=;") }, "\(name): \(set)")
            if name == "POST /v1/introspect" { #expect(reply.body == #"{"active":false}"#) }
            if name == "POST /v1/token" { #expect(reply.json?["error"]?.string == "invalid_target") }
        }
        #expect(walked == Set(Self.answers.keys))
        let after = try await harness.send(.get, "/v1/session", harness.cookie(parent))
        #expect(after.status == 200 && after.json?["kind"] == .null)
    }

    @Test(
        "A web child's token in the app's cookie or as a bearer token, or an app's token in the web cookie → `session_required`"
    )
    func otherPlaces() async throws {
        let harness = try harness()
        let parent = try await harness.signIn()
        let page = try await handedOver(harness, parent).token.reveal()
        let app = parent.token.reveal()
        let places: [HTTPFields] = [
            [.cookie: "__Host-coatcheck=\(page)"], [.authorization: "Bearer \(page)"],
            [.cookie: "__Host-coatcheck-web=\(app)"],
        ]
        for fields in places {
            for (method, path) in [
                (HTTPRequest.Method.get, "/v1/session"), (.get, "/v1/sessions"), (.post, "/v1/session/refresh"),
                (.post, "/v1/session/token"),
            ] {
                let reply = try await harness.send(method, path, fields, body: method == .post ? "{}" : nil)
                #expect(reply.status == 401 && reply.code == "session_required", "\(method) \(path): \(reply.body)")
            }
        }
        // Each of the two tokens opens its session if it comes in the cookie for its kind of session.
        for fields in [harness.cookie(parent), [.cookie: "__Host-coatcheck-web=\(page)"]] as [HTTPFields] {
            #expect(try await harness.send(.get, "/v1/session", fields).status == 200)
        }
    }
}
