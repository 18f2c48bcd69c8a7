import Broker
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Request bodies", .timeLimit(.minutes(2)))
struct RequestBodyTests {
    private static let long = String(repeating: "x", count: 9000)

    @Test(
        "A request's body is not exactly one JSON object → 400 (SEC-102)",
        arguments: [
            "", " ", "null", "[]", "\"x\"", "1", "{", "{}x", "{\"a\":}", "{'a':1}", "{\"a\":1,}", "{\"a\":\"\u{1}\"}",
            "{\"a\":\"\\ud800\"}", "{\"a\":01}", "{\"a\":NaN}", "\u{FEFF}{}",
            String(repeating: "{\"a\":", count: 10_000), String(repeating: "[", count: 60_000),
        ], ["/v1/logins", "/v1/sessions", "/v1/registrations"])
    func notAnObject(body: String, path: String) async throws {
        let reply = try await HTTPHarness().post(path, body)
        #expect(reply.status == 400)
        #expect(reply.code == "invalid_request")
        #expect(!reply.body.contains("\\u0001"))
    }

    /// The members of each body that these tests send with wrong values, or twice.
    private static let members: [(path: String, base: String, member: String)] = [
        ("/v1/logins", "", "provider"), ("/v1/logins", "\"provider\":\"as\",", "client"),
        ("/v1/logins", "\"provider\":\"as\",", "redirect_uri"), ("/v1/logins", "\"provider\":\"as\",", "scope"),
        ("/v1/logins", "\"provider\":\"as\",", "code_challenge"),
        (
            "/v1/logins", "\"provider\":\"as\",\"code_challenge\":\"\(String(repeating: "a", count: 43))\",",
            "code_challenge_method"
        ),
        ("/v1/logins", "\"provider\":\"as\",", "social_provider"), ("/v1/logins", "\"provider\":\"as\",", "parameters"),
        ("/v1/logins", "\"provider\":\"as\",", "login_token"),
        ("/v1/sessions", "", "callback_url"), ("/v1/sessions", "", "handoff"), ("/v1/sessions", "", "provider"),
        ("/v1/sessions", "", "client"), ("/v1/sessions", "", "code"), ("/v1/sessions", "", "redirect_uri"),
        ("/v1/sessions", "", "code_verifier"), ("/v1/sessions", "", "state"), ("/v1/sessions", "", "nonce"),
        ("/v1/sessions", "", "login_token"), ("/v1/sessions", "", "device"), ("/v1/sessions", "", "tokens"),
        ("/v1/sessions", "", "legacy"),
        ("/v1/registrations", "", "provider"), ("/v1/registrations", "\"provider\":\"as\",", "client"),
        ("/v1/registrations", "\"provider\":\"as\",", "state_key"),
        ("/v1/registrations", "\"provider\":\"as\",", "attributes"),
        ("/v1/registrations", "\"provider\":\"as\",", "login_token"),
    ]

    @Test(
        "A member of a body has a wrong type or is repeated → the answer names the member",
        arguments: members)
    func wrongTypes(path: String, base: String, member: String) async throws {
        let harness = try HTTPHarness()
        for value in [
            "1", "true", "null", "[]",
            ["parameters", "tokens", "legacy", "attributes"].contains(member) ? "\"x\"" : "{}",
        ] {
            let reply = try await harness.post(path, "{\(base)\"\(member)\":\(value)}")
            #expect(reply.status == 400)
            #expect(reply.faults.contains("/\(member) wrong_type"), "\(value): \(reply.body)")
        }
        let reply = try await harness.post(path, "{\(base)\"\(member)\":\"a\",\"\(member)\":\"b\"}")
        #expect(reply.status == 400)
        #expect(reply.faults.contains("/\(member) duplicate"), "\(reply.body)")
    }

    @Test(
        "A text member of a body is too long, empty or has forbidden characters → the answer names the member",
        arguments: members)
    func wrongTexts(path: String, base: String, member: String) async throws {
        guard !["parameters", "tokens", "legacy", "attributes"].contains(member) else { return }
        let harness = try HTTPHarness()
        for (value, codes) in [
            (Self.long, ["too_long"]), ("a\\u0000b", ["malformed", "too_short", "not_allowed"]),
            ("", ["too_short"]), ("a\\u0007", ["malformed", "too_short", "not_allowed"]),
        ] {
            let reply = try await harness.post(path, "{\(base)\"\(member)\":\"\(value)\"}")
            #expect(reply.status == 400)
            #expect(codes.contains { reply.faults.contains("/\(member) \($0)") }, "\(value.prefix(9)): \(reply.body)")
            #expect(!reply.body.contains(Self.long.prefix(100)))
        }
    }

