import Broker
import BrokerTestSupport
import BrokerVault
import HTTPTypes
import NIOCore
import Testing

@testable import BrokerHTTP

@Suite("The management listener", .timeLimit(.minutes(2)))
struct ManagementTests {
    private static let reader = "canary-admin-reader"
    private static let ender = "canary-admin-ender"

    private func harness(tokens: Bool = true) throws -> HTTPHarness {
        try HTTPHarness { configuration, vault in
            guard tokens else { return }
            configuration.adminTokens = [
                AdminToken(name: "reader", digest: vault.digest(Array(Self.reader.utf8)), may: [.read]),
                AdminToken(name: "ender", digest: vault.digest(Array(Self.ender.utf8)), may: [.read, .end]),
            ]
        }
    }

    private func send(
        _ harness: HTTPHarness, _ method: HTTPRequest.Method, _ uri: String, _ token: String? = nil,
        _ headers: HTTPFields = [:]
    ) async throws -> Reply {
        var headers = headers
        if let token { headers[.authorization] = "Bearer \(token)" }
        return try await HTTPHarness.send(to: harness.managementResponder, method, uri, headers)
    }

    @Test("Health or metrics are read without a token → answered")
    func health() async throws {
        let harness = try harness()
        #expect(try await send(harness, .get, "/livez").body == #"{"status":"live"}"#)
        let ready = try await send(harness, .get, "/readyz")
        #expect(ready.status == 200)
        #expect(
            ready.body == #"{"status":"ready","store":"ok","disk":"ok","keys":"ok","problems":[],"providers":{}}"#)
        let metrics = try await send(harness, .get, "/metrics")
        #expect(metrics.body == "coatcheck_up 1\n")
        #expect(metrics.headers[.contentType]?.hasPrefix("text/plain") == true)
    }

