import Broker
import BrokerTestSupport
import Testing

@testable import BrokerProviders

extension ZephrTests {
    @Test(
        "A Zephr registration → its request has exactly the expected form, with the state key as validators.token_exchange"
    )
    func registerWire() async throws {
        let server = try RawServer { _ in
            .json(
                #"{"cookie":"blaize_session=other; Path=/;","message":"ok"}"#, status: 200,
                [
                    ("Set-Cookie", "blaize_tracking_id=91ab; Path=/;"),
                    ("Set-Cookie", "blaize_session=5f2c; Expires=Tue, 02 Nov 2027 10:00:00 GMT; Path=/;"),
                ])
        }
        let clock = TestClock(WallTime(seconds: 1_800_000_000))
        try await Support.with(settings(server.base), clock: clock.waiting) { client in
            let zephr = try #require(client as? any PartialRegistering)
            let outcome = try await zephr.register(
                request("e42a", [("first-name", .string("Ana")), ("newsletter", .bool(true)), ("age", .number("41"))]),
                by: Support.deadline)
            guard case .registered(let session, let expiresAt) = outcome else { return #expect(Bool(false)) }
            #expect(session.reveal() == "5f2c")
            #expect(expiresAt == WallTime(seconds: 1_825_149_600))
        }
        let sent = try #require(server.received.first)
        #expect(sent.method == "POST" && sent.target == "/blaize/register")
        #expect(sent.header("Content-Type") == "application/json" && sent.header("Accept") == "application/json")
        #expect(sent.header("Cookie") == nil)
        #expect(
            sent.body
                == #"{"identifiers":{},"validators":{"token_exchange":"e42a"},"attributes":{"first-name":"Ana","newsletter":true,"age":41}}"#
        )
    }

    @Test(
        "Zephr's setting `identifiers` is omit or send → the register request obeys it; an attribute is missing → default sent"
    )
    func registerShapes() async throws {
        let server = try RawServer { _ in .http(400, [], []) }
        for shape in [ZephrSettings.Identifiers.omit, .send] {
            try await with(
                settings(server.base) {
                    $0.identifiers = shape
                    $0.attributeDefaults = [("country", .string("PT")), ("first-name", .string("X"))]
                }
            ) { client in _ = try await client.register(request(), by: Support.deadline) }
        }
        let attributes = #""attributes":{"first-name":"Ana","country":"PT"}}"#
        #expect(
            server.received.map(\.body) == [
                #"{"validators":{"token_exchange":"e42a"},"# + attributes,
                #"{"identifiers":{"email_address":"ana@example.org"},"validators":{"token_exchange":"e42a"},"#
                    + attributes,
            ])
    }

    @Test(
        "Zephr refuses a register call → the result depends only on the answer's status, and never on its text",
        arguments: [
            (400, "bad_attributes"), (401, "state_invalid"), (403, "email_domain_denied"), (404, "state_invalid"),
            (409, "user_exists"), (410, "state_invalid"), (429, "rate_limited"),
        ])
    func statuses(_ status: Int, _ meaning: String) async throws {
        for body in ["", "<html><title>User already exists</title></html>", #"{"message":"x"}"#] {
            let server = try RawServer { _ in .http(status, [("Retry-After", "9")], Array(body.utf8)) }
            try await with(settings(server.base)) { client in
                let outcome = try await client.register(request(), by: Support.deadline)
                let name =
                    switch outcome {
                    case .registered: "registered"
                    case .badAttributes: "bad_attributes"
                    case .userExists: "user_exists"
                    case .emailDomainDenied: "email_domain_denied"
                    case .stateInvalid: "state_invalid"
                    case .rateLimited(let wait): wait == .seconds(9) ? "rate_limited" : "no wait"
                    }
                #expect(name == meaning)
                #expect(server.received.count == 1)
            }
        }
    }

    @Test(
        "The configuration maps status 409 to state_invalid, and a register call gets 409 → the result is state_invalid"
    )
    func statusMap() async throws {
        let server = try RawServer { _ in .http(409, [], []) }
        try await with(settings(server.base) { $0.statusMap = [409: .stateInvalid] }) { client in
            guard case .stateInvalid = try await client.register(request(), by: Support.deadline) else {
                return #expect(Bool(false))
            }
        }
    }

    @Test(
        "Zephr's register answer has an unexpected status or no usable session cookie → counts as the provider's fault",
        arguments: [
            RawServer.Reply.json("{}"), .json(#"{"cookie":"blaize_tracking_id=1"}"#),
            .json(#"{"cookie":"blaize_session=; Path=/"}"#),
            .http(200, [("Set-Cookie", "blaize_session=x; Max-Age=0")], []),
            .http(201, [("Set-Cookie", "blaize_session=x")], []),
            .http(200, [("Set-Cookie", "blaize_session=a\"b")], []), .http(302, [("Location", "/")], []),
            .http(418, [], []),
            .http(200, [("Set-Cookie", "xblaize_session=1"), ("Set-Cookie", "blaize_sessions=1")], []),
        ])
    func noSession(_ reply: RawServer.Reply) async throws {
        let server = try RawServer { _ in reply }
        try await with(settings(server.base)) { client in
            let failure = await Support.failure { try await client.register(request(), by: Support.deadline) }
            guard case .unusable = failure else { return #expect(Bool(false), "\(String(describing: failure))") }
        }
    }

    @Test("Zephr answers a register call with 502 → tried later; does not answer → lost, after one call")
    func unknown() async throws {
        let broken = try RawServer { _ in .http(502, [], []) }
        let gone = try RawServer { _ in .close }
        try await with(settings(broken.base)) { client in
            guard
                case .retryable = await Support.failure({ try await client.register(request(), by: Support.deadline) })
            else {
                return #expect(Bool(false))
            }
        }
        try await with(settings(gone.base)) { client in
            guard case .lost = await Support.failure({ try await client.register(request(), by: Support.deadline) })
            else {
                return #expect(Bool(false))
            }
            #expect(gone.received.count == 1)
        }
    }
}
