import Broker
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Routing", .timeLimit(.minutes(2)))
struct RoutingTests {
    @Test(
        "A browser opens an app link's path → a page that asks to open the app, without script, referrer or text of the address",
        arguments: ["/oauth/cb?code=canary&state=canary", "/oauth/a/b", "/oauth/%3Cscript%3E?code=%3Cscript%3Ecanary"])
    func appLinks(_ uri: String) async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.appLinkPaths = ["/oauth/*", "/c?"] }
        let reply = try await harness.send(.get, uri)
        #expect(reply.status == 200)
        #expect(reply.headers[.contentType] == "text/html; charset=utf-8")
        #expect(reply.header("Content-Security-Policy") == "default-src 'none'; frame-ancestors 'none'")
        #expect(reply.header("Referrer-Policy") == "no-referrer")
        #expect(reply.headers[.cacheControl] == "no-store" && reply.headers[.setCookie] == nil)
        #expect(reply.body.contains("Open the app"))
        #expect(!reply.body.contains("canary") && !reply.body.contains("<script") && !reply.body.contains("/oauth"))
        let head = try await harness.send(.head, uri)
        #expect(head.status == 200 && head.body.isEmpty)
        #expect(try await harness.send(.post, uri, body: "{}").code == "method_not_allowed")
        #expect(harness.records.all.allSatisfy { $0.route == "app link" })
    }

    @Test("A request's path is outside of the app links → `not_found`, or the answer of the broker's own route")
    func noAppLinks() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.appLinkPaths = ["/oauth/*", "/v1/*"] }
        for path in ["/oauth", "/oauthx/cb", "/other", "/"] {
            #expect(try await harness.send(.get, path).code == "not_found", "\(path)")
        }
        #expect(try await harness.send(.get, "/v1/session").code == "session_required")
        let without = try HTTPHarness()
        #expect(try await without.send(.get, "/oauth/cb?code=c").code == "not_found")
    }

    @Test(
        "A path that differs from a route in any way → 404 (SEC-96)",
        arguments: [
            "/", "/v1", "/v1/session/", "//v1/session", "/v1//session", "/v1/sessio%6e", "/V1/session",
            "/v1/session%2f",
            "/v1/session/../session", "/v1/sessions/", "/callback/", "/callback/as/", "/admin/v1/sessions", "/metrics",
            "/livez", "/readyz", "/v1/session;x=1", "/v1/nothing", "/.well-known/assetlinks.json",
            "/.well-known/apple-app-site-association", "/v1/\u{212A}",
        ])
    func notFound(path: String) async throws {
        let reply = try await HTTPHarness().send(.get, path)
        #expect(reply.status == 404)
        #expect(reply.code == "not_found")
    }

    @Test(
        "A path does not have the request's method → 405 with the methods that it has (SEC-44)",
        arguments: [
            ("/v1/logins", HTTPRequest.Method.get, "POST"), ("/v1/session/refresh", .get, "POST"),
            ("/v1/registrations", .get, "POST"), ("/v1/session", .post, "GET, DELETE, HEAD"),
            ("/v1/session", .put, "GET, DELETE, HEAD"), ("/v1/session", .options, "GET, DELETE, HEAD"),
            ("/v1/introspect", .get, "POST"), ("/v1/token", .get, "POST"),
            ("/v1/backchannel-logout/as", .get, "POST"), ("/openapi.yaml", .delete, "GET, HEAD"),
            ("/v1/sessions/ses_AAAAAAAAAAAAAAAAAAAAAA", .get, "DELETE"), ("/v1/logins", .trace, "POST"),
        ])
    func methodNotAllowed(path: String, method: HTTPRequest.Method, allow: String) async throws {
        let reply = try await HTTPHarness().send(method, path)
        #expect(reply.status == 405)
        #expect(reply.code == "method_not_allowed")
        #expect(reply.headers[.allow] == allow)
    }

    @Test(
        "HEAD at any GET route → GET's answer without the body",
        arguments: ["/openapi.yaml", "/v1/providers", "/v1/session"])
    func head(path: String) async throws {
        let harness = try HTTPHarness()
        let get = try await harness.send(.get, path)
        let head = try await harness.send(.head, path)
        #expect(head.status == get.status)
        #expect(head.body.isEmpty)
        #expect(head.headers[.contentLength] == String(get.body.utf8.count))
        #expect(head.headers[.contentType] == get.headers[.contentType])
    }

    @Test(
        "Every answer → has the security fields and a new request id, but neither Server nor an unwanted cookie (SEC-108)",
        arguments: [
            ("/openapi.yaml", 200), ("/v1/providers", 200), ("/v1/session", 401), ("/nothing", 404),
            ("/v1/logins", 405),
        ])
    func securityFields(path: String, status: Int) async throws {
        let harness = try HTTPHarness()
        let reply = try await harness.send(.get, path, [FieldName.named("X-Request-Id"): "mine"])
        #expect(reply.status == status)
        #expect(reply.header("Strict-Transport-Security") == "max-age=31536000; includeSubDomains")
        #expect(reply.header("Content-Security-Policy") == "default-src 'none'; frame-ancestors 'none'")
        #expect(reply.header("X-Content-Type-Options") == "nosniff")
        #expect(reply.header("Referrer-Policy") == "no-referrer")
        #expect(reply.header("Server") == nil)
        #expect(reply.header("Set-Cookie") == nil)
        let id = try #require(reply.header("X-Request-Id"))
        #expect(id != "mine")
        #expect(id.hasPrefix("req_") && id.utf8.count == 15)
        let next = try await harness.send(.get, path).header("X-Request-Id")
        #expect(next != id)
        if status != 200 { #expect(reply.json?["request_id"]?.string == id) }
    }

    @Test("A request's host name is not the broker's → 421 (SEC-103)")
    func wrongHost() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.hosts = [] }
        let reply = try await harness.send(.get, "/v1/providers")
        #expect(reply.status == 421)
        #expect(reply.code == "wrong_host")
    }

    @Test(
        "A request's host name → compared as a whole, including the port (SEC-90)",
        arguments: [
            ("auth.example.com", true), ("AUTH.example.COM", true), ("auth.example.com:443", true),
            ("auth.example.com:444", false), ("auth.example.com.evil", false), ("evil-auth.example.com", false),
            ("auth.example.com.", false), ("localhost", false), ("extra.example", true), ("", false),
        ])
    func names(host: String, accepted: Bool) {
        var configuration = HTTPConfiguration(publicURL: "https://auth.example.com")
        configuration.hosts = ["extra.example"]
        #expect(PublicName(configuration).accepts(host) == accepted)
    }

    @Test("A broker in development → answers to every loopback name, and only to these")
    func loopbackNames() {
        let name = PublicName(HTTPConfiguration(publicURL: "http://127.0.0.1:8080"))
        for host in ["127.0.0.1:8080", "localhost:9999", "[::1]:1", "127.0.0.1"] { #expect(name.accepts(host)) }
        for host in ["example.com", "localhost.example.com", "127.0.0.1.example.com"] { #expect(!name.accepts(host)) }
        #expect(name.origin == "http://127.0.0.1:8080")
    }

    @Test("The table of routes → has each route exactly once")
    func routes() throws {
        let routes = try HTTPHarness().responder.routes
        let names = routes.map { "\($0.method.rawValue) \($0.template)" }
        #expect(Set(names).count == names.count)
        #expect(names.contains("GET /v1/session"))
    }

    @Test("The association files of app links → public, equal for all clients, and without a cookie (SEC-93)")
    func associationFiles() async throws {
        let harness = try HTTPHarness { configuration, _ in
            configuration.appleAppSiteAssociation = Array("{\"applinks\":{}}".utf8)
            configuration.assetLinks = Array("[]".utf8)
        }
        let signedIn = try await harness.signIn()
        for path in ["/.well-known/apple-app-site-association", "/.well-known/assetlinks.json"] {
            let without = try await harness.send(.get, path)
            let with = try await harness.send(.get, path, harness.cookie(signedIn))
            #expect(without.status == 200)
            #expect(without.body == with.body)
            #expect(with.headers[.contentType] == "application/json")
            #expect(with.headers[.setCookie] == nil)
        }
    }
}