    @Test("A client's certificate has expired → readiness lists the days left, and stays 200")
    func certificates() async throws {
        let harness = try harness()
        let now = harness.clock.now()
        let (provider, client) = (ProviderName(unchecked: "bank"), ClientName(unchecked: "web"))
        let health = ManagementHealth(
            ping: { () async throws(StoreFailure) in },
            certificates: {
                [-90_000, -1, 86_399, 86_400 * 30].map { seconds in
                    ManagementHealth.Certificate(
                        provider: provider, client: client, notAfter: now.advanced(by: .seconds(seconds)))
                }
            })
        let responder = ManagementRouter.responder(
            health: health, sessions: harness.useCases.adminSessions, configuration: harness.configuration,
            clock: harness.clock, digest: { harness.vault.digest($0) }, log: harness.log)
        let reply = try await HTTPHarness.send(to: responder, .get, "/readyz")
        #expect(reply.status == 200)
        let days = (0..<4).compactMap { reply.json?.value(at: "/certificates/\($0)/days_left")?.integer }
        #expect(days == [-2, -1, 0, 30])
        #expect(reply.json?.value(at: "/certificates/0/provider")?.string == "bank")
        #expect(reply.json?.value(at: "/certificates/3/client")?.string == "web")
        #expect(
            reply.json?.value(at: "/certificates/3/not_after")?.string
                == now.advanced(by: .seconds(86_400 * 30)).rfc3339)
    }

    @Test("A provider has a warning → readiness lists it as a problem, and stays 200")
    func warnings() async throws {
        let harness = try HTTPHarness()
        let health = ManagementHealth(
            ping: { () async throws(StoreFailure) in },
            providers: {
                [
                    ManagementHealth.Provider(
                        name: ProviderName(unchecked: "as"), kind: .oidc, state: "ok",
                        warnings: ["metadata: revocation_endpoint is not a URL to call"])
                ]
            })
        let responder = ManagementRouter.responder(
            health: health, sessions: harness.useCases.adminSessions, configuration: harness.configuration,
            clock: harness.clock, digest: { harness.vault.digest($0) }, log: harness.log)
        let reply = try await HTTPHarness.send(to: responder, .get, "/readyz")
        #expect(reply.status == 200)
        #expect(
            reply.json?["problems"]
                == .array([.string("provider as: metadata: revocation_endpoint is not a URL to call")]))
    }

    @Test(
        "The store's role lacked rights at the start → readiness 503; the role lost rights later → 200, with the missing rights",
        arguments: [(false, 503, "store_rights_missing"), (true, 200, "ready")])
    func rights(_ hadAll: Bool, _ status: Int, _ word: String) async throws {
        let harness = try harness()
        let health = ManagementHealth(
            ping: { () async throws(StoreFailure) in },
            conditions: {
                var conditions = ManagementHealth.Conditions()
                conditions.hasRights = hadAll
                conditions.lackingRights = "the role app lacks SELECT on sessions"
                return conditions
            })
        let responder = ManagementRouter.responder(
            health: health, sessions: harness.useCases.adminSessions, configuration: harness.configuration,
            clock: harness.clock, digest: { harness.vault.digest($0) }, log: harness.log)
        let reply = try await HTTPHarness.send(to: responder, .get, "/readyz")
        #expect(reply.status == status && (reply.headers[.retryAfter] != nil) == (status == 503))
        #expect(reply.json?["status"]?.string == word)
        #expect(
            reply.json?.value(at: "/problems/0")?.string == "the role app lacks SELECT on sessions; GRANT them to it")
    }

    @Test("The key ring opens none of the stored records → readiness is 503")
    func foreignKeys() async throws {
        let harness = try harness()
        let health = ManagementHealth(
            ping: { () async throws(StoreFailure) in },
            conditions: {
                var conditions = ManagementHealth.Conditions()
                conditions.keysFit = false
                conditions.keys = "the key ring opens 0 of 20 rows tried"
                return conditions
            })
        let responder = ManagementRouter.responder(
            health: health, sessions: harness.useCases.adminSessions, configuration: harness.configuration,
            clock: harness.clock, digest: { harness.vault.digest($0) }, log: harness.log)
        let reply = try await HTTPHarness.send(to: responder, .get, "/readyz")
        #expect(reply.status == 503)
        #expect(reply.headers[.retryAfter] != nil)
        #expect(reply.json?["status"]?.string == "keys_do_not_fit")
        #expect(
            reply.json?.value(at: "/problems/0")?.string
                == "the key ring is not the store's: the key ring opens 0 of 20 rows tried")
    }

    @Test("An admin token lacks `maintain` → 403 for backups, resealing and first imports", arguments: [reader, ender])
    func maintenance(_ token: String) async throws {
        let harness = try harness()
        for uri in ["/admin/v1/backups", "/admin/v1/keys/reseal", "/admin/v1/first-imports"] {
            let reply = try await send(harness, .post, uri, token)
            #expect(reply.status == 403)
            #expect(reply.code == "backend_not_allowed")
            #expect(try await send(harness, .post, uri).status == 401)
        }
        #expect(try await send(harness, .get, "/admin/v1/keys").status == 401)
        #expect(try await send(harness, .get, "/admin/v1/keys/reseal").status == 401)
    }

    @Test("An admin token that lacks `export` → 403 for exports and their ends", arguments: [reader, ender])
    func exports(_ token: String) async throws {
        let harness = try harness()
        for uri in ["/admin/v1/exports", "/admin/v1/exports/end"] {
            let reply = try await send(harness, .post, uri, token)
            #expect(reply.status == 403)
            #expect(reply.code == "backend_not_allowed")
            #expect(try await send(harness, .post, uri).status == 401)
        }
    }

    @Test("The store is unavailable, or the process shuts down → readiness is 503 (SEC-123)", arguments: [true, false])
    func notReady(shuttingDown: Bool) async throws {
        let harness = try harness()
        let health = ManagementHealth(
            ping: { () async throws(StoreFailure) in if !shuttingDown { throw .unavailable("canary") } },
            conditions: {
                var conditions = ManagementHealth.Conditions()
                if shuttingDown { conditions.drain = (requests: 3, streams: 2) }
                return conditions
            })
        let responder = ManagementRouter.responder(
            health: health, sessions: harness.useCases.adminSessions, configuration: harness.configuration,
            clock: harness.clock, digest: { harness.vault.digest($0) }, log: harness.log)
        let reply = try await HTTPHarness.send(to: responder, .get, "/readyz")
        #expect(reply.status == 503)
        #expect(reply.headers[.retryAfter] != nil)
        #expect(reply.json?["status"]?.string == (shuttingDown ? "shutting_down" : "store_unavailable"))
        #expect(!reply.body.contains("canary"))
        #expect(
            reply.json?.value(at: "/problems/0")?.string
                == (shuttingDown
                    ? "shutting down: 3 requests and 2 event streams are under way"
                    : "the store does not answer, or is not migrated"))
    }

    @Test("The disk is full, or the endings file fails → readiness names the faults, and stays 200 (SEC-123)")
    func fullDisk() async throws {
        let harness = try harness()
        let health = ManagementHealth(
            ping: { () async throws(StoreFailure) in },
            conditions: {
                var conditions = ManagementHealth.Conditions()
                conditions.diskIsFull = true
                conditions.pendingEndings = 2
                conditions.endingsFile = "its disk is full"
                conditions.unkeptEndings = 4
                return conditions
            })
        let responder = ManagementRouter.responder(
            health: health, sessions: harness.useCases.adminSessions, configuration: harness.configuration,
            clock: harness.clock, digest: { harness.vault.digest($0) }, log: harness.log)
        let reply = try await HTTPHarness.send(to: responder, .get, "/readyz")
        #expect(reply.status == 200)
        #expect(reply.json?["status"]?.string == "ready")
        #expect(reply.json?["disk"]?.string == "full")
        #expect(reply.json?["endings_file"]?.string == "its disk is full")
        #expect(reply.json?["problems"]?.array?.count == 3)
    }

    @Test(
        "A request to `/admin` has no admin token, a wrong one, or a user's session → 401 (SEC-96, SEC-97)")
    func unauthorized() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let attempts: [(String?, HTTPFields)] = [
            (nil, [:]), ("wrong", [:]), ("", [:]), (signedIn.token.reveal(), [:]), (nil, harness.cookie(signedIn)),
        ]
        for (token, headers) in attempts {
            for (method, uri) in [
                (HTTPRequest.Method.get, "/admin/v1/sessions"), (.get, "/admin/v1/providers"),
                (.delete, "/admin/v1/sessions/\(signedIn.session.handle.text)"),
                (.delete, "/admin/v1/subjects/as/user-1/sessions"),
            ] {
                let reply = try await send(harness, method, uri, token, headers)
                #expect(reply.status == 401)
                #expect(reply.code == "backend_unauthorized")
            }
        }
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(signedIn)).status == 200)
    }

    @Test("No admin token is configured → `/admin` answers 404")
    func noAdmin() async throws {
        let harness = try harness(tokens: false)
        #expect(try await send(harness, .get, "/admin/v1/sessions", "anything").status == 404)
    }

    @Test("An admin token has only `read` → it may list sessions, but not end them (SEC-97)")
    func permissions() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let list = try await send(harness, .get, "/admin/v1/sessions?provider=as&subject=user-1", Self.reader)
        #expect(list.status == 200)
        #expect(list.json?.value(at: "/items/0/handle")?.string == signedIn.session.handle.text)
        #expect(list.json?.value(at: "/items/0/reason")?.isNull == true)
        #expect(list.json?.value(at: "/items/0/sender_constrained")?.isNull == true)
        #expect(!list.body.contains("canary") && !list.body.contains(signedIn.token.reveal()))
        let refused = try await send(
            harness, .delete, "/admin/v1/sessions/\(signedIn.session.handle.text)", Self.reader)
        #expect(refused.status == 403)
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(signedIn)).status == 200)
    }

    @Test("An operator lists sessions → ended sessions appear with their reason, but only with `state=ended`")
    func ended() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        let handle = signedIn.session.handle.text
        let path = "/admin/v1/sessions?provider=as&subject=user-1"
        let before = try await send(harness, .get, path + "&state=ended", Self.reader)
        #expect(before.json?["items"]?.array?.isEmpty == true)
        #expect(try await send(harness, .delete, "/admin/v1/sessions/\(handle)", Self.ender).status == 204)
        let list = try await send(harness, .get, path + "&state=ended", Self.reader)
        #expect(list.json?.value(at: "/items/0/handle")?.string == handle)
        #expect(list.json?.value(at: "/items/0/reason")?.string == "admin")
        #expect(list.json?.value(at: "/items/0/ended_at")?.string == TestClock.start.rfc3339)
        #expect(!list.body.contains("canary") && !list.body.contains(signedIn.token.reveal()))
        for state in ["", "&state=live"] {
            let live = try await send(harness, .get, path + state, Self.reader)
            #expect(live.json?["items"]?.array?.isEmpty == true)
        }
    }

    @Test("An operator ends sessions by handle or by subject → they have ended at once (SEC-100)")
    func ending() async throws {
        let harness = try harness()
        let one = try await harness.signIn(code: "one")
        let two = try await harness.signIn(code: "two")
        #expect(
            try await send(harness, .delete, "/admin/v1/sessions/\(one.session.handle.text)", Self.ender).status == 204)
        #expect(
            try await harness.send(.get, "/v1/session", harness.cookie(one)).json?["reason"]?.string == "admin")
        let ended = try await send(harness, .delete, "/admin/v1/subjects/as/user%2D1/sessions", Self.ender)
        #expect(ended.body == #"{"ended":1}"#)
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(two)).code == "session_ended")
        #expect(
            try await send(harness, .delete, "/admin/v1/sessions/ses_AAAAAAAAAAAAAAAAAAAAAA", Self.ender).status == 404)
        #expect(try await send(harness, .delete, "/admin/v1/subjects/none/x/sessions", Self.ender).status == 404)
    }

    @Test(
        "An operator ends a subject's sessions or one session, with a filter that the route lacks → 400; the sessions live"
    )
    func unknownFilter() async throws {
        let harness = try harness()
        let signedIn = try await harness.signIn()
        for path in ["subjects/as/user%2D1/sessions", "sessions/\(signedIn.session.handle.text)"] {
            let reply = try await send(harness, .delete, "/admin/v1/\(path)?client=ios", Self.ender)
            #expect(reply.status == 400)
            #expect(reply.body.contains("client"))
        }
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(signedIn)).status == 200)
    }

    @Test(
        "An operator ends sessions by provider or client → all of them end; a request without a provider → 400 (SEC-100)"
    )
    func endingByClient() async throws {
        let harness = try harness()
        let ios = try await harness.signIn(code: "one")
        let desk = try await harness.signIn(client: "desk", code: "two")
        func end(_ query: String, _ token: String = Self.ender) async throws -> Reply {
            try await send(harness, .delete, "/admin/v1/sessions" + query, token)
        }
        for query in [
            "", "?client=ios", "?provider=", "?provider=as&subject=user-1", "?state=live", "?provider=as&binding=pass",
            "?binding=none", "?provider=as&cursor=AAAA", "?provider=as&binding=none&cursor=AAAA",
        ] {
            #expect(try await end(query).code == "invalid_request", "\(query)")
        }
        #expect(try await end("?provider=none").status == 404)
        #expect(try await end("?provider=as", Self.reader).status == 403)
        #expect(try await end("?provider=as&client=desk").body == #"{"ended":1}"#)
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(ios)).status == 200)
        #expect(try await end("?provider=as").body == #"{"ended":1}"#)
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(ios)).json?["reason"]?.string == "admin")
        #expect(harness.store.auditRecords.map(\.target) == ["as/desk", "as"])
        _ = desk
    }

    @Test(
        "An operator lists sessions with a tampered cursor, an unknown filter or SQL → 400 (SEC-98)",
        arguments: [
            "?cursor=';DROP", "?cursor=AAAA", "?subject=x", "?client=ios", "?provider=as&subject=x&client=ios",
            "?provider=';DROP%20TABLE", "?colour=red", "?binding=some", "?binding=", "?provider=as&provider=as",
            "?state=all", "?state=",
        ])
    func badFilters(query: String) async throws {
        let reply = try await send(try harness(), .get, "/admin/v1/sessions" + query, Self.reader)
        #expect(reply.status == 400)
        #expect(reply.code == "invalid_request")
    }

    @Test(
        "A request at the management listener has an IP address, `localhost` or a listed name as Host → served; else → 421"
    )
    func names() async throws {
        let harness = try HTTPHarness { configuration, _ in
            configuration.managementHosts = ["ops.internal", "broker.internal:9090"]
        }
        let good = [
            "127.0.0.1:9090", "localhost:9090", "LOCALHOST", "[::1]:9090", "10.0.0.5:9090", "10.0.0.5",
            "[2001:db8::5]:9090", "ops.internal", "OPS.internal:1234", "broker.internal:9090",
        ]
        let bad = [
            "broker.internal:9091", "broker.internal", "auth.example.com", "evil.example", "evil.example:9090",
            "localhost.evil.example", "127.0.0.1.evil.example:9090", "10.0.0.5.evil.example", "10.0.0", "0x7f000001",
        ]
        try await harness.liveForManagement { port in
            for host in good + bad {
                for path in ["/livez", "/metrics"] {
                    let answer = try await RawClient(port: port).exchange(
                        "GET \(path) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
                    #expect(answer.hasPrefix("HTTP/1.1 \(good.contains(host) ? 200 : 421) "), "\(host) \(answer)")
                    #expect(answer.contains("wrong_host") == bad.contains(host))
                    #expect(!answer.contains("Strict-Transport-Security"))
                }
            }
        }
    }

    /// Requests without a `Host` that are refused even on the listener of the health probes.
    private static let withoutHost = [
        "OPTIONS / HTTP/1.0\r\n\r\n", "OPTIONS /livez HTTP/1.0\r\n\r\n", "POST /livez HTTP/1.0\r\n\r\n",
        "GET /metrics HTTP/1.0\r\n\r\n", "GET /admin/v1/sessions HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\n\r\n",
        "GET /livez/ HTTP/1.0\r\n\r\n", "GET //livez HTTP/1.0\r\n\r\n", "GET /livez?x HTTP/1.0\r\n\r\n",
        "GET /LIVEZ HTTP/1.0\r\n\r\n", "GET /livez#x HTTP/1.0\r\n\r\n", "GET livez HTTP/1.0\r\n\r\n",
        "GET http://127.0.0.1/livez HTTP/1.0\r\n\r\n", "GET http:///livez HTTP/1.0\r\n\r\n",
        "GET /livez HTTP/1.0\r\nHost: \r\n\r\n", "GET /livez HTTP/1.0\r\nHost: a b\r\n\r\n",
        "GET /livez HTTP/1.0\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "GET /livez HTTP/1.0\r\nX_Host: localhost\r\n\r\n",
        "GET /livez HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "GET /livez HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
        "GET /livez HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /livez HTTP/1.1\r\n\r\n", "GET /readyz HTTP/1.1\r\nConnection: close\r\n\r\n",
    ]

    @Test(
        "A request without a valid Host → 400, except a plain HTTP/1.0 GET or HEAD of a health path (SEC-103)",
        arguments: withoutHost)
    func hostless(request: String) async throws {
        let harness = try harness()
        let answer = try await harness.liveForManagement { port in
            try await RawClient(port: port).exchange(request + "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
        }
        #expect(answer.hasPrefix("HTTP/1.1 400 ") || answer.hasPrefix("HTTP/1.0 400 "), "\(answer)")
        #expect(answer.contains(#""code":"invalid_request""#))
        #expect(harness.records.all.count == 1 && !harness.records.all.contains { $0.status == 404 })
    }

    @Test("GET or HEAD of `/livez` or `/readyz` in HTTP/1.0 without a Host → answered, and then the connection closes")
    func hostlessProbes() async throws {
        for path in ["/livez", "/readyz"] {
            for (method, more) in [("GET", ""), ("HEAD", ""), ("GET", "Connection: keep-alive\r\n")] {
                let harness = try harness()
                let request =
                    "\(method) \(path) HTTP/1.0\r\n\(more)\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
                let answer = try await harness.liveForManagement { try await RawClient(port: $0).exchange(request) }
                #expect(answer.hasPrefix("HTTP/1.1 200 ") || answer.hasPrefix("HTTP/1.0 200 "), "\(answer)")
                #expect(answer.contains(#""status":"#) == (method == "GET"))
                #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
                #expect(harness.records.all.map(\.route) == [path])
            }
            // The public listener and the backends' listener do not have these paths. They require a `Host` before they look
            // for the path, so the answer is 400 instead of 404.
            let request = "GET \(path) HTTP/1.0\r\n\r\n"
            let answer = try await harness().live { try await RawClient(port: $0).exchange(request) }
            let backends = try await harness().liveForBackends { try await RawClient(port: $0).exchange(request) }
            for answer in [answer, backends] { #expect(answer.contains(" 400 "), "\(answer)") }
        }
    }

    @Test("A public route's path on the management listener → 404")
    func separate() async throws {
        for path in ["/v1/session", "/v1/providers", "/openapi.yaml", "/callback/as"] {
            #expect(try await send(try harness(), .get, path).status == 404)
        }
    }
}
