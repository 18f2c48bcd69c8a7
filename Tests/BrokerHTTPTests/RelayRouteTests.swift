import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerWire
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Synchronization
import Testing

@testable import BrokerHTTP

@Suite("The relay over HTTP", .timeLimit(.minutes(2)))
struct RelayRouteTests {
    /// The requests that an upstream saw.
    final class Seen: Sendable {
        private let list = Mutex<[String]>([])
        func add(_ text: String) { list.withLock { $0.append(text) } }
        var all: [String] { list.withLock { $0 } }
    }

    /// An upstream with a few routes, and the broker in front of it.
    private func run(
        _ configure: @escaping @Sendable (inout HTTPConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (HTTPHarness, _ port: Int, _ token: String, Seen) async throws -> Void
    ) async throws {
        let seen = Seen()
        let router = Router()
        router.get("/items") { request, _ in
            seen.add(request.headers[.authorization] ?? "-")
            return Response(
                status: .ok,
                headers: [.setCookie: "a=b", .server: "x", .contentSecurityPolicy: "default-src *", .eTag: "\"1\""],
                body: ResponseBody(byteBuffer: ByteBuffer(string: "items")))
        }
        router.get("/paper") { _, _ in
            Response(
                status: .ok, headers: [.contentType: "Application/PDF; v=1"],
                body: ResponseBody(byteBuffer: ByteBuffer(string: "%PDF-")))
        }
        router.post("/echo") { request, _ in
            seen.add("echo")
            return Response(status: .ok, body: ResponseBody(asyncSequence: request.body))
        }
        router.post("/sink") { request, _ in
            for try await _ in request.body {}
            return Response(status: .ok)
        }
        router.get("/endless") { _, _ in
            Response(
                status: .ok,
                body: ResponseBody { writer in
                    defer { seen.add("ended") }
                    while true {
                        try await writer.write(ByteBuffer(string: "chunk"))
                        try await Task.sleep(for: .milliseconds(10))
                    }
                })
        }
        router.get("/silent") { _, _ in
            seen.add("asked")
            try await eventually("the test lets the upstream answer") { seen.all.contains("enough") }
            return Response(status: .ok)
        }
        router.on("/items", method: .head) { _, _ in
            Response(status: .ok, body: ResponseBody { try await $0.finish(nil) })
        }
        var logger = Logger(label: "upstream")
        logger.logLevel = .critical
        let upstream = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            logger: logger)
        try await upstream.test(.live) { client in
            guard let upstreamPort = client.port else { throw BrokerProblem(.internalError) }
            var harness = try HTTPHarness { configuration, _ in configure(&configuration) }
            let relay = Relay(upstreams: [
                try UpstreamSettings(
                    name: UpstreamName(unchecked: "api"), baseURL: "http://127.0.0.1:\(upstreamPort)",
                    provider: ProviderName(unchecked: "as"),
                    allow: ["GET,HEAD /items", "GET /paper", "POST /echo", "POST /sink", "GET /endless", "GET /silent"])
            ])
            harness.relay = relay
            let running = harness
            let token = try await running.signIn().token.reveal()
            do {
                try await running.live { port in try await body(running, port, token, seen) }
            } catch {
                await relay.shutdown()
                throw error
            }
            await relay.shutdown()
        }
    }

    private static func get(_ path: String, _ token: String, method: String = "GET", more: String = "") -> String {
        "\(method) /v1/relay/api\(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + "Cookie: __Host-coatcheck=\(token)\r\n\(more)\r\n"
    }

    @Test(
        "An allowed relayed call → sent with the access token; fields that must not pass are removed (SEC-75, SEC-77)"
    )
    func call() async throws {
        try await run { _, port, token, seen in
            let answer = try await RawClient(port: port).exchange(Self.get("/items", token))
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
            #expect(answer.hasSuffix("items"))
            let lower = answer.lowercased()
            for field in [
                "coatcheck-source: upstream", "cache-control: private, no-store", "x-request-id: req_",
                "content-security-policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox\r\n",
                "etag: \"1\"", "content-length: 5",
            ] { #expect(lower.contains(field), "\(field)") }
            #expect(!lower.contains("set-cookie") && !lower.contains("server:") && !lower.contains("default-src *"))
            #expect(!answer.contains("canary") && !answer.contains(token))
            #expect(seen.all == ["Bearer canary-access"])
        }
    }

    @Test(
        "A relayed answer is a PDF → its policy lacks `sandbox`, so that a browser may show it in its own viewer (SEC-108)"
    )
    func paper() async throws {
        try await run { _, port, token, _ in
            let answer = try await RawClient(port: port).exchange(Self.get("/paper", token))
            #expect(
                answer.lowercased().contains(
                    "security-policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
                ))
        }
    }

