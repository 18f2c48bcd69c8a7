import Broker
import BrokerVault
import BrokerWire
import HTTPTypes
import NIOCore
import Testing

@testable import BrokerHTTP

@Suite("HTTP/1 requests over raw sockets", .timeLimit(.minutes(2)))
struct RawSocketTests {
    /// A second request, hidden in each request of `ambiguous`.
    ///
    /// Two servers could find the end of such a request at different bytes.
    ///
    /// If the broker read the hidden text as a request, it would answer 404, and the log would have a second record.
    private static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static let head = "GET /v1/providers HTTP/1.1\r\n"
    private static let post = "POST /v1/logins HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    private static let ambiguous: [String] = [
        // Two lengths, or a length and a coding.
        post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        post + "Content-Length: 2, 2\r\n\r\n{}",
        // Invalid lengths.
        post + "Content-Length: +2\r\n\r\n{}", post + "Content-Length: -2\r\n\r\n{}",
        post + "Content-Length: 0x2\r\n\r\n{}", post + "Content-Length: 2 2\r\n\r\n{}",
        post + "Content-Length: \r\n\r\n{}", post + "Content-Length: 99999999999999999999999\r\n\r\n{}",
        post + "Content-Length : 2\r\n\r\n{}",
        // Codings other than exactly `chunked`.
        post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        post + "Transfer-Encoding: identity\r\n\r\n", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post + "Transfer-Encoding:\u{B}chunked\r\n\r\n0\r\n\r\n", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        post + "Transfer_Encoding: chunked\r\n\r\n", post + "Content_Length: 2\r\n\r\n",
        "POST /v1/logins HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        // Invalid chunks.
        post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n",
        post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        // Lines that another server could end at a different byte.
        head + "Host: localhost\r\nX-A: 1\r\n folded\r\n\r\n", head + "Host: localhost\r\n\tX-A: 1\r\n\r\n",
        head + "Host : localhost\r\n\r\n", head + "Host: localhost\r\nX-A: 1\nX-B: 2\r\n\r\n",
        head + "Host: localhost\r\nX-A: 1\rX-B: 2\r\n\r\n", head + "Host: localhost\r\nX-A: a\u{0}b\r\n\r\n",
        head + "Host: localhost\r\n: empty\r\n\r\n", head + "Host: localhost\r\nno colon\r\n\r\n",
        "GET /v1/providers\r\nHost: localhost\r\n\r\n",
        "GET /v1/providers HTTP/1.1 x\r\nHost: localhost\r\n\r\n",
        "GET /v1/pro viders HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/providers HTTP/2.0\r\nHost: localhost\r\n\r\n",
        "GET /v1/providers HTTP/0.9\r\nHost: localhost\r\n\r\n",
        "GET /v1/providers HTTP/1.1\nHost: localhost\n\n", "BREW /v1/providers HTTP/1.1\r\nHost: localhost\r\n\r\n",
        // Missing, repeated or malformed hosts and targets.
        head + "\r\n", head + "Host: localhost\r\nHost: localhost\r\n\r\n", head + "Host: \r\n\r\n",
        head + "Host: a, localhost\r\n\r\n", head + "Host: user@localhost\r\n\r\n",
        "GET http://evil.example/v1/providers HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET localhost/v1/providers HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /v1/providers#x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        head + "Host: localhost\r\nX_Auth_User: root\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}",
    ]

    @Test(
        "A request's framing is ambiguous → one 400, the connection closes, the smuggled request is not read (SEC-101, SEC-103)",
        arguments: ambiguous)
    func ambiguousFraming(request: String) async throws {
        let harness = try HTTPHarness()
        let answer = try await harness.live { port in
            try await RawClient(port: port).exchange(request + Self.smuggled)
        }
        #expect(answer.hasPrefix("HTTP/1.1 400 ") || answer.hasPrefix("HTTP/1.0 400 "), "\(answer)")
        #expect(responses(in: answer) == 1, "\(answer)")
        #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
        #expect(answer.contains("application/problem+json"))
        #expect(answer.contains(#""code":"invalid_request""#))
        #expect(answer.lowercased().contains("\r\nx-request-id: req_"))
        #expect(answer.lowercased().contains("\r\nstrict-transport-security: "))
        #expect(!harness.records.all.contains { $0.status == 404 })
        #expect(harness.records.all.count == 1)
    }

    @Test("A request's head exceeds a size limit → one 431, without further parsing (SEC-102)")
    func caps() async throws {
        let host = "Host: localhost\r\n"
        let long = String(repeating: "a", count: 9000)
        for request in [
            "GET /\(long) HTTP/1.1\r\n\(host)\r\n", "GET /?\(long) HTTP/1.1\r\n\(host)\r\n",
            "GET / HTTP/1.1\r\n\(host)X-Long: \(long)\r\n\r\n", "GET / HTTP/1.1\r\n\(host)\(long): x\r\n\r\n",
            "GET / HTTP/1.1\r\n\(host)" + (0..<65).map { "X-\($0): 1\r\n" }.joined() + "\r\n",
            "GET / HTTP/1.1\r\n\(host)" + (0..<5).map { "X-\($0): \(long.prefix(4000))\r\n" }.joined() + "\r\n",
        ] {
            let harness = try HTTPHarness()
            let answer = try await harness.live { try await RawClient(port: $0).exchange(request + Self.smuggled) }
            #expect(answer.hasPrefix("HTTP/1.1 431 "), "\(answer.prefix(200))")
            #expect(responses(in: answer) == 1)
            #expect(answer.contains(#""code":"headers_too_large""#))
        }
    }

    @Test("The broker takes an old system's cookie → a field of 24 KiB is read, and a larger one gets 431 (SEC-102)")
    func largeCookie() async throws {
        for (bytes, status) in [(24 * 1024 - 20, 200), (24 * 1024 + 1, 431)] {
            let harness = try HTTPHarness { configuration, _ in configuration.limits.allowOldCookie() }
            let request = "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: a="
            let answer = try await harness.live {
                try await RawClient(port: $0).exchange(request + String(repeating: "a", count: bytes) + "\r\n\r\n")
            }
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer.prefix(200))")
        }
    }

    @Test("A head has 200,000 tiny fields → 431 or a closed connection, and other clients are served (SEC-102)")
    func manyFields() async throws {
        let flood = "GET / HTTP/1.1\r\nHost: localhost\r\n" + String(repeating: "a:b\r\n", count: 200_000)
        try await HTTPHarness().live { port in
            let answer = try await RawClient(port: port).exchange(flood)
            #expect(answer.isEmpty || answer.hasPrefix("HTTP/1.1 431 "))
            let next = try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(next.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test("A request's body is too large, by its length or its chunks → 413, and the connection closes (SEC-102)")
    func largeBodies() async throws {
        for request in [
            Self.post + "Content-Length: 70000\r\n\r\n" + String(repeating: "x", count: 70_000),
            Self.post + "Transfer-Encoding: chunked\r\n\r\n11170\r\n" + String(repeating: "x", count: 70_000)
                + "\r\n0\r\n\r\n",
        ] {
            let harness = try HTTPHarness { configuration, _ in configuration.limits.connection.linger = .seconds(20) }
            let answer = try await harness.live { try await RawClient(port: $0).exchange(request + Self.smuggled) }
            #expect(answer.hasPrefix("HTTP/1.1 413 "), "\(answer.prefix(200))")
            #expect(responses(in: answer) == 1)
            #expect(answer.lowercased().contains("connection: close"))
        }
    }

    @Test("A route does not read the body of a request → the connection closes after the answer")
    func unreadBodies() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.allowedOrigins = ["https://app.example.com"] }
        let body = "Host: localhost\r\nContent-Length: 5\r\n"
        for (request, status) in [
            (
                "OPTIONS /v1/sessions HTTP/1.1\r\n\(body)Origin: https://app.example.com\r\n"
                    + "Access-Control-Request-Method: POST\r\n\r\n", 204
            ),
            ("POST /nowhere HTTP/1.1\r\n\(body)\r\n", 404), ("PUT /v1/logins HTTP/1.1\r\n\(body)\r\n", 405),
        ] {
            let answer = try await harness.live { try await RawClient(port: $0).exchange(request) }
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
            #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
        }
    }

    @Test("Pipelined requests have large bodies → all bodies are read, and the answers come in order")
    func pipelinedBodies() async throws {
        let harness = try HTTPHarness()
        let body = "[" + String(repeating: " ", count: 60_000) + "]"
        let request = Self.post + "Content-Length: \(body.utf8.count)\r\n\r\n" + body
        let last = "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let answer = try await harness.live { port in
            try await RawClient(port: port).exchange(String(repeating: request, count: 20) + last)
        }
        #expect(responses(in: answer) == 21, "\(responses(in: answer))")
        #expect(count(of: "HTTP/1.1 400 ", in: answer) == 20)
        #expect(!answer.contains(#""code":"malformed""#), "a body was cut")
    }

    @Test(
        "A head with `Expect: 100-continue` is refused → no `100 Continue`, only the refusal (RFC 9110 section 10.1.1)")
    func expectations() async throws {
        let harness = try HTTPHarness()
        let head = "Host: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
        for (request, status) in [
            ("POST /nowhere HTTP/1.1\r\n\(head)Content-Length: 5\r\n\r\n", 404),
            ("POST /v1/logins HTTP/1.1\r\n\(head)Content-Length: 70000\r\n\r\n", 413),
        ] {
            let answer = try await harness.live { try await RawClient(port: $0).exchange(request) }
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
        }
        let taken = try await harness.live { port in
            try await RawClient(port: port).answer(
                to: "POST /v1/logins HTTP/1.1\r\n\(head)Content-Length: 2\r\n\r\n"
            ) { $0.contains("\r\n\r\n") }
        }
        #expect(taken.hasPrefix("HTTP/1.1 100 Continue\r\n"), "\(taken)")
    }

    @Test(
        "A request with `Expect` has a wrong type, credential or path → no `100 Continue` (RFC 9110 section 10.1.1)",
        arguments: [
            ("/v1/logins", "text/plain", "", 415, 0),
            ("/v1/logins", "application/json", "Content-Encoding: gzip\r\n", 415, 0),
            ("/v1/logins", "application/x-www-form-urlencoded", "", 415, 0), ("/v1/sessions", "text/plain", "", 415, 0),
            ("/v1/registrations", "text/plain", "", 415, 0), ("/v1/session/refresh", "application/json", "", 401, 0),
            ("/v1/session/refresh", "application/json", "Cookie: __Host-coatcheck=guess\r\n", 401, 0),
            ("/v1/session/token", "application/json", "", 401, 0),
            ("/v1/introspect", "application/x-www-form-urlencoded", "X-Coatcheck-Backend: guess\r\n", 401, 0),
            ("/v1/introspect", "application/x-www-form-urlencoded", "Authorization: Bearer guess\r\n", 401, 0),
            ("/v1/introspect", "text/plain", "Authorization: Bearer canary-backend-credential\r\n", 415, 0),
            ("/v1/token", "application/x-www-form-urlencoded", "X-Coatcheck-Backend: guess\r\n", 401, 0),
            ("/v1/token", "application/json", "", 401, 0),
            ("/callback/nobody", "application/x-www-form-urlencoded", "", 404, 0),
            ("/callback/as", "application/json", "", 415, 0),
            ("/v1/backchannel-logout/nobody", "application/x-www-form-urlencoded", "", 404, 0),
            ("/v1/backchannel-logout/as", "application/json", "", 415, 0),
            ("/v1/introspect", "application/x-www-form-urlencoded", "Authorization: Basic eDp5\r\n", 401, 1),
            ("/v1/introspect", "text/plain", "", 401, 1),
            ("/admin/v1/backups", "application/json", "", 401, 2),
            ("/admin/v1/config/diff", "application/json", "Authorization: Bearer guess\r\n", 401, 2),
            ("/admin/v1/config/diff", "application/json", "Authorization: Bearer canary-reader\r\n", 403, 2),
            ("/admin/v1/config/diff", "text/plain", "Authorization: Bearer canary-shaper\r\n", 415, 2),
            ("/admin/v1/keys/reseal", "application/json", "", 401, 2),
        ])
    func headRefuses(_ path: String, _ type: String, _ more: String, _ status: Int, _ listener: Int) async throws {
        let harness = try HTTPHarness { configuration, vault in
            configuration.backends = [Backends.orders(vault)]
            configuration.adminTokens = [
                AdminToken(name: "reader", digest: vault.digest(Array("canary-reader".utf8)), may: [.read]),
                AdminToken(name: "shaper", digest: vault.digest(Array("canary-shaper".utf8)), may: [.configure]),
            ]
        }
        let request =
            "POST \(path) HTTP/1.1\r\nHost: localhost\r\nContent-Type: \(type)\r\n\(more)"
            + "Expect: 100-continue\r\nContent-Length: 500\r\n\r\n"
        let ask: @Sendable (Int) async throws -> String = { try await RawClient(port: $0).exchange(request) }
        let answer =
            switch listener {
            case 0: try await harness.live(ask)
            case 1: try await harness.liveForBackends(ask)
            default: try await harness.liveForManagement(ask)
            }
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
        #expect(
            answer.lowercased().contains("\r\nconnection: close\r\n"),
            "after an unread body, the connection serves no further request")
        #expect(responses(in: answer) == 1)
    }

    @Test("A request with `Expect: 100-continue` has a good type, credential and path → `100 Continue`")
    func headPasses() async throws {
        let harness = try HTTPHarness { configuration, vault in configuration.backends = [Backends.orders(vault)] }
        let token = try await harness.signIn().token.reveal()
        for (path, type, more) in [
            ("/v1/session/refresh", "text/plain", "Cookie: __Host-coatcheck=\(token)\r\n"),
            ("/v1/introspect", "application/x-www-form-urlencoded", "X-Coatcheck-Backend: \(Backends.credential)\r\n"),
            ("/v1/introspect", "application/x-www-form-urlencoded", ""),
            ("/v1/token", "application/x-www-form-urlencoded", ""),
            ("/callback/as", "application/x-www-form-urlencoded; charset=utf-8", ""),
            ("/v1/backchannel-logout/as", "application/x-www-form-urlencoded", ""),
        ] {
            let answer = try await harness.live { port in
                try await RawClient(port: port).answer(
                    to: "POST \(path) HTTP/1.1\r\nHost: localhost\r\nContent-Type: \(type)\r\n\(more)"
                        + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
                ) { $0.contains("\r\n\r\n") }
            }
            #expect(answer.hasPrefix("HTTP/1.1 100 Continue\r\n"), "\(path): \(answer)")
        }
    }

    @Test("A request's body arrives too slowly → 408, and the connection closes (SEC-105)")
    func slowBody() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.limits.bodyDeadline = .milliseconds(200) }
        let answer = try await harness.live {
            try await RawClient(port: $0).exchange(Self.post + "Content-Length: 100\r\n\r\n{")
        }
        #expect(answer.hasPrefix("HTTP/1.1 408 "), "\(answer)")
        #expect(answer.contains(#""code":"request_timeout""#))
        #expect(answer.lowercased().contains("connection: close"))
    }

    @Test("A request's head never ends → the connection is closed, and other clients are served (SEC-105)")
    func slowHead() async throws {
        // The limit is generous, because a slow client on a busy machine must not be disconnected.
        let harness = try HTTPHarness { configuration, _ in configuration.limits.connection.idle = .seconds(8) }
        try await harness.live { port in
            async let slow = RawClient(port: port).exchange("GET / HTTP/1.1\r\nHost: local")
            let other = try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(other.hasPrefix("HTTP/1.1 200 "))
            #expect(try await slow.isEmpty)
        }
    }

    @Test("A client that does not read its answer → the connection is closed, and other clients are served (SEC-105)")
    func slowReader() async throws {
        let size = 32 * 1024 * 1024
        let harness = try HTTPHarness { configuration, _ in
            configuration.openAPI = Array(repeating: UInt8(ascii: "#"), count: size)
            configuration.limits.connection.rateWindow = .milliseconds(300)
            configuration.limits.connection.rateGrace = .zero
        }
        try await harness.live { port in
            let other = "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            let received = try await RawClient(port: port).received(
                after: "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ) {
                // The client does not read while this closure runs.
                #expect(try await RawClient(port: port).exchange(other).hasPrefix("HTTP/1.1 200 "))
                try await Task.sleep(for: .seconds(3))
            }
            #expect(received < size)
            #expect(try await RawClient(port: port).exchange(other).hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test("A request is HTTP/1.0, has `Connection: close` or an `Upgrade` → answered, and then the connection closes")
    func lastRequests() async throws {
        for request in [
            "GET /v1/providers HTTP/1.0\r\nHost: localhost\r\n\r\n",
            "GET /v1/providers HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
            "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
            "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        ] {
            let harness = try HTTPHarness()
            let answer = try await harness.live { try await RawClient(port: $0).exchange(request + Self.smuggled) }
            #expect(answer.contains(" 200 OK\r\n"), "\(answer)")
            #expect(answer.lowercased().contains("\r\nconnection: close\r\n"))
            #expect(responses(in: answer) == 1)
            #expect(!harness.records.all.contains { $0.status == 404 })
        }
    }

    @Test("Several requests on one connection, the last one malformed → answered in order, with the refusal last")
    func pipelined() async throws {
        let harness = try HTTPHarness()
        let answer = try await harness.live {
            try await RawClient(port: $0).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n"
                    + "GET http://localhost/v1/session HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\n\r\n"
                    + Self.smuggled)
        }
        let statuses = answer.split(separator: "HTTP/1.1 ").map { $0.prefix(3) }
        #expect(statuses == ["200", "200", "401", "400"], "\(answer)")
        #expect(!answer.contains("openapi: 3"))
    }

    @Test(
        "A client pipelines 51 requests, more than a connection serves at a time → all are answered in order (SEC-105)")
    func turns() async throws {
        let get = "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let pair = get + Self.post + "Content-Length: 2\r\n\r\n[]"
        let last = "GET /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let answer = try await HTTPHarness().live {
            try await RawClient(port: $0).exchange(String(repeating: pair, count: 25) + last)
        }
        let statuses = answer.split(separator: "HTTP/1.1 ").map { $0.prefix(3) }
        #expect(statuses == Array(repeating: ["200", "400"], count: 25).flatMap { $0 } + ["401"])
    }

    @Test("A request has `Expect: 100-continue` → the interim answer comes before its body is sent")
    func expectContinue() async throws {
        let body = #"{"provider":"as","client":"ios"}"#
        let request =
            Self.post + "Expect: 100-continue\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
        try await HTTPHarness().live { port in
            let interim = try await RawClient(port: port).answer(to: request) { $0.hasSuffix("\r\n\r\n") }
            #expect(interim == "HTTP/1.1 100 Continue\r\n\r\n")
            let whole = try await RawClient(port: port).exchange(pieces: [request, body])
            #expect(whole.contains("HTTP/1.1 201 "))
        }
    }

    @Test(
        "A request is refused while the client still sends its body → the client gets the answer (RFC 9112 section 9.6)"
    )
    func lingering() async throws {
        let request =
            "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
            + String(repeating: "x", count: 300_000)
        // After its answer, the broker reads the rest of the body for two seconds by default. A client on a busy machine may
        // need longer to send it.
        let harness = try HTTPHarness { configuration, _ in configuration.limits.connection.linger = .seconds(20) }
        let answer = try await harness.live { try await RawClient(port: $0).exchange(request) }
        #expect(answer.hasPrefix("HTTP/1.1 404 "), "\(answer.prefix(100))")
        #expect(answer.lowercased().contains("connection: close"))
    }

    @Test("A request names a wrong host, in its `Host` field or its target → 421 (SEC-103)")
    func wrongName() async throws {
        for request in [
            "GET /v1/providers HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
            "GET http://evil.example/v1/providers HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        ] {
            let answer = try await HTTPHarness().live { try await RawClient(port: $0).exchange(request) }
            #expect(answer.hasPrefix("HTTP/1.1 421 "))
        }
    }

    @Test("An address guesses session tokens → 429, but a session's owner at this address is still served (SEC-121)")
    func guesses() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.limits.charges.wrongTokensPerMinute = 5 }
        let token = try await harness.signIn().token.reveal()
        try await harness.live { port in
            func ask(_ cookie: String) async throws -> String {
                try await RawClient(port: port).exchange(
                    "GET /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: __Host-coatcheck=\(cookie)\r\n\r\n"
                )
            }
            for _ in 0..<5 { #expect(try await ask(String(repeating: "A", count: 43)).hasPrefix("HTTP/1.1 401 ")) }
            let refused = try await ask(String(repeating: "B", count: 43))
            #expect(refused.hasPrefix("HTTP/1.1 429 "))
            #expect(refused.lowercased().contains("retry-after: "))
            #expect(try await ask(token).hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test(
        "An untrusted peer starts logins with many `X-Forwarded-For` → 429, as the peer's address counts (SEC-104, SEC-119)"
    )
    func starts() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.limits.charges.loginsPerMinute = 3 }
        try await harness.live { port in
            var last = ""
            for index in 0..<4 {
                last = try await RawClient(port: port).exchange(
                    "POST /v1/logins HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                        + "X-Forwarded-For: 10.0.0.\(index)\r\nContent-Length: 32\r\n\r\n{\"provider\":\"as\",\"client\":\"ios\"}"
                )
                if index < 3 { #expect(last.hasPrefix("HTTP/1.1 201 "), "\(last)") }
            }
            #expect(last.hasPrefix("HTTP/1.1 429 "))
        }
        #expect(harness.records.all.allSatisfy { $0.client == "127.0.0.1" })
    }

    @Test("A loopback peer starts many logins at a broker in development → they are not limited")
    func development() async throws {
        let harness = try HTTPHarness(publicURL: "http://localhost:8080") { configuration, _ in
            configuration.limits.charges.loginsPerMinute = 1
        }
        try await harness.live { port in
            for _ in 0..<3 {
                let answer = try await RawClient(port: port).exchange(
                    "POST /v1/logins HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\nContent-Type: application/json\r\n"
                        + "Content-Length: 32\r\n\r\n{\"provider\":\"as\",\"client\":\"ios\"}")
                #expect(answer.hasPrefix("HTTP/1.1 201 "))
            }
        }
    }

    @Test(
        "A trusted proxy's `X-Forwarded` fields name a client → this address counts; they name http → 400 (SEC-104, SEC-108)"
    )
    func trustedProxy() async throws {
        let harness = try HTTPHarness { configuration, _ in
            configuration.trustedProxies = [IPNetwork("127.0.0.0/8")].compactMap { $0 }
        }
        try await harness.live { port in
            let plain = try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-Proto: http\r\n\r\n")
            #expect(plain.hasPrefix("HTTP/1.1 400 "))
            #expect(!plain.lowercased().contains("\r\nlocation:"))
            let secure = try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-Proto: https\r\n"
                    + "X-Forwarded-For: 6.6.6.6, 198.51.100.7\r\n\r\n")
            #expect(secure.hasPrefix("HTTP/1.1 200 "))
        }
        #expect(harness.records.all.last?.client == "198.51.100.7")
    }

    @Test(
        "A session's event stream is open, and the session is refreshed and then ends → the stream has both events, then closes"
    )
    func events() async throws {
        let harness = try HTTPHarness { configuration, _ in configuration.limits.eventHeartbeat = .milliseconds(100) }
        let signedIn = try await harness.signIn()
        let request =
            "GET /v1/session/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + "Cookie: __Host-coatcheck=\(signedIn.token.reveal())\r\n\r\n"
        let answer = try await harness.live { port in
            let opened = AsyncStream.makeStream(of: Void.self)
            async let stream = RawClient(port: port).answer(to: request) { text in
                // The first comment shows that the stream is open.
                if text.contains(":\n\n") { opened.continuation.yield() }
                return false
            }
            for await _ in opened.stream { break }
            _ = try await harness.useCases.refreshTokens.refreshNow(
                try await harness.useCases.resumeSession.resume(signedIn.token))
            try await harness.useCases.endSession.logOut(signedIn.token)
            return try await stream
        }
        #expect(answer.contains("text/event-stream"))
        #expect(answer.contains("event: session\ndata: {\"handle\":\"\(signedIn.session.handle.text)\""))
        #expect(answer.contains("event: tokens_refreshed\ndata: {}\n\n"))
        #expect(answer.contains("event: session_ended\ndata: {\"reason\":\"logged_out\"}\n\n"))
        #expect(!answer.contains("canary"))
    }

    @Test("The server stops while an event stream is open → the stream is ended, and does not delay the stop")
    func shutdown() async throws {
        let harness = try HTTPHarness()
        let signedIn = try await harness.signIn()
        let request =
            "GET /v1/session/events HTTP/1.1\r\nHost: localhost\r\n"
            + "Cookie: __Host-coatcheck=\(signedIn.token.reveal())\r\n\r\n"
        let opened = AsyncStream.makeStream(of: Void.self)
        // `live` returns only after the server has stopped, so the stop must have ended this stream.
        let stream = try await harness.live { port in
            let stream = Task {
                try await RawClient(port: port).answer(to: request) { text in
                    if text.contains("event: session\n") { opened.continuation.yield() }
                    return false
                }
            }
            for await _ in opened.stream { break }
            return stream
        }
        let text = try await stream.value
        #expect(text.hasSuffix("0\r\n\r\n"))
    }

    @Test(
        "An address opens one connection too many → after all its connections have closed, the address is served again (SEC-105)"
    )
    func connectionCap() async throws {
        let harness = try HTTPHarness { configuration, _ in
            configuration.limits.connectionsPerAddress = 3
            configuration.limits.connection.idle = .seconds(8)
        }
        try await harness.live { port in
            let idle = "GET /v1/providers HTTP/1.1\r\nHost: local"
            async let one = RawClient(port: port).exchange(idle)
            async let two = RawClient(port: port).exchange(idle)
            async let three = RawClient(port: port).exchange(idle)
            async let four = RawClient(port: port).exchange(idle)
            let all = try await [one, two, three, four]
            #expect(all.joined().isEmpty)
            let after = try await RawClient(port: port).exchange(
                "GET /v1/providers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            #expect(after.hasPrefix("HTTP/1.1 200 "))
        }
    }
}
