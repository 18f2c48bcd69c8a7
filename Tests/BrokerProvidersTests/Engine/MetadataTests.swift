import Broker
import Synchronization
import Testing

@testable import BrokerProviders

@Suite("Metadata", .timeLimit(.minutes(2)))
struct MetadataTests {
    @Test(
        "The well-known places follow both specifications (RFC 8414 section 3.1)",
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

    @Test(
        "An endpoint that is not https, or no text, refuses the document (SEC-24)",
        arguments: [
            #""token_endpoint":"http://id.example.com/token""#, #""authorization_endpoint":"javascript:alert(1)""#,
            #""jwks_uri":7"#, #""userinfo_endpoint":"https://u:p@id.example.com/""#,
            #""revocation_endpoint":["https://a.example"]"#,
        ])
    func badEndpoints(_ member: String) async throws {
        let base = Mutex("")
        let server = try RawServer { _ in .json(#"{"issuer":"\#(base.withLock { $0 })",\#(member)}"#) }
        base.withLock { $0 = server.base }
        try await Support.with(settings(server.base)) { client in
            guard case .unusable = await Support.failure({ try await start(client) }) else {
                return #expect(Bool(false))
            }
        }
    }

    @Test("A public issuer cannot point at loopback or a private address (SEC-24)")
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

    @Test("Revocation is found where only the RFC 8414 document names it")
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

    @Test("An HTML page instead of the second document does no harm", arguments: [200, 404, 500])
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

    @Test("An HTML page instead of both documents starts nothing")
    func htmlBoth() async throws {
        let server = try RawServer { _ in .http(200, [("Content-Type", "text/html")], Array("<html></html>".utf8)) }
        try await Support.with(settings(server.base)) { client in
            guard case .unusable = await Support.failure({ try await start(client) }) else {
                return #expect(Bool(false))
            }
        }
    }

    @Test("A promised iss is demanded (SEC-09), and fifty starts at once fetch the metadata once")
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

    @Test("When metadata fails, a code is surely not sent", arguments: [500, 404, 429])
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

    @Test("Settings that contradict themselves refuse to start")
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
