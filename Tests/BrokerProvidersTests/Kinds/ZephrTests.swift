import Broker
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Providers of kind zephr", .timeLimit(.minutes(2)))
struct ZephrTests {
    func settings(_ base: String, _ change: (inout ZephrSettings) -> Void = { _ in }) -> ProviderSettings {
        var own = ZephrSettings(
            baseURL: EndpointURL(base), socialProviders: ["google", "apple"],
            requiredAttributes: [RegistrationField(name: "first-name", type: .string, required: true)])
        change(&own)
        return ProviderSettings(
            name: ProviderName(unchecked: "zephr"), service: .zephr(own),
            clients: [
                ClientSettings(
                    profile: Support.profile(redirects: ["my-app:/oauthRedirect"], nonce: false) {
                        $0.platform = "ios"
                    },
                    clientID: "")
            ])
    }

    func with<Result>(
        _ settings: ProviderSettings, _ body: (any PartialRegistering) async throws -> Result
    ) async throws -> Result {
        try await Support.with(settings) { try await body(try #require($0 as? any PartialRegistering)) }
    }

    func start(_ client: any PartialRegistering, _ provider: String?) async throws -> String {
        try await client.startAuthorization(
            AuthorizationRequest(
                client: Support.ios, redirectURI: try #require(RedirectURI("my-app:/oauthRedirect")),
                state: Secret("s"),
                nonce: nil, codeChallenge: nil, scope: [], socialProvider: provider), by: Support.deadline
        ).url.reveal()
    }

    func request(
        _ key: String = "e42a", _ attributes: [(name: String, value: JSONValue)] = [("first-name", .string("Ana"))],
        identifier: String? = "ana@example.org"
    ) -> RegistrationRequest {
        RegistrationRequest(client: Support.ios, stateKey: Secret(key), attributes: attributes, identifier: identifier)
    }

    @Test("A Zephr login starts → the URL is the site's, for the platform and the social provider")
    func startURL() async throws {
        try await with(settings("https://news.example.org")) { client in
            let url = try await start(client, "google")
            #expect(url == "https://news.example.org/blaize/oauth/google?client_type=ios")
        }
        let custom = settings("https://news.example.org") {
            $0.startPaths = ["ios": "/zephr/oauth/{provider}/ios"]
            $0.clientTypes = [:]
            $0.startParameters = [("target_url", "/x y")]
        }
        try await with(custom) { client in
            let url = try await start(client, "apple")
            #expect(url == "https://news.example.org/zephr/oauth/apple/ios?target_url=%2Fx%20y")
        }
    }

    @Test(
        "A Zephr login names no social provider, or one that is not configured → the login does not start",
        arguments: ["facebook", "../account", "", nil] as [String?])
    func unknownSocial(_ name: String?) async throws {
        try await with(settings("https://news.example.org")) { client in
            guard case .unusable = await Support.failure({ try await start(client, name) }) else {
                return #expect(Bool(false))
            }
        }
    }

    @Test(
        "Zephr with `start: fetch` → the login's URL is the answer's Location or JSON member; no usable URL → unusable")
    func fetchedStart() async throws {
        for (mode, expected) in [("redirect", true), ("json", true)] {
            try await withSandbox { sandbox in
                sandbox.control.set(settings: ["start_mode": .string(mode)], of: "zephr")
                try await with(settings(sandbox.baseURL + "/zephr") { $0.start = .fetch }) { client in
                    let url = try await start(client, "google")
                    #expect(url.hasPrefix(sandbox.baseURL + "/zephr/social/google?") == expected)
                }
            }
        }
        for reply in [
            RawServer.Reply.http(302, [("Location", "javascript:alert(1)")], []), .http(302, [], []), .json("{}"),
            .json(#"{"location":"http://evil.example/"}"#), .http(404, [], []), .http(200, [], Array("<html>".utf8)),
        ] {
            let server = try RawServer { _ in reply }
            try await with(settings(server.base) { $0.start = .fetch }) { client in
                guard case .unusable = await Support.failure({ try await start(client, "google") }) else {
                    return #expect(Bool(false))
                }
            }
        }
    }

    @Test(
        "A Zephr session that is dead, anonymous or without an e-mail address → rejected",
        arguments: [
            RawServer.Reply.http(401, [], []), .http(404, [], []), .json("{}"),
            .json(#"{"identifiers":{"email_address":""}}"#),
            .json(#"{"identifiers":{},"tracking_id":"t"}"#),
        ])
    func deadSessions(_ reply: RawServer.Reply) async throws {
        let server = try RawServer { _ in reply }
        try await with(settings(server.base)) { client in
            guard
                case .rejected = await Support.failure({
                    try await client.account(of: Secret("0b9d"), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
        }
        #expect(server.received.first?.header("Cookie") == "blaize_session=0b9d")
    }

    @Test(
        "The sandbox's Zephr account has no e-mail address → the sign-in is rejected; has an address → accepted",
        arguments: ["", "account-no-email"])
    func noAddress(_ fault: String) async throws {
        try await withSandbox { sandbox in
            if !fault.isEmpty { try sandbox.control.place(Fault(provider: "zephr", fault)) }
            try await with(settings(sandbox.baseURL + "/zephr")) { client in
                let url = Secret(try await start(client, "google"))
                let callback = try FormPairs(
                    parsing: try await Browser.land(url).split(separator: "?").last.map(String.init) ?? "")
                let session = Secret(try #require(callback["session_id"]))
                let failure = await Support.failure { try await client.account(of: session, by: Support.deadline) }
                guard !fault.isEmpty else { return #expect(failure == nil) }
                guard case .rejected = failure else { return #expect(Bool(false), "\(String(describing: failure))") }
            }
        }
    }

    @Test(
        "A Zephr session id with characters that a Cookie field cannot hold → never sent (SEC-78)",
        arguments: ["", "a;b=1", "a b", "a\r\nX: y", "ü", String(repeating: "a", count: 4097)])
    func hostileSession(_ id: String) async throws {
        let server = try RawServer { _ in .json("{}") }
        try await with(settings(server.base)) { client in
            guard
                case .rejected = await Support.failure({
                    try await client.account(of: Secret(id), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
            try await client.logOut(Secret(id), by: Support.deadline)
            #expect(server.received.isEmpty)
        }
    }

    @Test("Zephr answers the account call with an HTML page and status 200 → does not count as an account")
    func htmlAccount() async throws {
        let server = try RawServer { _ in .http(200, [], Array("<html></html>".utf8)) }
        try await with(settings(server.base)) { client in
            guard
                case .unusable = await Support.failure({
                    try await client.account(of: Secret("x"), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
        }
    }

    @Test(
        "Account, log-out, registration with the cookie in the body, and the probe, at the sandbox's Zephr → all succeed"
    )
    func wholeFlow() async throws {
        try await withSandbox { sandbox in
            try await with(settings(sandbox.baseURL + "/zephr")) { client in
                let known = try FormPairs(
                    parsing: try #require(
                        try await Browser.open(Secret(try await start(client, "google"))).split(separator: "?").last))
                let session = Secret(try #require(known["session_id"]))
                let identity = try await client.account(of: session, by: Support.deadline)
                #expect(identity.subject == "ana@example.org")
                try await client.logOut(session, by: Support.deadline)
                guard
                    case .rejected = await Support.failure({
                        try await client.account(of: session, by: Support.deadline)
                    })
                else {
                    return #expect(Bool(false))
                }
                try await client.logOut(session, by: Support.deadline)
                for fault in ["register-body-cookie-only", "register-header-cookie-only"] {
                    try sandbox.control.place(Fault(provider: "zephr", fault, times: 1))
                    let partial = try FormPairs(
                        parsing: try #require(
                            try await Browser.open(
                                Secret(try await start(client, "google")), user: "new-" + fault.prefix(12)
                            )
                            .split(separator: "?").last))
                    let outcome = try await client.register(
                        request(try #require(partial["state_key"])), by: Support.deadline)
                    guard case .registered(let made, _) = outcome else { return #expect(Bool(false), "\(outcome)") }
                    #expect(
                        try await client.account(of: made, by: Support.deadline).claims.contains { $0.name == "email" })
                }
            }
        }
    }

    @Test(
        "A Zephr registration form → has the configured fields; with `fields: schema` → the site's schema's fields, fetched once"
    )
    func fields() async throws {
        try await withSandbox { sandbox in
            try await with(settings(sandbox.baseURL + "/zephr")) { client in
                let fields = try await client.registrationFields()
                #expect(fields.map(\.name) == ["first-name"])
                #expect(sandbox.control.count("zephr", "schema") == 0)
            }
            try await with(settings(sandbox.baseURL + "/zephr") { $0.fields = .schema }) { client in
                let fields = try await client.registrationFields()
                #expect(fields.map(\.name) == ["first-name"])
                _ = try await client.registrationFields()
                #expect(sandbox.control.count("zephr", "schema") == 1)
            }
        }
    }

    @Test("A cookie's date is well formed → parsed; malformed → nil")
    func dates() {
        #expect(HTTPDate.parse("Tue, 02 Nov 2027 10:00:00 GMT") == WallTime(seconds: 1_825_149_600))
        #expect(HTTPDate.parse("Thu, 01-Jan-1970 00:00:00 GMT") == WallTime(seconds: 0))
        #expect(HTTPDate.parse("Tue, 29 Feb 2028 23:59:60 GMT") == WallTime(seconds: 1_835_481_600))
        for text in [
            "", "Tue", "Tue, 02 Foo 2027 10:00:00 GMT", "Tue, 32 Nov 2027 10:00:00 GMT",
            "Tue, 02 Nov 99999 10:00:00 GMT", "Tue, 02 Nov 2027 10:00 GMT", "Tue, 02 Nov 2027 10:00:00 CET",
            "Tue, 02 Nov -9223372036854775808 10:00:00 GMT",
        ] {
            #expect(HTTPDate.parse(text) == nil, "\(text)")
        }
    }

    @Test(
        "A Zephr base URL without https or with a query → the broker does not start",
        arguments: ["http://news.example.org", "news.example.org", "https://news.example.org?x=1"])
    func badBase(_ base: String) async {
        await #expect(throws: CatalogueFailure.self) { try await with(settings(base)) { _ in } }
    }
}
