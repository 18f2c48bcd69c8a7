import Broker
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("The backends' own listener", .timeLimit(.minutes(2)))
struct BackendListenerTests {
    private func harness(
        _ publicURL: String = "https://auth.example.com", own: Bool = true, wrongTokens: Int = 60
    ) throws -> HTTPHarness {
        try HTTPHarness(publicURL: publicURL) { configuration, vault in
            configuration.backends = [Backends.orders(vault, peers: ["127.0.0.1"], token: true)]
            configuration.backendListen = own ? "backends.internal:8081" : nil
            configuration.limits.charges.wrongTokensPerMinute = wrongTokens
            configuration.allowedOrigins = ["https://app.example.com"]
        }
    }

    private func get(_ path: String, _ port: Int, _ fields: String, host: String? = nil) async throws -> String {
        try await RawClient(port: port).exchange(
            "GET \(path) HTTP/1.1\r\nHost: \(host ?? "127.0.0.1:\(port)")\r\nConnection: close\r\n\(fields)\r\n")
    }

    @Test(
        "A peer on a backend's list `peers` calls the public listener without a credential → 401, with any `X-Forwarded-For`",
        arguments: ["", "X-Forwarded-For: 198.51.100.7\r\n", "X-Forwarded-For: 127.0.0.1\r\n"])
    func publicPeer(forwarded: String) async throws {
        let harness = try harness(own: false)
        let token = try await harness.signIn().token.reveal()
        try await harness.live { port in
            for field in ["Authorization: Bearer \(token)", "Cookie: __Host-coatcheck=\(token)"] {
                let answer = try await get("/v1/forward-auth", port, "\(field)\r\n\(forwarded)", host: "localhost")
                #expect(answer.hasPrefix("HTTP/1.1 401 "), "\(answer)")
                #expect(answer.contains("backend_unauthorized"))
                #expect(!answer.contains("canary-access"))
            }
            let form =
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=\(token)"
                + "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token"
            let exchange = try await RawClient(port: port).exchange(
                "POST /v1/token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(forwarded)"
                    + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n\r\n\(form)"
            )
            #expect(exchange.hasPrefix("HTTP/1.1 401 "), "\(exchange)")
            #expect(exchange.contains("invalid_client"))
        }
    }

