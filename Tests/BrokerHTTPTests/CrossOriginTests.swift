import Broker
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Cross-origin requests", .timeLimit(.minutes(2)))
struct CrossOriginTests {
    private static let origin = HTTPField.Name.origin
    private static let site = FieldName.named("Sec-Fetch-Site")
    private static let method = FieldName.named("Access-Control-Request-Method")

    private func harness() throws -> HTTPHarness {
        try HTTPHarness { configuration, _ in configuration.allowedOrigins = ["https://app.example.com"] }
    }

    /// The fields that a browser or app sends, and whether its request may change something.
    private static let matrix: [(HTTPFields, Bool)] = [
        ([:], true),
        ([site: "same-origin"], true),
        ([site: "none"], true),
        ([site: "cross-site"], false),
        ([site: "same-site"], false),
        ([site: "Same-Origin"], false),
        ([site: ""], false),
        ([origin: "https://auth.example.com"], true),
        ([origin: "https://auth.example.com:443"], false),
        ([origin: "http://auth.example.com"], false),
        ([origin: "null"], false),
        ([origin: "https://sub.auth.example.com"], false),
        ([origin: "https://auth.example.com.evil"], false),
        ([origin: "https://app.example.com"], true),
        ([origin: "https://app.example.com", site: "cross-site"], true),
        ([origin: "https://evil.example", site: "same-origin"], true),
        ([origin: "https://auth.example.com", site: "cross-site"], false),
        ([origin: "HTTPS://APP.EXAMPLE.COM"], false),
    ]

