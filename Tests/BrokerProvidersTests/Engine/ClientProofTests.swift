import Broker
import Synchronization
import Testing

@testable import BrokerProviders

/// The method that a client uses to authenticate at each endpoint, if the server's metadata lists a wrong method.
@Suite("A client's authentication at each endpoint", .timeLimit(.minutes(2)))
struct ClientProofTests {
    /// A server whose metadata lists the given authentication methods.
    ///
    /// `takes` answers each POST.
    private func server(
        _ listed: String, revocation: String? = nil,
        takes: @escaping @Sendable (RawServer.Received) -> RawServer.Reply
    ) throws -> RawServer {
        let base = Mutex("")
        let server = try RawServer { request in
            guard request.method == "GET" else { return takes(request) }
            let base = base.withLock { $0 }
            return .json(
                #"{"issuer":"\#(base)","authorization_endpoint":"\#(base)/authorize","token_endpoint":"\#(base)/token","jwks_uri":"\#(base)/jwks","revocation_endpoint":"\#(base)/revoke","pushed_authorization_request_endpoint":"\#(base)/par","token_endpoint_auth_methods_supported":\#(listed),"revocation_endpoint_auth_methods_supported":\#(revocation ?? listed)}"#
            )
        }
        base.withLock { $0 = server.base }
        return server
    }

