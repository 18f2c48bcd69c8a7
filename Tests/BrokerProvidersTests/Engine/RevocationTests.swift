import Broker
import Synchronization
import Testing

@testable import BrokerProviders

@Suite("Revoking tokens at the provider", .timeLimit(.minutes(2)))
struct RevocationTests {
    private func settings(_ base: String, _ revocation: RevocationSettings = RevocationSettings()) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/authorize"), token: EndpointURL(base + "/token"),
                revocation: base + "/revoke"),
            clients: [
                ClientSettings(
                    profile: Support.profile(), clientID: "cid-1",
                    wire: WireSettings(
                        revocation: revocation, identity: IdentitySettings(url: EndpointURL(base + "/me"))))
            ])
    }

    private let tokens = TokenSet(accessToken: Secret("at-1"), refreshToken: Secret("rt-1"))

    private func revoke(_ server: RawServer, _ revocation: RevocationSettings = RevocationSettings()) async throws
        -> ProviderFailure?
    {
        try await Support.with(settings(server.base, revocation)) { client in
            let revoker = try #require(client as? any TokenRevoking)
            return await Support.failure { try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline) }
        }
    }

    @Test(
        "A token pair is revoked → first the refresh token, then the access token, each with its hint and the client id (SEC-63)"
    )
    func order() async throws {
        let server = try RawServer { _ in .http(200, [], []) }
        #expect(try await revoke(server) == nil)
        #expect(
            server.received.map(\.body) == [
                "token=rt-1&token_type_hint=refresh_token&client_id=cid-1",
                "token=at-1&token_type_hint=access_token&client_id=cid-1",
            ])
    }

    @Test(
        "A refresh token's revocation is refused → the access token is revoked next; this second call gets 503 → tried later"
    )
    func both() async throws {
        let server = try RawServer { request in
            request.body.contains("rt-1") ? .json(#"{"error":"invalid_request"}"#, status: 400) : .http(200, [], [])
        }
        guard case .rejected = try await revoke(server) else { return #expect(Bool(false)) }
        #expect(server.received.map { $0.body.contains("at-1") } == [false, true])
        let later = try RawServer { request in
            request.body.contains("rt-1") ? .json(#"{"error":"invalid_request"}"#, status: 400) : .http(503, [], [])
        }
        guard case .retryable = try await revoke(later) else { return #expect(Bool(false)) }
    }

    @Test(
        "The metadata lists methods for the revocation endpoint alone → the call uses that list (Canaille accepts only Basic)",
        arguments: [
            (#"["client_secret_basic"]"#, true), (#"["client_secret_post"]"#, false), (#"["private_key_jwt"]"#, false),
            ("[]", false),
        ])
    func listedMethod(_ methods: String, _ isBasic: Bool) async throws {
        let base = Mutex("")
        let server = try RawServer { request in
            guard request.method == "GET" else { return .http(200, [], []) }
            let base = base.withLock { $0 }
            return .json(
                #"{"issuer":"\#(base)","authorization_endpoint":"\#(base)/a","token_endpoint":"\#(base)/token","jwks_uri":"\#(base)/j","revocation_endpoint":"\#(base)/revoke","revocation_endpoint_auth_methods_supported":\#(methods)}"#
            )
        }
        base.withLock { $0 = server.base }
        let settings = ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oidc, issuer: server.base,
            clients: [
                ClientSettings(
                    profile: Support.profile(), clientID: "cid-1", authentication: .clientSecretPost(Secret("s-1")))
            ])
        try await Support.with(settings) { client in
            try await #require(client as? any TokenRevoking).revoke(tokens, client: Support.ios, by: Support.deadline)
        }
        let sent = try #require(server.received.last)
        #expect((sent.header("Authorization") != nil) == isBasic)
        #expect(sent.body.contains("client_secret=s-1") != isBasic)
    }

    @Test(
        "A revocation is answered with 503 or not at all → tried later; refused with an OAuth error → reported (SEC-63)"
    )
    func failures() async throws {
        guard case .retryable = try await revoke(try RawServer { _ in .http(503, [], []) }) else {
            return #expect(Bool(false))
        }
        guard case .lost = try await revoke(try RawServer { _ in .close }) else { return #expect(Bool(false)) }
        let refusing = try RawServer { _ in .json(#"{"error":"invalid_client"}"#, status: 401) }
        guard case .rejected(let error) = try await revoke(refusing) else { return #expect(Bool(false)) }
        #expect(error.code == "invalid_client")
    }

    @Test(
        "A provider answers a revocation that it does not know the token → the token counts as revoked",
        arguments: ["invalid_token", "unsupported_token_type"])
    func unknown(_ code: String) async throws {
        #expect(try await revoke(try RawServer { _ in .json(#"{"error":"\#(code)"}"#, status: 400) }) == nil)
    }

    @Test(
        "bearerFallback is set, and a public client's revocation gets 401 → one more call, with the access token as Bearer"
    )
    func bearerFallback() async throws {
        let server = try RawServer {
            $0.header("Authorization") == "Bearer at-1" ? .http(200, [], []) : .http(401, [], [])
        }
        #expect(try await revoke(server, RevocationSettings(hint: false, bearerFallback: true)) == nil)
        #expect(
            server.received.map(\.body) == [
                "token=rt-1&client_id=cid-1", "token=rt-1", "token=at-1&client_id=cid-1", "token=at-1",
            ])
    }

    @Test(
        "A token bound to a certificate, or of a client with sender_constrained → no revocation with the token as Bearer"
    )
    func bound() async throws {
        for (constraint, certificate, calls) in [
            (SenderConstraint.off, nil, 1), (.off, "x", 0), (.dpop, nil, 0), (.mtls, nil, 0),
        ] as [(SenderConstraint, String?, Int)] {
            let server = try RawServer { _ in .http(200, [], []) }
            var settings = settings(server.base, RevocationSettings(style: .bearerPost))
            settings.clients = settings.clients.map { client in
                var client = client
                client.profile.senderConstraint = constraint
                return client
            }
            var tokens = tokens
            tokens.certificate = certificate
            let failure = try await Support.with(settings) { [tokens] client in
                let revoker = try #require(client as? any TokenRevoking)
                return await Support.failure {
                    try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline)
                }
            }
            #expect(failure == nil && server.received.count == calls, "\(constraint)")
        }
    }

    @Test("A client has no revocation endpoint, or the revocation style `none` → no revocation call")
    func nothing() async throws {
        let server = try RawServer { _ in .http(200, [], []) }
        #expect(try await revoke(server, RevocationSettings(style: .none)) == nil)
        var settings = settings(server.base)
        settings.endpoints.revocation = nil
        try await Support.with(settings) {
            try await #require($0 as? any TokenRevoking).revoke(tokens, client: Support.ios, by: Support.deadline)
        }
        #expect(server.received.isEmpty)
    }
}