    @Test("A body has several faults → all are named, also unknown members, and no value is repeated (SEC-107)")
    func together() async throws {
        let reply = try await HTTPHarness().post(
            "/v1/logins",
            #"{"client":7,"colour":"canary-value","scope":"a  b","parameters":{"x y":"1","z":2,"ok":"1"},"code_challenge_method":"plain","a/b~c":1}"#
        )
        #expect(reply.status == 400)
        for fault in [
            "/provider required", "/client wrong_type", "/colour unknown", "/scope malformed",
            "/parameters/x y malformed", "/parameters/z wrong_type", "/code_challenge_method not_allowed",
            "/code_challenge required", "/a~1b~0c unknown",
        ] { #expect(reply.faults.contains(fault), "\(fault) in \(reply.faults)") }
        #expect(!reply.body.contains("canary-value"))
    }

    @Test("Members of a nested object are faulty → the answer names each member by its whole JSON pointer")
    func nested() async throws {
        let reply = try await HTTPHarness().post(
            "/v1/sessions", #"{"tokens":{"access_token":1,"id_token":"","merchant_id":"a-b","x":1}}"#)
        for fault in [
            "/tokens/access_token wrong_type", "/tokens/id_token too_short", "/tokens/merchant_id malformed",
            "/tokens/x unknown",
        ] { #expect(reply.faults.contains(fault), "\(fault) in \(reply.faults)") }
    }

    @Test("A body with 256 unknown members → the answer lists 32 of them (SEC-102)")
    func manyFaults() async throws {
        let members = (0..<256).map { "\"m\($0)\":1" }.joined(separator: ",")
        let reply = try await HTTPHarness().post("/v1/logins", "{\(members)}")
        #expect(reply.status == 400)
        #expect(reply.faults.count == 32)
    }

    @Test(
        "A request has another content type than its route needs → 415, before the handler runs (SEC-45)",
        arguments: [
            "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
            "text/plain; application/json", "application/json, text/plain", "",
        ], ["/v1/logins", "/v1/sessions", "/v1/registrations"])
    func mediaTypes(type: String, path: String) async throws {
        let harness = try HTTPHarness()
        var headers = HTTPFields()
        if !type.isEmpty { headers[.contentType] = type }
        let reply = try await harness.send(.post, path, headers, body: #"{"provider":"as"}"#)
        #expect(reply.status == 415)
        #expect(reply.code == "unsupported_media_type")
    }

    @Test("A request's body is compressed → 415")
    func compressed() async throws {
        let reply = try await HTTPHarness().post("/v1/logins", "{}", [.contentEncoding: "gzip"])
        #expect(reply.status == 415)
    }

    @Test(
        "A request's body exceeds 64 KiB → 413, on each path",
        arguments: zip(
            ["/v1/logins", "/v1/sessions", "/v1/registrations", "/callback/as"],
            ["application/json", "application/json", "application/json", "application/x-www-form-urlencoded"]))
    func tooLarge(path: String, type: String) async throws {
        let reply = try await HTTPHarness().send(
            .post, path, [.contentType: type], body: String(repeating: " ", count: 65_537))
        #expect(reply.status == 413)
        #expect(reply.json?["code"]?.string == "too_large")
    }

    @Test(
        "A form has a repeated or malformed field → `invalid_request`",
        arguments: ["token=a&token=b", "token=%zz", "token=a&%00=b", "&", "token=\u{1}"])
    func forms(form: String) async throws {
        let harness = try HTTPHarness { configuration, vault in
            configuration.backends = [Backends.orders(vault)]
        }
        let reply = try await harness.form("/v1/introspect", form, Backends.proof)
        #expect(reply.status == 400)
        #expect(reply.json?["error"]?.string == "invalid_request")
    }

    @Test(
        "A client requests a list with an unknown, repeated or malformed query parameter → 400",
        arguments: ["?cursor=", "?cursor=a&cursor=b", "?limit=1", "?cursor=%ff", "?x"])
    func queries(query: String) async throws {
        let harness = try HTTPHarness()
        let signedIn = try await harness.signIn()
        let reply = try await harness.send(.get, "/v1/sessions" + query, harness.cookie(signedIn))
        #expect(reply.status == 400)
        #expect(reply.code == "invalid_request")
    }
}
