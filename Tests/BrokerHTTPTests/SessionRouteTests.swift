import Broker
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Sessions over HTTP", .timeLimit(.minutes(2)))
struct SessionRouteTests {
    private func cookiePair(_ reply: Reply) -> String? {
        reply.headers[.setCookie]?.split(separator: ";").first.map(String.init)
    }

    @Test("A login and its callback → a session, with exactly the right cookie (SEC-37)")
    func wholeLogin() async throws {
        let harness = try HTTPHarness()
        let started = try await harness.post("/v1/logins", #"{"provider":"as","client":"ios"}"#)
        #expect(started.status == 201)
        let login = try #require(started.json)
        #expect(login["login_token"] == nil)
        let state = try #require(login["state"]?.string)
        let loginCookie = try #require(started.headers[.setCookie])
        #expect(
            loginCookie.hasSuffix(
                "; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=600; Expires=Fri, 20-Nov-2026 21:30:00 GMT"))
        let made = try await harness.post(
            "/v1/sessions", #"{"callback_url":"com.example.app:/cb?code=c1&state=\#(state)","device":"Ana's phone"}"#,
            [.cookie: try #require(cookiePair(started))])
        #expect(made.status == 201)
        #expect(made.headers[.cacheControl] == "no-store")
        let cookie = try #require(made.headers[.setCookie])
        #expect(cookie.hasPrefix("__Host-coatcheck="))
        #expect(
            cookie.hasSuffix(
                "; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=7776000; Expires=Thu, 18-Feb-2027 21:20:00 GMT"))
        #expect(cookie.utf8.count < 512)
        let session = try #require(made.json)
        #expect(
            session.names == [
                "handle", "version", "provider", "client", "subject", "identity", "scope", "created_at", "last_used_at",
                "idle_expires_at", "expires_at", "tokens", "acr", "amr", "authenticated_at", "kind", "parent",
                "binding", "presence",
            ])
        #expect(session.value(at: "/identity/unverified")?.object?.members.isEmpty == true)
        #expect(!made.body.contains("canary"))
        let read = try await harness.send(.get, "/v1/session", [.cookie: try #require(cookiePair(made))])
        #expect(read.status == 200)
        #expect(read.json?["handle"] == session["handle"])
        let gone = try await harness.send(.delete, "/v1/session", [.cookie: try #require(cookiePair(made))])
        #expect(gone.status == 204)
        #expect(
            gone.headers[.setCookie]
                == "__Host-coatcheck=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0; Expires=Thu, 01-Jan-1970 00:00:00 GMT"
        )
        let after = try await harness.send(.get, "/v1/session", [.cookie: try #require(cookiePair(made))])
        #expect(after.status == 401)
        #expect(after.code == "session_ended")
        #expect(after.json?["reason"]?.string == "logged_out")
        #expect(after.headers[.setCookie]?.contains("; Max-Age=0; Expires=") == true)
    }

    @Test(
        "An app forwards an id_token that does not verify → 400 without the reason; one that is too long → `too_long`")
    func idTokenRefused() async throws {
        let harness = try HTTPHarness()
        let refused = try await harness.post(
            "/v1/sessions", #"{"provider":"as","client":"sdk","id_token":"canary.a.b","nonce":"n"}"#)
        #expect(refused.status == 400 && refused.code == "code_rejected")
        #expect(!refused.body.contains("canary"))
        let long = String(repeating: "a", count: 16_385)
        let tooLong = try await harness.post(
            "/v1/sessions", #"{"provider":"as","client":"sdk","id_token":"\#(long)","nonce":"n"}"#)
        #expect(tooLong.status == 400 && tooLong.faults == ["/id_token too_long"])
        let foreign = try await harness.post(
            "/v1/sessions", #"{"provider":"as","client":"ios","id_token":"good.a.b","nonce":"n"}"#)
        #expect(foreign.status == 403 && foreign.code == "client_not_allowed")
    }

    @Test("An app forwards an id_token → a session without tokens; the login's starter can get the same session again")
    func idToken() async throws {
        let harness = try HTTPHarness()
        let body =
            #"{"provider":"as","client":"sdk","id_token":"good.a.b","nonce":"n","device":"Ana's phone","login_token":"\#(String(repeating: "l", count: 43))"}"#
        let made = try await harness.post("/v1/sessions", body)
        #expect(made.status == 201)
        #expect(made.json?.value(at: "/tokens/expires_at")?.isNull == true)
        #expect(made.json?.value(at: "/tokens/refreshable")?.bool == false)
        let again = try await harness.post("/v1/sessions", body)
        #expect(again.status == 201 && again.json?["session_token"] == made.json?["session_token"])
        let token = try #require(made.json?["session_token"]?.string)
        let refreshed = try await harness.send(.post, "/v1/session/refresh", [.authorization: "Bearer \(token)"])
        #expect(refreshed.status == 409 && refreshed.code == "not_refreshable")
    }

    @Test(
        "A login begins with a pushed authorization request → its answer has `open_by`; any other login's answer → no `open_by`"
    )
    func openBy() async throws {
        let harness = try HTTPHarness()
        let plain = try await harness.post("/v1/logins", #"{"provider":"as","client":"ios"}"#)
        #expect(plain.json?.names == ["login_id", "authorization_url", "state", "expires_at"])
        harness.provider.change { $0.urlLifetime = .seconds(90) }
        let pushed = try await harness.post("/v1/logins", #"{"provider":"as","client":"ios"}"#)
        #expect(pushed.json?["open_by"]?.string == "2026-11-20T21:21:30Z")
        #expect(pushed.json?["expires_at"]?.string == "2026-11-20T21:30:00Z")
        #expect(pushed.headers[.setCookie]?.contains("; Max-Age=600; Expires=") == true)
    }

    @Test("The broker's public URL is plain http → its cookies have other names, and no `Secure` (SEC-37)")
    func development() async throws {
        let harness = try HTTPHarness(publicURL: "http://localhost:8080")
        let started = try await harness.post("/v1/logins", #"{"provider":"as","client":"ios"}"#)
        let cookie = try #require(started.headers[.setCookie])
        #expect(cookie.hasPrefix("coatcheck-login="))
        #expect(!cookie.contains("Secure"))
    }

    @Test(
        "A bearer client signs in → its login token and session token are in the answers' bodies, and no cookie is set")
    func bearer() async throws {
        let harness = try HTTPHarness()
        let started = try await harness.post("/v1/logins", #"{"provider":"as","client":"desk"}"#)
        #expect(started.headers[.setCookie] == nil)
        let token = try #require(started.json?["login_token"]?.string)
        let state = try #require(started.json?["state"]?.string)
        let made = try await harness.post(
            "/v1/sessions",
            #"{"callback_url":"com.example.desk:/cb?code=c1&state=\#(state)","login_token":"\#(token)"}"#)
        #expect(made.status == 201)
        #expect(made.headers[.setCookie] == nil)
        let session = try #require(made.json?["session_token"]?.string)
        let read = try await harness.send(.get, "/v1/session", [.authorization: "Bearer \(session)"])
        #expect(read.status == 200)
        #expect(!read.body.contains(session))
    }

    @Test(
        "A request has a guessed session token, or a real one in a wrong place → 401 (SEC-35, SEC-43)",
        arguments: [
            ("/v1/session", HTTPFields()),
            ("/v1/session?session=TOKEN", [:]),
            ("/v1/session", [.authorization: "Bearer junk"]),
            ("/v1/session", [.authorization: "Basic TOKEN"]),
            ("/v1/session", [.authorization: "TOKEN"]),
            ("/v1/session", [.cookie: "__Host-coatcheck=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]),
            ("/v1/session", [.cookie: "__Host-coatcheck=\"\"TOKEN\"\""]),
            ("/v1/session", [.cookie: "__host-coatcheck=TOKEN"]),
            ("/v1/session", [.cookie: "__Host-coatcheck=%"]),
            ("/v1/session", [.cookie: "coatcheck=TOKEN"]),
            ("/v1/session", [FieldName.named("X-Coatcheck-Session"): "TOKEN"]),
        ] as [(String, HTTPFields)])
    func notASession(uri: String, headers: HTTPFields) async throws {
        let harness = try HTTPHarness()
        let token = try await harness.signIn().token.reveal()
        var fields = HTTPFields()
        for field in headers {
            fields.append(HTTPField(name: field.name, value: field.value.replacing("TOKEN", with: token)))
        }
        let reply = try await harness.send(.get, uri.replacing("TOKEN", with: token), fields)
        #expect(reply.status == 401)
        #expect(reply.code == "session_required")
        #expect(reply.headers[.wwwAuthenticate] != nil)
        #expect(reply.headers[.setCookie] == nil)
    }

    @Test("A request has two cookies with the broker's name, or a cookie and a different bearer token → 400 (SEC-38)")
    func conflicting() async throws {
        let harness = try HTTPHarness()
        let one = try await harness.signIn(code: "one").token.reveal()
        let two = try await harness.signIn(client: "desk", code: "two").token.reveal()
        for headers: HTTPFields in [
            [.cookie: "__Host-coatcheck=\(one); __Host-coatcheck=\(two)"],
            [.cookie: "__Host-coatcheck=\(one); __Host-coatcheck=\(one)"],
            [.cookie: "__Host-coatcheck=\(one)", .authorization: "Bearer \(two)"],
        ] {
            let reply = try await harness.send(.get, "/v1/session", headers)
            #expect(reply.status == 400)
            #expect(reply.code == "invalid_request")
            #expect(!reply.body.contains(one) && !reply.body.contains(two))
        }
        let same = try await harness.send(
            .get, "/v1/session", [.cookie: "__Host-coatcheck=\(one)", .authorization: "Bearer \(one)"])
        #expect(same.status == 200)
    }

    @Test("A refresh cannot reach the provider → 503 with `Retry-After`, and the cookie stays (guarantee 3)")
    func storeDown() async throws {
        let harness = try HTTPHarness()
        let signedIn = try await harness.signIn()
        harness.provider.change { $0.refreshFailure = .notSent(detail: "canary") }
        let reply = try await harness.send(.post, "/v1/session/refresh", harness.cookie(signedIn))
        #expect(reply.status == 503)
        #expect(reply.headers[.retryAfter] != nil)
        #expect(reply.headers[.setCookie] == nil)
        #expect(!reply.body.contains("canary"))
    }

    @Test("A log-out without a session, or with an unknown token → 204")
    func logOutTwice() async throws {
        let harness = try HTTPHarness()
        #expect(try await harness.send(.delete, "/v1/session").status == 204)
        #expect(
            try await harness.send(.delete, "/v1/session", [.cookie: "__Host-coatcheck=junk"]).status == 204)
    }

    @Test("A user lists and ends sessions → only the user's own sessions are listed and ended (SEC-100)")
    func devices() async throws {
        let harness = try HTTPHarness()
        let first = try await harness.signIn(code: "one")
        let second = try await harness.signIn(code: "two")
        harness.provider.change { $0.subject = "somebody-else" }
        let stranger = try await harness.signIn(code: "three")
        let list = try await harness.send(.get, "/v1/sessions", harness.cookie(first))
        let items = try #require(list.json?["items"]?.array)
        #expect(items.count == 2)
        #expect(items.filter { $0.object?["current"]?.bool == true }.count == 1)
        #expect(list.json?["next_cursor"]?.isNull == true)
        let foreign = try await harness.send(
            .delete, "/v1/sessions/\(stranger.session.handle.text)", harness.cookie(first))
        #expect(foreign.status == 404)
        #expect(
            try await harness.send(.delete, "/v1/sessions/ses_short", harness.cookie(first)).status == 404)
        #expect(
            try await harness.send(.delete, "/v1/sessions", harness.cookie(first)).faults == ["except required"])
        let others = try await harness.send(.delete, "/v1/sessions?except=current", harness.cookie(first))
        #expect(others.status == 204)
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(second)).code == "session_ended")
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(first)).status == 200)
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(stranger)).status == 200)
        let own = try await harness.send(.delete, "/v1/sessions/\(first.session.handle.text)", harness.cookie(first))
        #expect(own.status == 204)
        #expect(own.headers[.setCookie]?.contains("; Max-Age=0; Expires=") == true)
    }

    @Test("The list of providers → has the redirect URIs and the transport of each client")
    func providers() async throws {
        let reply = try await HTTPHarness().send(.get, "/v1/providers")
        #expect(reply.status == 200)
        #expect(reply.json?.names == ["items"])
        #expect(reply.json?.value(at: "/items/0/clients/0/redirect_uris/0")?.string == "com.example.app:/cb")
        #expect(reply.json?.value(at: "/items/0/clients/1/transport")?.string == "bearer")
    }

    @Test("Requests contain codes, states, tokens and cookies → log records and errors contain none of them (SEC-114)")
    func canaries() async throws {
        let harness = try HTTPHarness()
        let signedIn = try await harness.signIn()
        let token = signedIn.token.reveal()
        for (method, uri, headers, body) in [
            (
                .post, "/v1/sessions", [.contentType: "application/json"],
                #"{"callback_url":"com.example.app:/cb?code=canary-code&state=canary-state"}"#
            ),
            (.get, "/callback/as?code=canary-code&state=canary-state", [:], nil),
            (.get, "/v1/session?token=\(token)", [.cookie: "__Host-coatcheck=canary-cookie"], nil),
            (.get, "/canary-path", [.authorization: "Bearer canary-bearer"], nil),
            (
                .post, "/v1/logins", [.contentType: "application/json"],
                #"{"provider":"canary-provider","login_token":"canary"}"#
            ),
        ] as [(HTTPRequest.Method, String, HTTPFields, String?)] {
            let reply = try await harness.send(method, uri, headers, body: body)
            #expect(!reply.body.contains("canary") && !reply.body.contains(token), "\(reply.body)")
        }
        #expect(harness.records.all.count == 5)
        for record in harness.records.all {
            let text = "\(record)"
            #expect(!text.contains("canary") && !text.contains(token), "\(text)")
        }
    }

    @Test("A user agent with control characters → one harmless log line of limited length (SEC-115)")
    func userAgents() {
        let record = RequestRecord(
            method: "GET", route: "/", status: 200, duration: .zero, requestID: "r", client: "-",
            session: nil, failed: nil, traceID: nil, untrustedProxy: nil,
            userAgent: "a\u{1B}[31m\r\nb\u{2028}" + String(repeating: "x", count: 500), code: nil, privateDetail: nil)
        #expect(record.safeUserAgent?.utf8.count == 200)
        #expect(record.safeUserAgent?.hasPrefix("a?[31m??b?xxx") == true)
    }
}