    @Test(
        "A peer on a list `peers` calls the backends' listener → without a credential, served; with a wrong credential, refused"
    )
    func peer() async throws {
        let harness = try harness()
        let token = try await harness.signIn().token.reveal()
        try await harness.liveForBackends { port in
            let wrong = try await get(
                "/v1/forward-auth", port, "Cookie: __Host-coatcheck=\(token)\r\nX-Coatcheck-Backend: wrong\r\n")
            #expect(wrong.hasPrefix("HTTP/1.1 401 ") && wrong.contains("backend_unauthorized"), "\(wrong)")
            let nobody = try await get("/v1/forward-auth", port, "")
            #expect(nobody.hasPrefix("HTTP/1.1 401 ") && nobody.contains("session_required"), "\(nobody)")
            let answer = try await get("/v1/forward-auth", port, "Authorization: Bearer \(token)\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
            #expect(answer.contains("X-Auth-Subject: user-1\r\n"))
            #expect(answer.contains("X-Auth-Token: canary-access\r\n"))
            #expect(!answer.contains("Strict-Transport-Security"))
        }
    }

    @Test(
        "A peer on no list `peers` calls the backends' listener → without a credential, refused; with the right one, served"
    )
    func stranger() async throws {
        let harness = try HTTPHarness { configuration, vault in
            configuration.backends = [Backends.orders(vault, peers: ["10.1.2.3"])]
            configuration.backendListen = "backends.internal:8081"
        }
        let token = try await harness.signIn().token.reveal()
        try await harness.liveForBackends { port in
            let session = "Cookie: __Host-coatcheck=\(token)\r\n"
            let stranger = try await get("/v1/forward-auth", port, session + "X-Forwarded-For: 10.1.2.3\r\n")
            #expect(stranger.contains("backend_unauthorized"), "\(stranger)")
            let known = try await get(
                "/v1/forward-auth", port, session + "X-Coatcheck-Backend: \(Backends.credential)\r\n")
            #expect(known.hasPrefix("HTTP/1.1 200 "), "\(known)")
        }
    }

    @Test(
        "Backends have their own listener → this listener serves exactly the backends' routes, the public one all other routes"
    )
    func routes() throws {
        let backend = try harness().backendResponder.routes.map(\.template)
        #expect(backend == ["/v1/forward-auth", "/v1/introspect", "/v1/handovers/redeem", "/v1/token"])
        let own = Set(try harness().responder.routes.map(\.template))
        #expect(own.isDisjoint(with: backend))
        let shared = Set(try harness(own: false).responder.routes.map(\.template))
        #expect(shared == own.union(backend))
    }

    @Test(
        "A request for a public route on the backends' listener → 404; a CORS preflight there → 405, without CORS headers"
    )
    func nothingElse() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        try await harness.liveForBackends { port in
            for route in harness.responder.routes {
                let path = route.template.replacing("{provider}", with: "as").replacing("{upstream}", with: "api")
                    .replacing("{path}", with: "x").replacing("{handle}", with: signedIn.session.handle.text)
                let answer = try await RawClient(port: port).exchange(
                    "\(route.method.rawValue) \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
                        + "Cookie: __Host-coatcheck=\(signedIn.token.reveal())\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 404 "), "\(path) \(answer)")
            }
            let preflight = try await RawClient(port: port).exchange(
                "OPTIONS /v1/token HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
                    + "Origin: https://app.example.com\r\nAccess-Control-Request-Method: POST\r\n\r\n")
            #expect(preflight.hasPrefix("HTTP/1.1 405 "), "\(preflight)")
            #expect(!preflight.contains("Access-Control-"))
        }
    }

    @Test(
        "A request at the backends' listener has a public Host or the listener's address → served; another Host → 421 (SEC-103)"
    )
    func names() async throws {
        let harness = try harness()
        try await harness.liveForBackends { port in
            for (host, accepted) in [
                ("auth.example.com", true), ("localhost", true), ("backends.internal:8081", true),
                ("127.0.0.1:\(port)", true), ("localhost:\(port)", true), ("[::1]:\(port)", true),
                ("backends.internal:80", false), ("127.0.0.1:1", false), ("10.0.0.1:\(port)", false),
                ("evil.example", false), ("evil.example:\(port)", false), ("127.0.0.1.evil.example:\(port)", false),
            ] {
                let answer = try await get("/v1/forward-auth", port, "", host: host)
                #expect(answer.hasPrefix("HTTP/1.1 \(accepted ? 401 : 421) "), "\(host) \(answer)")
            }
        }
    }

    @Test(
        "A backend asks about unknown sessions → 401 each time; a backend's credential is wrong → 401 five times, then 429"
    )
    func wrongCookies() async throws {
        for own in [true, false] {
            let harness = try harness(own: own, wrongTokens: 5)
            let unknown = String(repeating: "A", count: 43)
            let run: @Sendable (Int) async throws -> Void = { port in
                func ask(_ fields: String) async throws -> String {
                    try await get("/v1/forward-auth", port, fields, host: "localhost")
                }
                let proof = "X-Coatcheck-Backend: \(Backends.credential)\r\n"
                for field in [
                    "Cookie: __Host-coatcheck=\(unknown)", "X-Coatcheck-Session: \(unknown)",
                    "Authorization: Bearer \(unknown)",
                ] {
                    for _ in 0..<7 {
                        let answer = try await ask("\(proof)\(field)\r\n")
                        #expect(answer.hasPrefix("HTTP/1.1 401 ") && answer.contains("session_required"), "\(answer)")
                    }
                }
                for attempt in 0..<7 {
                    let answer = try await ask("X-Coatcheck-Backend: wrong\r\n")
                    #expect(answer.hasPrefix("HTTP/1.1 \(attempt < 5 ? 401 : 429) "), "\(answer)")
                }
            }
            if own { try await harness.liveForBackends(run) } else { try await harness.live(run) }
        }
    }

    @Test(
        "An answer → has `Strict-Transport-Security` only on the public listener, and only if the public URL is https (SEC-108)"
    )
    func strictTransport() async throws {
        for (url, expected) in [("https://auth.example.com", true), ("http://127.0.0.1:8080", false)] {
            let harness = try harness(url)
            let answers = try await harness.live { port in
                [
                    try await get("/v1/providers", port, "", host: "localhost"),
                    try await get("/nothing", port, "", host: "localhost"),
                    try await get("/v1/providers", port, "", host: "evil.example"),
                    // The broker refuses this request while it reads the fields, so no route handles it.
                    try await get("/v1/providers", port, "X_Auth: 1\r\n", host: "localhost"),
                ]
            }
            for answer in answers {
                #expect(count(of: "Strict-Transport-Security: max-age=31536000", in: answer) == (expected ? 1 : 0))
                #expect(answer.contains("X-Content-Type-Options: nosniff"))
            }
        }
    }
}