    @Test(
        "An unsafe method from another origin → `cross_origin`, even without a cookie; from an allowed origin → served (SEC-45)",
        arguments: matrix)
    func unsafe(headers: HTTPFields, passes: Bool) async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        var withCookie = headers
        withCookie[.cookie] = "__Host-coatcheck=\(signedIn.token.reveal())"
        var withLogin = headers
        withLogin[.cookie] = "__Host-coatcheck-login=x"
        withLogin[.authorization] = "Bearer x"
        for fields in [headers, withLogin, withCookie] {
            let reply = try await harness.send(.delete, "/v1/session", fields)
            #expect((reply.code == "cross_origin") == !passes)
            if !passes { #expect(reply.status == 403) }
        }
        let started = try await harness.post("/v1/logins", #"{"provider":"as","client":"ios"}"#, headers)
        #expect(started.status == (passes ? 201 : 403))
    }

    @Test("A safe method from another origin → served, except at the event stream", arguments: matrix)
    func safe(headers: HTTPFields, passes: Bool) async throws {
        let harness = try harness()
        #expect(try await harness.send(.get, "/v1/session", headers).code == "session_required")
        let events = try await harness.send(.get, "/v1/session/events", headers)
        #expect(events.code == (passes ? "session_required" : "cross_origin"))
    }

    @Test(
        "A request has a bearer token without a cookie, or its route is for providers or backends → its origin is not checked"
    )
    func exempt() async throws {
        let harness = try harness()
        let evil: HTTPFields = [Self.origin: "https://evil.example", Self.site: "cross-site"]
        var bearer = evil
        bearer[.authorization] = "Bearer x"
        #expect(try await harness.send(.post, "/v1/session/refresh", bearer).code == "session_required")
        #expect(try await harness.form("/callback/as", "state=x", evil).status == 303)
        #expect(try await harness.form("/v1/backchannel-logout/as", "logout_token=bad", evil).code == "invalid_request")
        #expect(try await harness.form("/v1/introspect", "token=x", evil).json?["error"]?.string == "invalid_client")
        #expect(try await harness.form("/v1/token", "a=x", evil).json?["error"]?.string == "invalid_client")
    }

    @Test(
        "An app in a web shell sends a cookie → `cross_origin`; no cookie → served without Allow-Credentials (SEC-45, SEC-46)"
    )
    func shells() async throws {
        let harness = try HTTPHarness { configuration, _ in
            configuration.allowedOrigins = ["https://app.example.com"]
            configuration.shellOrigins = ["capacitor://localhost"]
        }
        let shell: HTTPFields = [Self.origin: "capacitor://localhost", Self.site: "cross-site"]
        for name in ["", "-login", "-pass", "-web"] {
            for (method, path) in [
                (HTTPRequest.Method.get, "/v1/session"), (.post, "/v1/session/refresh"), (.delete, "/v1/session"),
                (.get, "/v1/session/events"), (.get, "/v1/providers"),
            ] {
                var fields = shell
                fields[.cookie] = "__Host-coatcheck\(name)=x"
                fields[.authorization] = "Bearer x"
                let reply = try await harness.send(method, path, fields)
                #expect(reply.status == 403 && reply.code == "cross_origin", "\(path) \(name): \(reply.body)")
            }
        }
        for other in ["ionic://localhost", "capacitor://localhost:80", "capacitor://LOCALHOST", "capacitor://", "null"]
        {
            let reply = try await harness.post(
                "/v1/logins", #"{"provider":"as","client":"desk"}"#, [Self.origin: other])
            #expect(reply.status == 403, "\(other)")
            #expect(reply.header("Access-Control-Allow-Origin") == nil)
        }
        let started = try await harness.post("/v1/logins", #"{"provider":"as","client":"desk"}"#, shell)
        #expect(started.status == 201)
        let preflight = try await harness.send(
            .options, "/v1/sessions", [Self.origin: "capacitor://localhost", Self.method: "POST"])
        #expect(preflight.status == 204)
        for reply in [started, preflight] {
            #expect(reply.header("Access-Control-Allow-Origin") == "capacitor://localhost")
            #expect(reply.header("Access-Control-Allow-Credentials") == nil)
            #expect(reply.header("Vary") == "Origin")
        }
        let token = try await harness.signIn(client: "desk").token.reveal()
        let read = try await harness.send(
            .get, "/v1/session", [Self.origin: "capacitor://localhost", .authorization: "Bearer \(token)"])
        #expect(read.status == 200)
        #expect(read.header("Access-Control-Allow-Credentials") == nil)
    }

    @Test("A request has two `Origin` fields → `cross_origin`")
    func twice() async throws {
        var headers = HTTPFields()
        headers.append(HTTPField(name: Self.origin, value: "https://app.example.com"))
        headers.append(HTTPField(name: Self.origin, value: "https://evil.example"))
        #expect(try await harness().send(.delete, "/v1/session", headers).code == "cross_origin")
    }

    @Test("A request from a listed origin → CORS fields; from any other origin → none, and never a wildcard (SEC-46)")
    func cors() async throws {
        let harness = try harness()
        let listed: HTTPFields = [Self.origin: "https://app.example.com", Self.method: "POST"]
        let preflight = try await harness.send(.options, "/v1/sessions", listed)
        #expect(preflight.status == 204)
        #expect(preflight.header("Access-Control-Allow-Origin") == "https://app.example.com")
        #expect(preflight.header("Access-Control-Allow-Credentials") == "true")
        #expect(preflight.header("Access-Control-Allow-Methods") == "POST, GET, DELETE, HEAD")
        #expect(preflight.header("Vary") == "Origin")
        let plain = try await harness.send(.get, "/v1/providers", [Self.origin: "https://app.example.com"])
        #expect(plain.header("Access-Control-Allow-Origin") == "https://app.example.com")
        for origin in ["https://evil.example", "null", "*", "https://app.example.com.evil", "https://auth.example.com"]
        {
            let reply = try await harness.send(.options, "/v1/sessions", [Self.origin: origin, Self.method: "POST"])
            #expect(reply.status == 405)
            #expect(reply.header("Access-Control-Allow-Origin") == nil)
            #expect(reply.header("Access-Control-Allow-Credentials") == nil)
            #expect(reply.header("Vary") == "Origin")
        }
        let off = try await HTTPHarness().send(.options, "/v1/sessions", listed)
        #expect(off.status == 405)
        #expect(off.header("Access-Control-Allow-Origin") == nil)
        #expect(off.header("Vary") == nil)
    }
}
