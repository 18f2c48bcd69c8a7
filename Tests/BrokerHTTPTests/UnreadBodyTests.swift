import Broker
import BrokerWire
import Testing

@testable import BrokerHTTP

/// Requests whose body the route does not read, over sockets.
///
/// For example, nginx's `auth_request` announces the user's body but does not send it.
@Suite("Unread bodies", .timeLimit(.minutes(2)))
struct UnreadBodyTests {
    private static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

    /// Announcements of a body.
    private static let announcements = [
        "Content-Length: 5\r\n", "Content-Length: 999999999\r\n", "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nExpect: 100-continue\r\n", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
        "Content-Type: application/json\r\nContent-Length: 5\r\n", "Content-Encoding: gzip\r\nContent-Length: 5\r\n",
    ]

    private static func harness() throws -> HTTPHarness {
        try HTTPHarness { configuration, vault in
            configuration.backends = [Backends.orders(vault)]
            // With this long deadline, a broker that waited for the body would fail the test: the client would give up first.
            configuration.limits.bodyDeadline = .seconds(120)
        }
    }

    private static func request(_ method: String, _ path: String, _ fields: String) -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nX-Coatcheck-Backend: \(Backends.credential)\r\n\(fields)\r\n"
    }

    @Test(
        "A GET or HEAD announces a body, but does not send it → answered at once, and its connection closes",
        arguments: announcements)
    func announced(_ fields: String) async throws {
        let harness = try Self.harness()
        let token = try await harness.signIn().token.reveal()
        let session = "X-Coatcheck-Session: \(token)\r\n"
        let cookie = "Cookie: __Host-coatcheck=\(token)\r\n"
        let calls: [(String, String, Int)] = [
            ("/v1/forward-auth", session, 200), ("/v1/forward-auth", "", 401), ("/v1/session", cookie, 200),
            ("/v1/session", "", 401), ("/v1/sessions", cookie, 200), ("/v1/providers", "", 200),
            ("/openapi.yaml", "", 200), ("/.well-known/assetlinks.json", "", 404),
            ("/handover/hnd_x", "", 410),
        ]
        for (path, more, status) in calls {
            for method in ["GET", "HEAD"] {
                let answer = try await harness.live { port in
                    try await RawClient(port: port).exchange(
                        Self.request(method, path, more + fields), within: .seconds(15))
                }
                #expect(answer.hasPrefix("HTTP/1.1 "), "\(method) \(path): \(answer)")
                #expect(
                    !answer.hasPrefix("HTTP/1.1 408") && !answer.hasPrefix("HTTP/1.1 100"),
                    "\(method) \(path): \(answer)")
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(method) \(path): \(answer.prefix(60))")
                #expect(answer.lowercased().contains("\r\nconnection: close\r\n"), "\(method) \(path)")
                #expect(responses(in: answer) == 1)
            }
        }
    }

    @Test(
        "A GET at the backends' or management listener announces a body → answered at once, and its connection closes",
        arguments: announcements)
    func otherListeners(_ fields: String) async throws {
        let harness = try Self.harness()
        let backend = try await harness.liveForBackends { port in
            try await RawClient(port: port).exchange(
                Self.request("GET", "/v1/forward-auth", fields), within: .seconds(15))
        }
        #expect(backend.hasPrefix("HTTP/1.1 401 "), "\(backend)")
        for path in ["/livez", "/readyz", "/metrics"] {
            let answer = try await harness.liveForManagement { port in
                try await RawClient(port: port).exchange(Self.request("GET", path, fields), within: .seconds(15))
            }
            #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(path): \(answer)")
            #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
        }
    }

    @Test(
        "A client pipelines requests behind a GET with a body → only the GET is answered, the others are discarded (SEC-101)",
        arguments: [
            "Content-Length: 5\r\n\r\n", "Content-Length: 5\r\n\r\nhello", "Content-Length: 66\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        ])
    func smuggling(_ rest: String) async throws {
        for (path, more) in [("/v1/providers", ""), ("/v1/forward-auth", "X-Coatcheck-Session: guess\r\n")] {
            let harness = try Self.harness()
            let head =
                "GET \(path) HTTP/1.1\r\nHost: localhost\r\nX-Coatcheck-Backend: \(Backends.credential)\r\n\(more)"
            let answer = try await harness.live { port in
                try await RawClient(port: port).exchange(
                    head + rest + Self.smuggled + Self.smuggled, within: .seconds(15))
            }
            #expect(responses(in: answer) == 1, "\(answer)")
            #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
            #expect(!harness.records.all.contains { $0.status == 404 }, "the second request was handled")
            #expect(harness.records.all.count == 1)
        }
    }

    @Test(
        "A GET's body has broken framing → 400, and nothing after it is read (SEC-101)",
        arguments: ["zz\r\n", "5\nhello\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "+1\r\nx\r\n"])
    func brokenFraming(_ body: String) async throws {
        for (path, more) in [("/v1/providers", ""), ("/v1/forward-auth", "X-Coatcheck-Session: guess\r\n")] {
            let harness = try Self.harness()
            let head =
                "GET \(path) HTTP/1.1\r\nHost: localhost\r\nX-Coatcheck-Backend: \(Backends.credential)\r\n\(more)"
                + "Transfer-Encoding: chunked\r\n\r\n"
            let answer = try await harness.live { port in
                try await RawClient(port: port).exchange(head + body + Self.smuggled, within: .seconds(15))
            }
            #expect(responses(in: answer) == 1, "\(answer)")
            #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(path): \(answer)")
            #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
            #expect(harness.records.all.count == 1)
        }
    }

    @Test("A GET has an endless body → answered or disconnected, and other clients are served (SEC-105)")
    func pouring() async throws {
        let harness = try Self.harness()
        try await harness.live { port in
            let pour = String(repeating: "x", count: 4 << 20)
            let answer = try await RawClient(port: port).exchange(
                Self.request("GET", "/v1/providers", "Content-Length: 999999999\r\n") + pour, within: .seconds(15))
            #expect(answer.isEmpty || answer.hasPrefix("HTTP/1.1 200 "), "\(answer.prefix(60))")
            let next = try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(next.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test(
        "An event stream's request announces a body, but does not send it → the stream continues until its session ends",
        .timeLimit(.minutes(1)))
    func stream() async throws {
        let harness = try HTTPHarness { configuration, _ in
            configuration.limits.eventHeartbeat = .milliseconds(100)
            configuration.limits.connection.idle = .milliseconds(300)
        }
        let signedIn = try await harness.signIn()
        let request =
            "GET /v1/session/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            + "Cookie: __Host-coatcheck=\(signedIn.token.reveal())\r\n\r\n"
        let answer = try await harness.live { port in
            let beats = AsyncStream.makeStream(of: Void.self)
            async let stream = RawClient(port: port).answer(to: request) { text in
                // Eight comments take longer than a connection may stay silent.
                if count(of: ":\n\n", in: text) >= 8 { beats.continuation.yield() }
                return false
            }
            for await _ in beats.stream { break }
            try await harness.useCases.endSession.logOut(signedIn.token)
            return try await stream
        }
        #expect(answer.contains("event: session_ended\n"), "\(answer)")
        #expect(answer.contains("0\r\n\r\n"), "whole")
    }

    @Test("An event stream, over HTTP/1.1 or HTTP/1.0 → has the field `X-Accel-Buffering: no`")
    func unbuffered() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.limits.eventHeartbeat = .milliseconds(100) }
        let cookie = "Cookie: __Host-coatcheck=\(try await harness.signIn().token.reveal())\r\n"
        for version in ["1.0", "1.1"] {
            let answer = try await harness.live { port in
                try await RawClient(port: port).answer(
                    to: "GET /v1/session/events HTTP/\(version)\r\nHost: localhost\r\n\(cookie)\r\n"
                ) { $0.contains(":\n\n") }
            }
            #expect(answer.contains("\r\nX-Accel-Buffering: no\r\n"), "\(answer)")
            #expect(answer.contains("event: session\ndata: "))
            #expect(answer.contains("Transfer-Encoding") == (version == "1.1"))
        }
    }
}