    @Test(
        "A session from an id_token calls an upstream → refused, as it has no access token; the session stays")
    func withoutToken() async throws {
        try await run { running, port, _, seen in
            let token = try await running.signInByIDToken().reveal()
            let request =
                "GET /v1/relay/api/items HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                + "Authorization: Bearer \(token)\r\n\r\n"
            let answer = try await RawClient(port: port).exchange(request)
            #expect(answer.hasPrefix("HTTP/1.1 403 ") && answer.contains(#""code":"upstream_not_allowed""#))
            #expect(answer.lowercased().contains("coatcheck-source: broker"))
            #expect(seen.all.isEmpty)
            let still = try await running.send(.get, "/v1/session", [.authorization: "Bearer \(token)"])
            #expect(still.status == 200)
        }
    }

    @Test(
        "A relayed call is not allowed → it never reaches the upstream, and the answer names the broker (SEC-72, SEC-73)"
    )
    func refusals() async throws {
        try await run { _, port, token, seen in
            for (request, status, code) in [
                (Self.get("/items", "junk"), 401, "session_required"),
                (Self.get("/secret", token), 403, "upstream_not_allowed"),
                (Self.get("/items", token, method: "DELETE"), 403, "upstream_not_allowed"),
                (Self.get("/items/../items", token), 400, "invalid_request"),
                (Self.get("/%2e%2e/items", token), 400, "invalid_request"),
                (Self.get("//items", token), 400, "invalid_request"),
                (
                    Self.get("/items", token, more: "Connection: Upgrade\r\nUpgrade: websocket\r\n"), 400,
                    "invalid_request"
                ),
                (Self.get("/items", token, more: "Sec-Fetch-Site: cross-site\r\n"), 403, "cross_origin"),
                (
                    Self.get("/items", token, more: "Content-Type: a/b\r\ncontent-type: c/d\r\n"), 400,
                    "invalid_request"
                ),
                (Self.get("/items", token, method: "TRACE"), 405, "method_not_allowed"),
                (
                    "GET /v1/relay/none/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: __Host-coatcheck=\(token)\r\n\r\n",
                    404, "upstream_not_found"
                ),
                ("GET /v1/relay/api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404, "not_found"),
                (
                    "GET /v1/relay/api/items HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 401,
                    "session_required"
                ),
            ] {
                let answer = try await RawClient(port: port).exchange(request)
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(request) \(answer)")
                #expect(answer.contains("\"code\":\"\(code)\""), "\(answer)")
                #expect(answer.contains("Coatcheck-Source: broker\r\n") || code == "not_found")
                if status == 405 { #expect(answer.lowercased().contains("\r\nallow: get, ")) }
            }
            #expect(seen.all.isEmpty)
        }
    }

    @Test(
        "The upstream's answer to a relayed HEAD has an unknown length → only the head is sent, without `Transfer-Encoding`"
    )
    func head() async throws {
        try await run { _, port, token, _ in
            let answer = try await RawClient(port: port).exchange(Self.get("/items", token, method: "HEAD"))
            #expect(answer.contains(" 200 OK\r\n"))
            #expect(answer.hasSuffix("\r\n\r\n"))
            #expect(!answer.hasSuffix("0\r\n\r\n"))
            #expect(!answer.lowercased().contains("transfer-encoding"))
        }
    }

    @Test("Relayed bodies have a length or are chunked → streamed in both directions")
    func streams() async throws {
        try await run { _, port, token, _ in
            let body = String(repeating: "0123456789abcdef", count: 64 * 1024)
            let sized = try await RawClient(port: port).exchange(
                Self.get("/echo", token, method: "POST", more: "Content-Length: \(body.utf8.count)\r\n") + body)
            #expect(sized.hasPrefix("HTTP/1.1 200 "), "\(sized.prefix(300))")
            #expect(sized.utf8.count > body.utf8.count)
            let chunked = try await RawClient(port: port).exchange(
                Self.get("/echo", token, method: "POST", more: "Transfer-Encoding: chunked\r\n")
                    + "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
            #expect(chunked.hasPrefix("HTTP/1.1 200 "))
            #expect(chunked.contains("hello"))
            #expect(chunked.contains(" world"))
        }
    }

    @Test("The framing of a relayed upload is broken → it is never answered like a complete upload (SEC-101)")
    func brokenBody() async throws {
        try await run { _, port, token, _ in
            let answer = try await RawClient(port: port).exchange(
                Self.get("/echo", token, method: "POST", more: "Transfer-Encoding: chunked\r\n")
                    + "5\r\nhello\r\nzz\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.isEmpty || answer.hasPrefix("HTTP/1.1 400 ") || !answer.hasSuffix("0\r\n\r\n"), "\(answer)")
            #expect(responses(in: answer) <= 1)
        }
    }

    /// Limits that soon end a slow upload: after the first tenth of a second, an upload has to bring at least 1 KiB a second.
    private static let impatient: @Sendable (inout HTTPConfiguration) -> Void = { configuration in
        configuration.limits.relayRateWindow = .milliseconds(1000)
        configuration.limits.relayRateGrace = .milliseconds(100)
    }

    @Test(
        "A relayed upload stops, while the broker buffers or streams it → 408 (SEC-105)", .timeLimit(.minutes(1)),
        arguments: [100, 100_000])
    func stoppedBody(length: Int) async throws {
        try await run(Self.impatient) { _, port, token, _ in
            let answer = try await RawClient(port: port).exchange(
                Self.get("/sink", token, method: "POST", more: "Content-Length: \(length)\r\n") + "slow")
            #expect(answer.hasPrefix("HTTP/1.1 408 "), "\(answer)")
            #expect(answer.contains("\r\nConnection: close\r\n") || answer.contains("\r\nconnection: close\r\n"))
        }
    }

    @Test("A relayed upload is always slower than the lowest allowed rate → 408 (SEC-105)", .timeLimit(.minutes(1)))
    func slowBody() async throws {
        try await run(Self.impatient) { _, port, token, _ in
            let client = RawClient(port: port)
            let answer = try await client.trickle(
                Self.get("/sink", token, method: "POST", more: "Content-Length: 60000\r\n"), every: .milliseconds(50))
            #expect(answer.hasPrefix("HTTP/1.1 408 "), "\(answer)")
        }
    }

    @Test(
        "A relayed upload is fast enough, but endless → 408 at the upload's deadline (SEC-105)", .timeLimit(.minutes(1))
    )
    func longBody() async throws {
        try await run({ configuration in
            configuration.limits.relayMinimumRate = 1
            configuration.limits.relayUploadDeadline = .milliseconds(500)
            configuration.limits.relayRateWindow = .milliseconds(1000)
        }) { _, port, token, _ in
            let client = RawClient(port: port)
            let answer = try await client.trickle(
                Self.get("/sink", token, method: "POST", more: "Content-Length: 60000\r\n"), every: .milliseconds(20))
            #expect(answer.hasPrefix("HTTP/1.1 408 "), "\(answer)")
        }
    }

    @Test("A client hangs up during a relayed answer → the upstream's call is cancelled (SEC-81)")
    func clientGone() async throws {
        try await run { _, port, token, seen in
            _ = try await RawClient(port: port).answer(to: Self.get("/endless", token)) {
                $0.contains("chunkchunk") || $0.contains("chunk\r\n")
            }
            try await eventually("the upstream has seen the end") { !seen.all.isEmpty }
            #expect(seen.all == ["ended"])
        }
    }

    @Test("A client hangs up before its relayed answer → the log has status 499, and no failure of the broker")
    func clientGoneEarly() async throws {
        try await run({ $0.limits.connection.halfClosed = .milliseconds(200) }) { harness, port, token, seen in
            let client = Task { try await RawClient(port: port).exchange(Self.get("/silent", token)) }
            try await eventually("the upstream has received the call") { !seen.all.isEmpty }
            client.cancel()
            try await eventually("the request is logged") { !harness.records.all.isEmpty }
            #expect(harness.records.all.map(\.status) == [499])
            seen.add("enough")
        }
    }

    @Test("A relayed call fails → only its own log record names the upstream")
    func failedCallee() async throws {
        var harness = try HTTPHarness()
        let name = UpstreamName(unchecked: "shop")
        let upstream = try UpstreamSettings(
            name: name, baseURL: "http://127.0.0.1:1", provider: ProviderName(unchecked: "as"), allow: ["ANY /**"])
        harness.relay = Relay(upstreams: [upstream])
        let signedIn = try await harness.signIn()
        #expect(try await harness.send(.get, "/v1/relay/shop/x", harness.cookie(signedIn)).status == 502)
        #expect(harness.records.all.last?.failed == FailedCallee(upstream: name, target: nil))
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(signedIn)).status == 200)
        #expect(harness.records.all.last?.failed == nil)
    }
}
