import Broker
import BrokerTestSupport
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Backends over HTTP", .timeLimit(.minutes(2)))
struct BackendRouteTests {
    private static let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"
    private static let type = "subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token"

    private func harness(
        may: Set<BackendPermission> = Set(BackendPermission.allCases), peers: [String] = [],
        allow: [BackendConfiguration.Scope]? = nil, token: Bool = false
    ) throws -> HTTPHarness {
        try HTTPHarness { configuration, vault in
            configuration.backends = [Backends.orders(vault, may: may, peers: peers, allow: allow, token: token)]
        }
    }

    @Test(
        "A forward-auth call has no live session or no valid credential → 401, no identity fields (SEC-83, SEC-85, SEC-87)"
    )
    func denials() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let token = signedIn.token.reveal()
        let forged = FieldName.named("X-Auth-Subject")
        let uri = FieldName.named("X-Forwarded-Uri")
        for (headers, status, code) in [
            (harness.cookie(signedIn), 401, "backend_unauthorized"),
            ([.cookie: "__Host-coatcheck=\(token)", Backends.header: "wrong"], 401, "backend_unauthorized"),
            ([.cookie: "__Host-coatcheck=\(token)", .authorization: "Bearer wrong"], 401, "backend_unauthorized"),
            ([.authorization: "Bearer \(token)"], 401, "backend_unauthorized"),
            (Backends.proof, 401, "session_required"),
            (
                [Backends.header: Backends.credential, uri: "/healthz", .userAgent: "GoogleHC/1.0"], 401,
                "session_required"
            ),
            ([Backends.header: Backends.credential, forged: "root"], 401, "session_required"),
            ([Backends.header: Backends.credential, .cookie: "__Host-coatcheck=junk"], 401, "session_required"),
            (
                [Backends.header: Backends.credential, .authorization: "Bearer \(Backends.credential)"], 401,
                "session_required"
            ),
            ([.authorization: "Bearer \(Backends.credential)"], 401, "session_required"),
        ] as [(HTTPFields, Int, String)] {
            let reply = try await harness.send(.get, "/v1/forward-auth", headers)
            #expect(reply.status == status, "\(headers)")
            #expect(reply.code == code)
            #expect(reply.header("Location") == nil)
            #expect(reply.header("X-Auth-Subject") == nil)
        }
        for method in [HTTPRequest.Method.options, .post, .put] {
            let reply = try await harness.send(method, "/v1/forward-auth", Backends.proof)
            #expect(reply.status == 405)
        }
    }

    @Test("A backend calls forward-auth ten times without a session → 401 each time, and no limit applies")
    func provenWithoutSession() async throws {
        let harness = try HTTPHarness { configuration, vault in
            configuration.backends = [Backends.orders(vault)]
            configuration.limits.charges.wrongTokensPerMinute = 3
        }
        for _ in 0..<10 {
            let reply = try await harness.send(
                .get, "/v1/forward-auth", [.authorization: "Bearer \(Backends.credential)"])
            #expect(reply.status == 401 && reply.code == "session_required")
        }
    }

    @Test(
        "A forward-auth call has a live session's token in any allowed place → all identity fields, and no token (SEC-86)"
    )
    func identity() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let token = signedIn.token.reveal()
        for headers: HTTPFields in [
            [Backends.header: Backends.credential, .cookie: "__Host-coatcheck=\(token)"],
            [Backends.header: Backends.credential, Backends.session: token],
            [Backends.header: Backends.credential, .authorization: "Bearer \(token)"],
            [.authorization: "Bearer \(Backends.credential)", .cookie: "__Host-coatcheck=\(token)"],
            [.authorization: "Bearer \(Backends.credential)", Backends.session: token],
        ] {
            let reply = try await harness.send(.get, "/v1/forward-auth", headers)
            #expect(reply.status == 200, "\(headers) \(reply.body)")
            #expect(reply.header("X-Auth-Subject") == "user-1")
            #expect(reply.header("X-Auth-Provider") == "as")
            #expect(reply.header("X-Auth-Client") == "ios")
            #expect(reply.header("X-Auth-Session") == signedIn.session.handle.text)
            #expect(reply.header("X-Auth-Name") == "Ana")
            #expect(reply.header("X-Auth-Email") == "ana@example.org")
            #expect(reply.header("X-Auth-Scope") == "openid%20email")
            #expect(reply.header("X-Auth-Token") == nil)
            #expect(reply.header("Cache-Control") == "no-store")
            #expect(reply.body.isEmpty)
        }
    }

    @Test(
        "A forward-auth call has an ended session's token → `Coatcheck-Reason` has the reason, because some proxies drop the body"
    )
    func endReason() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        var headers = Backends.proof
        headers[Backends.session] = signedIn.token.reveal()
        #expect(try await harness.send(.get, "/v1/forward-auth", headers).header("Coatcheck-Reason") == nil)
        try await harness.useCases.endSession.logOut(signedIn.token)
        let ended = try await harness.send(.get, "/v1/forward-auth", headers)
        #expect(ended.code == "session_ended")
        #expect(ended.header("Coatcheck-Reason") == "logged_out")
        let none = try await harness.send(.get, "/v1/forward-auth", Backends.proof)
        #expect(none.code == "session_required")
        #expect(none.header("Coatcheck-Reason") == nil)
    }

    @Test(
        "A subject has line ends → forward-auth escapes them; a name is too long → left out; a subject is too long → 403 (SEC-86)"
    )
    func hostileClaims() async throws {
        let harness = try harness()
        harness.provider.change { script in
            script.subject = "a\r\nX-Admin: 1 %\u{E9}"
            script.claims = [
                ("name", .string(String(repeating: "n", count: 20_000))), ("email", .string("x@evil.example")),
                ("email_verified", .bool(false)),
            ]
        }
        let signedIn = try await harness.signIn()
        var headers = Backends.proof
        headers[Backends.session] = signedIn.token.reveal()
        let reply = try await harness.send(.get, "/v1/forward-auth", headers)
        #expect(reply.status == 200)
        #expect(reply.header("X-Auth-Subject") == "a%0D%0AX-Admin:%201%20%25%C3%A9")
        #expect(reply.header("X-Auth-Name") == "")
        #expect(reply.header("X-Auth-Email") == "")
        #expect(reply.header("X-Admin") == nil)
        harness.provider.change { $0.subject = String(repeating: "s", count: 257) }
        var long = Backends.proof
        long[Backends.session] = try await harness.signIn(code: "two").token.reveal()
        #expect(try await harness.send(.get, "/v1/forward-auth", long).status == 403)
    }

    @Test(
        "The provider's `email_verified` is not `true` → forward-auth leaves the e-mail address out (SEC-33)",
        arguments: [
            JSONValue.bool(false), .string("false"), .string("no"), .string(""), .number("0"), .number("1"), .null,
            .array([]), .string("yes"),
        ])
    func unverified(_ verdict: JSONValue) async throws {
        let harness = try harness()
        harness.provider.change { $0.claims = [("email", .string("ana@example.org")), ("email_verified", verdict)] }
        var headers = Backends.proof
        headers[Backends.session] = try await harness.signIn().token.reveal()
        #expect(try await harness.send(.get, "/v1/forward-auth", headers).header("X-Auth-Email") == "")
    }

    @Test(
        "The provider's `email_verified` is `true` → forward-auth passes the e-mail address on",
        arguments: [JSONValue.bool(true), .string("true"), .string("True")])
    func verified(_ verdict: JSONValue) async throws {
        let harness = try harness()
        harness.provider.change { $0.claims = [("email", .string("ana@example.org")), ("email_verified", verdict)] }
        var headers = Backends.proof
        headers[Backends.session] = try await harness.signIn().token.reveal()
        #expect(try await harness.send(.get, "/v1/forward-auth", headers).header("X-Auth-Email") == "ana@example.org")
    }

    @Test("A backend lacks the permission for a route, or for the sessions of a client → refused (SEC-42)")
    func permissions() async throws {
        let nothing = try harness(may: [])
        let session = try await nothing.signIn().token.reveal()
        var headers = Backends.proof
        headers[Backends.session] = session
        #expect(try await nothing.send(.get, "/v1/forward-auth", headers).code == "backend_not_allowed")
        let introspection = try await nothing.form("/v1/introspect", "token=\(session)", Backends.proof)
        #expect(introspection.status == 403)
        #expect(introspection.json?["error"]?.string == "unauthorized_client")

        let scope = BackendConfiguration.Scope(
            provider: ProviderName(unchecked: "as"), clients: [ClientName(unchecked: "desk")])
        let scoped = try harness(allow: [scope])
        let foreign = try await scoped.signIn().token.reveal()
        let own = try await scoped.signIn(client: "desk", code: "two").token.reveal()
        headers[Backends.session] = foreign
        #expect(try await scoped.send(.get, "/v1/forward-auth", headers).code == "backend_not_allowed")
        headers[Backends.session] = own
        #expect(try await scoped.send(.get, "/v1/forward-auth", headers).status == 200)
        #expect(
            try await scoped.form("/v1/introspect", "token=\(foreign)", Backends.proof).body == #"{"active":false}"#)
        let exchange = try await scoped.form(
            "/v1/token", "\(Self.grant)&subject_token=\(foreign)&\(Self.type)", Backends.proof)
        #expect(exchange.json?["error"]?.string == "unauthorized_client")
        #expect(!exchange.body.contains("canary"))
    }

    @Test("A backend may get access tokens → forward-auth's answer has the session's access token")
    func forwardedToken() async throws {
        let harness = try harness(token: true)
        var headers = Backends.proof
        headers[Backends.session] = try await harness.signIn().token.reveal()
        #expect(try await harness.send(.get, "/v1/forward-auth", headers).header("X-Auth-Token") == "canary-access")
    }

    @Test(
        "A backend introspects a live session's token → the session's description; any other token → `active: false` (RFC 7662)"
    )
    func introspection() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let token = signedIn.token.reveal()
        let live = try await harness.form(
            "/v1/introspect", "token=\(token)&token_type_hint=access_token", Backends.proof)
        #expect(live.status == 200)
        #expect(live.json?.names == ["active", "sub", "iss", "client_id", "scope", "exp", "iat", "sid"])
        #expect(live.json?["iss"]?.string == "https://as.example")
        #expect(live.json?["client_id"]?.string == "as/ios")
        #expect(live.json?["scope"]?.string == "openid email")
        let basic = try await harness.form(
            "/v1/introspect", "token=\(token)",
            [.authorization: "Basic b3JkZXJzOmNhbmFyeS1iYWNrZW5kLWNyZWRlbnRpYWw="])
        #expect(basic.json?["active"]?.bool == true)
        let other = try await harness.form(
            "/v1/introspect", "token=\(token)",
            [.authorization: "Basic b3RoZXJzOmNhbmFyeS1iYWNrZW5kLWNyZWRlbnRpYWw="])
        #expect(other.status == 401)
        #expect(other.headers[.wwwAuthenticate]?.hasPrefix("Basic") == true)
        try await harness.useCases.endSession.logOut(signedIn.token)
        for dead in [token, "junk", String(repeating: "A", count: 43)] {
            #expect(
                try await harness.form("/v1/introspect", "token=\(dead)", Backends.proof).body == #"{"active":false}"#)
        }
        #expect(try await harness.form("/v1/introspect", "token=\(token)").json?["error"]?.string == "invalid_client")
        #expect(
            try await harness.form("/v1/introspect", "", Backends.proof).json?["error"]?.string == "invalid_request")
        #expect(try await harness.post("/v1/introspect", "{}", Backends.proof).status == 415)
    }

    @Test(
        "A backend introspects a session → the idle end moves only if the backend slides sessions and may ask about this session"
    )
    func slidingIntrospection() async throws {
        for (slides, client, day) in [(false, "ios", 0), (true, "desk", 0), (true, "ios", 1)] {
            let time = TestClock()
            let scope = BackendConfiguration.Scope(
                provider: ProviderName(unchecked: "as"), clients: [ClientName(unchecked: "ios")])
            let harness = try HTTPHarness(time: time) { configuration, vault in
                configuration.backends = [Backends.orders(vault, allow: [scope], slides: slides)]
            }
            let signedIn = try await harness.signIn(client: client)
            time.advance(.seconds(86_400))
            let answer = try await harness.form(
                "/v1/introspect", "token=\(signedIn.token.reveal())", Backends.proof)
            #expect(answer.json?["active"]?.bool == (client == "ios"))
            let now = try await harness.useCases.resumeSession.resume(signedIn.token).view
            #expect(
                now.idleExpiresAt.since(signedIn.session.idleExpiresAt) == .seconds(86_400 * day), "\(slides) \(client)"
            )
            #expect(now.expiresAt == signedIn.session.expiresAt)
        }
    }

    @Test(
        "A backend exchanges a live session's token → it gets the provider's access token; a faulty form → 400 (RFC 8693)"
    )
    func tokenExchange() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let token = signedIn.token.reveal()
        let good = "\(Self.grant)&subject_token=\(token)&\(Self.type)"
        let reply = try await harness.form("/v1/token", good, Backends.proof)
        #expect(reply.status == 200)
        #expect(reply.json?["access_token"]?.string == "canary-access")
        #expect(reply.json?["expires_in"]?.integer == 3600)
        #expect(reply.headers[.cacheControl] == "no-store")
        for (form, error) in [
            ("grant_type=authorization_code&code=x", "unsupported_grant_type"),
            ("\(Self.grant)&\(Self.type)", "invalid_request"),
            ("\(Self.grant)&subject_token=\(token)", "invalid_request"),
            ("\(Self.grant)&subject_token=\(token)&subject_token_type=x", "invalid_request"),
            (good + "&audience=https%3A%2F%2Felsewhere.example", "invalid_target"),
            (good + "&audience=a&audience=a", "invalid_request"), (good + "&scope=%22", "invalid_request"),
            (good + "&requested_token_type=x", "invalid_request"),
            ("\(Self.grant)&subject_token=junk&\(Self.type)", "invalid_grant"),
        ] {
            let refused = try await harness.form("/v1/token", form, Backends.proof)
            #expect(refused.status == 400)
            #expect(refused.json?["error"]?.string == error, "\(form)")
            #expect(!refused.body.contains("canary"))
        }
        try await harness.useCases.endSession.logOut(signedIn.token)
        let dead = try await harness.form("/v1/token", good, Backends.proof)
        #expect(dead.status == 400)
        #expect(dead.json?["error"]?.string == "invalid_grant")
        #expect(dead.json?["code"]?.string == "session_ended")
    }

    @Test(
        "A token exchange names all resources, audience and scopes of one `tokens` entry → served; only some → `invalid_target`"
    )
    func targets() async throws {
        let harness = try HTTPHarness { configuration, vault in
            var orders = Backends.orders(vault)
            orders.tokens = [
                TokenTarget(resources: ["urn:a", "urn:b"]), TokenTarget(audience: "stock", scope: ["read", "write"]),
            ]
            configuration.backends = [orders]
        }
        let signedIn = try await harness.signIn()
        let good = "\(Self.grant)&subject_token=\(signedIn.token.reveal())&\(Self.type)"
        for fields in [
            "resource=urn:a", "resource=urn:a&resource=urn:a", "resource=urn:a&resource=urn:b&resource=urn:c",
            "resource=urn:a&resource=urn:b&audience=stock", "audience=stock", "scope=read+write",
            "audience=stock&scope=read", "audience=STOCK&scope=read+write", "resource=urn:A&resource=urn:b",
        ] {
            let refused = try await harness.form("/v1/token", good + "&" + fields, Backends.proof)
            #expect(refused.status == 400 && refused.json?["error"]?.string == "invalid_target", "\(fields)")
        }
        for fields in ["resource=urn:b&resource=urn:a", "audience=stock&scope=write+read"] {
            let given = try await harness.form("/v1/token", good + "&" + fields, Backends.proof)
            #expect(given.status == 200 && given.json?["access_token"]?.string == "canary-access-2", "\(fields)")
        }
        let own = try await harness.form("/v1/token", good, Backends.proof)
        #expect(own.status == 200 && own.json?["access_token"]?.string == "canary-access")
    }

    @Test(
        "A session was made from an id_token → token exchange refuses it, but forward-auth and introspection serve it")
    func idToken() async throws {
        let harness = try harness(token: true)
        let token = try await harness.signInByIDToken().reveal()
        let reply = try await harness.form(
            "/v1/token", "\(Self.grant)&subject_token=\(token)&\(Self.type)", Backends.proof)
        #expect(reply.status == 400)
        #expect(reply.json?["error"]?.string == "invalid_target")
        var headers = Backends.proof
        headers[Backends.session] = token
        let checked = try await harness.send(.get, "/v1/forward-auth", headers)
        #expect(checked.status == 200 && checked.header("X-Auth-Token") == "")
        let known = try await harness.form("/v1/introspect", "token=\(token)", Backends.proof)
        #expect(known.json?["active"]?.bool == true && known.json?["scope"]?.string == "")
    }

    @Test(
        "A backend exchanges a Zephr session's token → `invalid_target`; forward-auth for this session → no access token"
    )
    func zephr() async throws {
        let harness = try harness(token: true)
        harness.provider.change { $0.credential = .zephrCookie }
        let token = try await harness.signIn().token.reveal()
        let reply = try await harness.form(
            "/v1/token", "\(Self.grant)&subject_token=\(token)&\(Self.type)", Backends.proof)
        #expect(reply.status == 400)
        #expect(reply.json?["error"]?.string == "invalid_target")
        #expect(!reply.body.contains("canary"))
        var headers = Backends.proof
        headers[Backends.session] = token
        #expect(try await harness.send(.get, "/v1/forward-auth", headers).header("X-Auth-Token") == "")
    }

    @Test(
        "A provider sends an invalid logout token → 400; a valid one → 200, and the session ends; the same again → 400 (SEC-66)"
    )
    func backchannel() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let path = "/v1/backchannel-logout/as"
        #expect(try await harness.form(path, "logout_token=bad", harness.cookie(signedIn)).status == 400)
        #expect(try await harness.form(path, "x=y").status == 400)
        #expect(try await harness.form("/v1/backchannel-logout/none", "logout_token=good").code == "provider_not_found")
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(signedIn)).status == 200)
        #expect(try await harness.form(path, "logout_token=good-1&extra=1").status == 200)
        #expect(try await harness.form(path, "logout_token=good-1").status == 400)
        let after = try await harness.send(.get, "/v1/session", harness.cookie(signedIn))
        #expect(after.json?["reason"]?.string == "provider_logout")
    }

    @Test(
        "GET of a hosted callback → 303 to the app; HEAD or a prefetch → the login stays pending (SEC-44, SEC-91, SEC-94)"
    )
    func hosted() async throws {
        let harness = try harness()
        let login = try await harness.useCases.startLogin.start(
            StartLoginInput(provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "web")))
        let uri = "/callback/as?code=canary-code&state=\(login.state.reveal())"
        #expect(try await harness.send(.head, uri).status == 200)
        let prefetch = FieldName.named("Sec-Purpose")
        #expect(try await harness.send(.get, uri, [prefetch: "prefetch;prerender"]).status == 400)
        let reply = try await harness.send(.get, uri)
        #expect(reply.status == 303)
        let location = try #require(reply.headers[.location])
        #expect(location.hasPrefix("https://app.example.com/oauth?handoff="))
        #expect(location.contains("&login_id=\(login.loginID)"))
        #expect(!location.contains("canary"))
        #expect(reply.headers[.setCookie] == nil)
        #expect(reply.body.isEmpty)
        let handoff = try #require(location.split(separator: "=").dropFirst().first?.split(separator: "&").first)
        let session = try await harness.post(
            "/v1/sessions", #"{"handoff":"\#(handoff)","login_token":"\#(login.loginToken.reveal())"}"#)
        #expect(session.status == 201)
        #expect(try await harness.send(.get, "/callback/none?code=x&state=y").code == "provider_not_found")
        #expect(try await harness.send(.get, "/callback/as?state=a&state=b").code == "invalid_callback")
        #expect(
            try await harness.send(.get, "/callback/as").headers[.location]?.contains("error=login_required") == true)
    }

    @Test("A backend has an empty `allow` → it may not ask about any session (SEC-42)")
    func allowsNobody() async throws {
        let harness = try harness(allow: [])
        let signedIn = try await harness.signIn()
        let token = signedIn.token.reveal()
        let asked = try await harness.form("/v1/introspect", "token=\(token)", Backends.proof)
        #expect(asked.status == 200 && asked.body == #"{"active":false}"#)
        let exchanged = try await harness.form(
            "/v1/token", "\(Self.grant)&\(Self.type)&subject_token=\(token)", Backends.proof)
        #expect(exchanged.status == 403, "\(exchanged.body)")
        let forwarded = try await harness.send(
            .get, "/v1/forward-auth", [Backends.header: Backends.credential, .cookie: "__Host-coatcheck=\(token)"])
        #expect(forwarded.status == 403 && forwarded.code == "backend_not_allowed")
        // A backend without `allow` may ask about the sessions of every client.
        let open = try HTTPHarness { configuration, vault in configuration.backends = [Backends.orders(vault)] }
        let other = try await open.signIn().token.reveal()
        #expect(try await open.form("/v1/introspect", "token=\(other)", Backends.proof).json?["active"]?.bool == true)
    }
}
