import Broker
import Synchronization
import Testing

@testable import BrokerProviders

@Suite("Reading a provider's metadata", .timeLimit(.minutes(2)))
struct MetadataTests {
    @Test(
        "An issuer's URL → the well-known addresses of its metadata in both specifications (RFC 8414 section 3.1)",
        arguments: [
            (
                "https://id.example", "https://id.example/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server"
            ),
            (
                "https://id.example/", "https://id.example/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server"
            ),
            (
                "https://id.example/a/b", "https://id.example/a/b/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server/a/b"
            ),
            (
                "https://id.example/a/", "https://id.example/a/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server/a"
            ),
        ])
    func locations(_ issuer: String, _ openID: String, _ oauth: String) throws {
        let issuer = try #require(EndpointURL(issuer))
        #expect(MetadataFetcher.openIDLocation(issuer)?.text == openID)
        #expect(MetadataFetcher.oauthLocation(issuer)?.text == oauth)
    }

    private func settings(_ base: String, kind: ProviderSettings.Service = .oidc) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "p"), service: kind, issuer: base,
            clients: [
                ClientSettings(
                    profile: Support.profile(), clientID: "cid-1",
                    wire: WireSettings(identity: IdentitySettings(url: EndpointURL(base + "/me"))))
            ])
    }

    private func document(_ base: String, _ more: String = "") -> String {
        #"{"issuer":"\#(base)","authorization_endpoint":"\#(base)/authorize","token_endpoint":"\#(base)/token","jwks_uri":"\#(base)/jwks"\#(more)}"#
    }

    private func start(_ client: any ProviderClient) async throws -> AuthorizationStart {
        var flow = Flow(provider: try #require(client as? any CodeExchanging))
        flow.verifier = nil
        return try await flow.start()
    }

    /// Values of an endpoint's member in the metadata that are not URLs to call.
    private static let unusable = [
        #""http://id.example.com/x""#, #""/x""#, #""x""#, #""https://{tenant}.example.com/x""#, #""https://""#, "false",
        "true",
        "7", "{}", #"["https://a.example/x"]"#, #""javascript:alert(1)""#, #""https://u:p@id.example.com/""#,
        #""https://id.example.com/x#y""#, #"" ""#,
    ]

    @Test(
        "An authorization, token or key endpoint whose address may not be called → no sign-in starts (SEC-24)",
        arguments: unusable)
    func neededEndpoints(_ value: String) async throws {
        for member in ["authorization_endpoint", "token_endpoint", "jwks_uri"] {
            var answers = RawProvider.Answers()
            answers.metadata = [member: value]
            let provider = try RawProvider(answers)
            try await Support.with(provider.settings()) { client in
                guard case .unusable(let detail) = await Support.failure({ try await start(client) }) else {
                    return #expect(Bool(false), "\(member) \(value)")
                }
                #expect(detail == "metadata: \(member) is not a URL to call")
            }
        }
    }

    @Test("Userinfo or PAR is required, but its address may not be called → no sign-in starts (SEC-10, SEC-24)")
    func neededByConfiguration() async throws {
        var answers = RawProvider.Answers()
        answers.metadata = [
            "userinfo_endpoint": "false", "pushed_authorization_request_endpoint": #""/par""#,
        ]
        let provider = try RawProvider(answers)
        for settings in [
            provider.settings { $0.identity.source = .userinfo }, provider.settings(.oauth2),
            provider.settings { $0.pushedAuthorization = .required },
        ] {
            try await Support.with(settings) { client in
                guard case .unusable = await Support.failure({ try await start(client) }) else {
                    return #expect(Bool(false))
                }
            }
        }
        // The metadata requires pushed requests. The broker reads `true`, `"true"` and `1` alike.
        for demand in ["true", #""true""#, "1"] {
            answers.metadata["require_pushed_authorization_requests"] = demand
            let demanding = try RawProvider(answers)
            try await Support.with(demanding.settings()) { client in
                guard case .unusable = await Support.failure({ try await start(client) }) else {
                    return #expect(Bool(false), "\(demand)")
                }
            }
        }
    }

    @Test(
        "A metadata document with an empty, missing or different issuer → refused (SEC-23)",
        arguments: [#""""#, "null", #""BASE/""#, #"["BASE"]"#])
    func badIssuer(_ issuer: String) async throws {
        var answers = RawProvider.Answers()
        answers.metadata = ["issuer": issuer]
        let provider = try RawProvider(answers)
        try await Support.with(provider.settings()) { client in
            guard case .unusable = await Support.failure({ try await start(client) }) else {
                return #expect(Bool(false))
            }
        }
    }

    @Test(
        "An mTLS alias whose address may not be called → only clients with a certificate lose that endpoint (SEC-24)"
    )
    func aliases() throws {
        let url = { (text: String) in try #require(EndpointURL("https://id.example" + text)) }
        for aliases in [#"{"token_endpoint":"/t"}"#, "[]", "false", #""x""#, "7"] {
            let text =
                #"{"token_endpoint":"https://id.example/token","revocation_endpoint":"https://id.example/r","mtls_endpoint_aliases":\#(aliases)}"#
            let document = try JSONParser.parseObject(Array(text.utf8), maximumBytes: 4096)
            let known = Metadata(document: document, issuer: "https://id.example") { _ in true }
            #expect(try known.usable(.token) == url("/token"))
            let shown = known.withAliases(under: EndpointSettings())
            #expect(throws: ProviderFailure.self) { try shown.usable(.token) }
            #expect(shown.token == nil)
            #expect(try known.withAliases(under: EndpointSettings(token: url("/own"))).usable(.token) == url("/own"))
        }
        let text = #"{"token_endpoint":"https://id.example/token","mtls_endpoint_aliases":{"token_endpoint":"","x":7}}"#
        let document = try JSONParser.parseObject(Array(text.utf8), maximumBytes: 4096)
        let known = Metadata(document: document, issuer: "https://id.example") { _ in true }
        #expect(try known.withAliases(under: EndpointSettings()).usable(.token) == url("/token"))
    }

    @Test(
        "A malformed endpoint that the broker never calls → the sign-in continues",
        arguments: unusable + [#""""#, "null"])
    func uncalledEndpoints(_ value: String) async throws {
        var answers = RawProvider.Answers()
        for member in [
            "introspection_endpoint", "end_session_endpoint", "userinfo_endpoint", "revocation_endpoint",
            "registration_endpoint", "device_authorization_endpoint", "pushed_authorization_request_endpoint",
            "mtls_endpoint_aliases", "backchannel_authentication_endpoint", "check_session_iframe",
        ] { answers.metadata[member] = value }
        let provider = try RawProvider(answers)
        try await Support.with(provider.settings()) { client in _ = try await start(client) }
        #expect(try await provider.signIn().identity.subject == "u1")
        // The configuration replaces the token endpoint, so the metadata's token endpoint is never called.
        answers.metadata["token_endpoint"] = value
        let replaced = try RawProvider(answers)
        var settings = replaced.settings()
        settings.endpoints.token = EndpointURL(replaced.server.base + "/token")
        #expect(try await replaced.signIn(settings).identity.subject == "u1")
    }

    @Test(
        "A revocation endpoint whose address may not be called → the log-out, readiness and the probe report this fault"
    )
    func revocation() async throws {
        var answers = RawProvider.Answers()
        answers.metadata = ["revocation_endpoint": #""/revoke""#]
        let provider = try RawProvider(answers)
        try await Support.with(provider.settings()) { client in
            _ = try await start(client)
            let inspected = try #require(client as? any ProviderInspection)
            #expect(inspected.warnings.count == 1)
            #expect(inspected.warnings.first?.contains("log-outs leave tokens alive") == true)
            let found = await inspected.probe()
            #expect(found.contains { $0.isDoubtful && $0.text.contains("revocation_endpoint is not a URL to call") })
            let revoker = try #require(client as? any TokenRevoking)
            let tokens = TokenSet(accessToken: Secret("at-1"))
            guard
                case .unusable(let detail) = await Support.failure({
                    try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline)
                })
            else { return #expect(Bool(false)) }
            #expect(detail == "metadata: revocation_endpoint is not a URL to call")
        }
    }

    @Test("A public issuer's metadata names an endpoint at a loopback or private address → refused (SEC-24)")
    func inwards() throws {
        let issuer = try #require(EndpointURL("https://id.example.com"))
        for host in ["127.0.0.1", "[::1]", "localhost", "10.0.0.1", "169.254.169.254", "[fd00::1]"] {
            let url = try #require(EndpointURL("https://\(host)/token"))
            #expect(!MetadataFetcher.allows(url, from: issuer, allowPrivate: false), "\(host)")
            #expect(MetadataFetcher.allows(url, from: issuer, allowPrivate: true))
        }
        #expect(
            MetadataFetcher.allows(
                try #require(EndpointURL("https://login.example.net/t")), from: issuer, allowPrivate: false))
    }

    @Test("Only the RFC 8414 document has the revocation endpoint → the broker calls this endpoint")
    func secondDocument() async throws {
        let base = Mutex("")
        let server = try RawServer { request in
            let base = base.withLock { $0 }
            switch request.target {
            case "/.well-known/openid-configuration": return .json(document(base))
            case "/.well-known/oauth-authorization-server":
                return .json(document(base, #","revocation_endpoint":"\#(base)/revoke""#))
            default: return .http(200, [], [])
            }
        }
        base.withLock { $0 = server.base }
        try await Support.with(settings(server.base)) { client in
            let revoker = try #require(client as? any TokenRevoking)
            try await revoker.revoke(TokenSet(accessToken: Secret("at-1")), client: Support.ios, by: Support.deadline)
            #expect(server.received.map(\.target).last == "/revoke")
        }
    }

    @Test(
        "The openid-configuration is good, and the RFC 8414 document is an HTML page → the page is ignored",
        arguments: [200, 404, 500])
    func htmlSecond(_ status: Int) async throws {
        let base = Mutex("")
        let server = try RawServer { request in
            request.target == "/.well-known/openid-configuration"
                ? .json(document(base.withLock { $0 }))
                : .http(status, [("Content-Type", "text/html")], Array("<html>login</html>".utf8))
        }
        base.withLock { $0 = server.base }
        try await Support.with(settings(server.base)) { client in
            let start = try await start(client)
            #expect(start.issuer == IssuerExpectation(issuer: server.base, demanded: false))
        }
    }

    @Test("Both metadata documents are HTML pages → no sign-in starts")
    func htmlBoth() async throws {
        let server = try RawServer { _ in .http(200, [("Content-Type", "text/html")], Array("<html></html>".utf8)) }
        try await Support.with(settings(server.base)) { client in
            guard case .unusable = await Support.failure({ try await start(client) }) else {
                return #expect(Bool(false))
            }
        }
    }

    @Test(
        "The metadata promises `iss` in callbacks → callbacks need iss (SEC-09); 50 logins start at once → one metadata fetch"
    )
    func promised() async throws {
        let base = Mutex("")
        let server = try RawServer { _ in
            .json(
                document(
                    base.withLock { $0 },
                    #","revocation_endpoint":null,"authorization_response_iss_parameter_supported":true"#))
        }
        base.withLock { $0 = server.base }
        try await Support.with(settings(server.base, kind: .oauth2)) { client in
            try await withThrowingTaskGroup(of: IssuerExpectation.self) { group in
                for _ in 0..<50 { group.addTask { try await start(client).issuer } }
                for try await expectation in group {
                    #expect(expectation == IssuerExpectation(issuer: server.base, demanded: true))
                }
            }
            #expect(server.received.count == 1)
        }
    }

    @Test(
        "The metadata cannot be fetched → the code and the refresh token count as not sent", arguments: [500, 404, 429])
    func failingBeforeTheCall(_ status: Int) async throws {
        let server = try RawServer { _ in .http(status, [], []) }
        try await Support.with(settings(server.base)) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            guard
                case .notSent = await Support.failure({
                    try await exchanger.redeem(Support.grant(), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
            let refresher = try #require(client as? any TokenRefreshing)
            guard
                case .notSent = await Support.failure({
                    try await refresher.refresh(Support.refresh(), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
        }
    }

    @Test("Invalid or contradictory provider settings → the broker does not start")
    func contradictions() async {
        var cases: [ProviderSettings] = []
        cases.append(settings("http://id.example.com"))
        cases.append(settings("https://id.example.com?x=1"))
        var noIssuer = settings("https://id.example.com")
        noIssuer.issuer = nil
        cases.append(noIssuer)
        var badEndpoint = settings("https://id.example.com")
        badEndpoint.endpoints.revocation = "http://id.example.com/{client_id}/revoke"
        cases.append(badEndpoint)
        var reserved = settings("https://id.example.com")
        reserved.clients[0].wire.authorizationParameters = [("state", "x")]
        cases.append(reserved)
        var leeway = settings("https://id.example.com")
        leeway.clients[0].wire.idToken.leeway = .seconds(600)
        cases.append(leeway)
        var pointer = settings("https://id.example.com")
        pointer.clients[0].wire.tokenResponse.path = "authed_user"
        cases.append(pointer)
        var fixed = settings("https://id.example.com", kind: .oauth2)
        fixed.discovery = false
        cases.append(fixed)
        for settings in cases {
            await #expect(throws: CatalogueFailure.self) { try await Support.with(settings) { _ in } }
        }
    }
}