    private func settings(
        _ server: RawServer, _ authentication: ClientAuthentication = .clientSecretPost(Secret("s-1")),
        _ change: (inout ClientSettings) -> Void = { _ in }
    ) -> ProviderSettings {
        var client = ClientSettings(
            profile: Support.profile(), clientID: "cid-1", authentication: authentication)
        change(&client)
        return ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2, issuer: server.base, clients: [client])
    }

    private static let refused = RawServer.Reply.json(#"{"error":"invalid_client"}"#, status: 401)

    /// The authentication method of each POST: `basic`, `post`, or `other` without the client's secret.
    private func ways(_ server: RawServer) -> [String] {
        server.received.filter { $0.method == "POST" }.map {
            $0.header("Authorization") != nil ? "basic" : $0.body.contains("client_secret=s-1") ? "post" : "other"
        }
    }

    private func revoke(_ client: any ProviderClient, _ token: String = "rt-1") async -> ProviderFailure? {
        guard let revoker = client as? any TokenRevoking else {
            Issue.record("the client cannot revoke tokens")
            return nil
        }
        let tokens = TokenSet(accessToken: Secret(""), refreshToken: Secret(token))
        return await Support.failure { try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline) }
    }

    @Test(
        "A revocation is refused as invalid_client → one more call, with the other authentication method; otherwise → none"
    )
    func refusedBoth() async throws {
        let server = try server(#"["client_secret_basic"]"#) { _ in Self.refused }
        try await Support.with(settings(server)) { client in
            guard case .rejected = await revoke(client) else { return #expect(Bool(false)) }
            #expect(ways(server) == ["basic", "post"])
        }
        for status in [400, 403, 404, 429, 500, 503] {
            let other = try self.server(#"["client_secret_basic"]"#) { _ in
                .json(#"{"error":"invalid_request"}"#, status: status)
            }
            try await Support.with(settings(other)) { client in
                _ = await revoke(client)
                #expect(ways(other) == ["basic"], "\(status)")
            }
        }
    }

    @Test(
        "The revocation endpoint refuses a public client or a client with a key → no second call, because it has only one method",
        arguments: [true, false])
    func oneWay(_ isPublic: Bool) async throws {
        let server = try server(#"["client_secret_basic"]"#) { _ in Self.refused }
        let key = SigningKey(pem: Secret(TestKeys.rsaPEM), algorithm: .rs256)
        try await Support.with(settings(server, isPublic ? .none : .privateKeyJWT(key))) { client in
            _ = await revoke(client)
        }
        #expect(ways(server) == ["other"])
    }

    @Test("The token endpoint refuses a client's authentication → one call, with the configured method (guarantee 1)")
    func tokenCalls() async throws {
        let server = try server(#"["client_secret_basic"]"#) { _ in Self.refused }
        try await Support.with(
            settings(server) { $0.wire.identity = IdentitySettings(url: EndpointURL(server.base + "/me")) }
        ) {
            client in
            let exchanger = try #require(client as? any CodeExchanging)
            guard
                case .rejected = await Support.failure({
                    try await exchanger.redeem(Support.grant(), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
            let refresher = try #require(client as? any TokenRefreshing)
            guard
                case .rejected = await Support.failure({
                    try await refresher.refresh(Support.refresh(), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
        }
        #expect(ways(server) == ["post", "post"])
    }

    @Test(
        "The metadata's authentication method fails at a revocation → the configured method is tried and remembered (Glewlwyd)",
        arguments: [401, 400])
    func revocation(_ status: Int) async throws {
        let server = try server(#"["client_secret_basic"]"#) { request in
            request.header("Authorization") == nil
                ? .http(200, [], []) : .json(#"{"error":"invalid_client"}"#, status: status)
        }
        try await Support.with(settings(server)) { client in
            #expect(await revoke(client) == nil)
            #expect(await revoke(client, "rt-2") == nil)
        }
        #expect(ways(server) == ["basic", "post", "post"])
        let revoked = server.received.filter { $0.body.contains("client_secret=s-1") }
        #expect(revoked.allSatisfy { $0.body.contains("token=rt-") })
    }

    @Test(
        "The revocation endpoint refuses the remembered authentication method → the other method is tried and remembered"
    )
    func changed() async throws {
        let takesBasic = Mutex(false)
        let server = try server(#"["client_secret_basic"]"#) { request in
            (request.header("Authorization") != nil) == takesBasic.withLock { $0 } ? .http(200, [], []) : Self.refused
        }
        try await Support.with(settings(server)) { client in
            #expect(await revoke(client) == nil)
            takesBasic.withLock { $0 = true }
            #expect(await revoke(client) == nil)
            #expect(await revoke(client) == nil)
        }
        #expect(ways(server) == ["basic", "post", "post", "basic", "basic"])
    }

    @Test(
        "The PAR endpoint refuses the configured authentication method → the metadata's method is tried and remembered")
    func pushed() async throws {
        let server = try server(#"["client_secret_basic"]"#) { request in
            request.header("Authorization") != nil
                ? .json(#"{"request_uri":"urn:r:1","expires_in":60}"#, status: 201) : Self.refused
        }
        let settings = settings(server) {
            $0.wire.pushedAuthorization = .required
            $0.wire.identity = IdentitySettings(url: EndpointURL(server.base + "/me"))
        }
        try await Support.with(settings) { client in
            let flow = Flow(provider: try #require(client as? any CodeExchanging))
            for _ in 0..<2 { #expect(try await flow.start().url.reveal().contains("request_uri=urn%3Ar%3A1")) }
        }
        #expect(ways(server) == ["post", "basic", "basic"])
    }

    @Test(
        "A client with `audience: endpoint` → each assertion's audience is the exact address that is called (Glewlwyd, idpyoidc)"
    )
    func audiences() async throws {
        let server = try server(#"["private_key_jwt"]"#) { request in
            switch request.target {
            case "/par": .json(#"{"request_uri":"urn:r:1","expires_in":60}"#, status: 201)
            case "/token": .json(#"{"access_token":"at-1","refresh_token":"rt-1"}"#)
            default: .http(200, [], [])
            }
        }
        let key = SigningKey(pem: Secret(TestKeys.rsaPEM), algorithm: .rs256)
        var settings = settings(server, .privateKeyJWT(key)) {
            $0.wire.pushedAuthorization = .required
            $0.wire.identity = IdentitySettings(url: EndpointURL(server.base + "/me"))
            $0.wire.assertion.audience = .endpoint
        }
        settings.endpoints.revocation = server.base + "/mtls/revoke?tenant=x"
        try await Support.with(settings) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            _ = try await Flow(provider: exchanger).start()
            _ = try await exchanger.redeem(Support.grant(), by: Support.deadline)
            _ = try await #require(client as? any TokenRefreshing).refresh(Support.refresh(), by: Support.deadline)
            #expect(await revoke(client) == nil)
        }
        let called = try server.received.filter { $0.method == "POST" }.map { request in
            let parts = try #require(FormPairs(parsing: request.body)["client_assertion"]).split(separator: ".")
            let claims = try JSONParser.parseObject(try #require(Base64URL.decode(parts[1])), maximumBytes: 4096)
            #expect(claims["aud"]?.string == server.base + request.target)
            return request.target
        }
        #expect(called == ["/par", "/token", "/token", "/mtls/revoke?tenant=x"])
    }
}
