import Broker
import BrokerTestSupport
import Foundation
import NIOHTTP1
import Sandbox
import Synchronization
import Testing

@testable import BrokerProviders

/// Calls with a client certificate, to a server that requires a certificate and binds its tokens to this certificate.
@Suite("Calls with a client certificate", .timeLimit(.minutes(2)))
struct MutualTLSTests {
    private static let san: JSON = [
        "auth": "tls_client_auth", "tls_client_auth_san_dns": "client.example",
        "tls_client_certificate_bound_access_tokens": true,
    ]

    private func settings(
        _ sandbox: RunningSandbox, _ authority: TestAuthority, _ identity: ClientIdentity?,
        id: String = "cid-1", auth: ClientAuthentication = .tlsClientAuth, _ constraint: SenderConstraint = .mtls,
        _ change: (inout ProviderSettings, inout WireSettings) -> Void = { _, _ in }
    ) throws -> ProviderSettings {
        let trust = try #require(TrustRoots(pem: try Files.read(authority.root)))
        var wire = WireSettings(pushedAuthorization: .required, identity: IdentitySettings(source: .userinfo))
        wire.senderConstraint = constraint
        wire.connection = ConnectionSettings(identity: identity, trust: trust)
        var profile = Support.profile()
        profile.senderConstraint = constraint
        var settings = ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oidc, issuer: sandbox.baseURL + "/oidc", clients: [])
        change(&settings, &wire)
        settings.clients = [ClientSettings(profile: profile, clientID: id, authentication: auth, wire: wire)]
        return settings
    }

    private func serving(
        _ authority: TestAuthority, _ body: (RunningSandbox) async throws -> Void
    ) async throws {
        let server = try authority.sign("server", for: "localhost")
        try await withSandbox(
            SandboxConfiguration(
                mutualTLS: MutualTLSConfiguration(
                    certificate: server.certificate, key: server.key, clientRoots: authority.root)), body)
    }

    private func refresh(_ client: OIDCClient, _ tokens: TokenSet) async throws -> TokenSet {
        try await client.refresh(
            RefreshRequest(
                client: Support.ios, refreshToken: try #require(tokens.refreshToken), accessToken: tokens.accessToken,
                idempotencyKey: String(repeating: "k", count: 43)), by: Support.deadline)
    }

    private func failure(_ body: () async throws -> some Any) async -> ProviderFailure? {
        do {
            _ = try await body()
            return nil
        } catch { return error as? ProviderFailure }
    }

    @Test(
        "A sign-in with a certificate → the broker calls the mTLS aliases, and marks the tokens as bound to the certificate"
    )
    func signsIn() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(try authority.sign("first", for: "client.example"))
        let thumbprint = identity.current.thumbprint
        try await serving(authority) { sandbox in
            sandbox.control.set(client: "cid-1", of: "oidc", Self.san)
            let client = try Support.client(settings(sandbox, authority, identity))
            #expect(client.certificate(of: Support.ios) == thumbprint)
            let (tokens, _) = try await Flow(provider: client).run()
            #expect(tokens.credential == .mtls && tokens.certificate == thumbprint && tokens.key == nil)
            let fresh = try await refresh(client, tokens)
            #expect(fresh.certificate == thumbprint && fresh.credential == .mtls)
            try await client.revoke(fresh, client: Support.ios, by: Support.deadline)
            for endpoint in ["par", "token", "userinfo", "refresh", "revoke"] {
                let calls = sandbox.control.requests(provider: "oidc", endpoint: endpoint)
                #expect(!calls.isEmpty && calls.allSatisfy { $0.certificate == thumbprint }, "\(endpoint)")
                #expect(
                    calls.allSatisfy { $0.host.hasPrefix("localhost:") }, "the call to \(endpoint) uses the mTLS alias")
                if endpoint != "userinfo" {
                    #expect(calls.allSatisfy { $0.form["client_id"] == "cid-1" && $0.form["client_secret"] == nil })
                }
            }
            for endpoint in ["discovery", "jwks"] {
                let calls = sandbox.control.requests(provider: "oidc", endpoint: endpoint)
                #expect(
                    !calls.isEmpty && calls.allSatisfy { $0.certificate == nil },
                    "the call to \(endpoint) has no client certificate")
            }
        }
    }

    @Test(
        "The configuration sets the token endpoint → this address replaces the mTLS alias, and both count as the provider's own"
    )
    func own() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(try authority.sign("first", for: "client.example"))
        try await serving(authority) { sandbox in
            let known = try await Support.client(settings(sandbox, authority, identity)).engine.metadata()
            let alias = try #require(known.aliases.token)
            let plain = try #require(EndpointURL(sandbox.baseURL + "/oidc/token"))
            #expect(alias != plain && known.token == plain, "other clients still use the plain endpoint")
            var endpoints = EndpointSettings()
            #expect(known.withAliases(under: endpoints).token == alias)
            endpoints.token = plain
            #expect(known.withAliases(under: endpoints).token == plain)
            #expect(known.withAliases(under: endpoints).authorization == known.authorization)
            #expect(known.withAliases(under: endpoints).jwks == known.jwks)
            let owner = try Support.client(settings(sandbox, authority, identity))
            for text in [alias.text, alias.text + "/", plain.text] {
                #expect(try await owner.owns(try #require(ProofAddress(text))), "\(text)")
            }
        }
    }

    @Test(
        "The server requires a certificate, but the client has none → the broker calls the plain endpoints, and PAR fails"
    )
    func without() async throws {
        let authority = try TestAuthority()
        try await serving(authority) { sandbox in
            sandbox.control.set(client: "cid-1", of: "oidc", Self.san)
            let client = try Support.client(settings(sandbox, authority, nil, auth: .none, .off))
            let failure = await failure { try await Flow(provider: client).start() }
            guard case .unusable = failure else {
                Issue.record("\(String(describing: failure))")
                return
            }
            #expect(
                sandbox.control.requests(provider: "oidc", endpoint: "par").allSatisfy { $0.certificate == nil })
        }
    }

    @Test(
        "A TLS alert refuses the certificate → the call counts as unsent, the code stays good, and the operator is notified",
        arguments: ["run out", "of another authority"])
    func refused(_ fault: String) async throws {
        let (authority, stranger) = (try TestAuthority(), try TestAuthority("stranger"))
        let good = try authority.sign("first", for: "client.example")
        let identity = try authority.identity(good)
        let told = Mutex<[String]>([])
        try await serving(authority) { sandbox in
            sandbox.control.set(client: "cid-1", of: "oidc", Self.san)
            let settings = try settings(sandbox, authority, identity)
            let client = try Support.client(settings) { _, detail in told.withLock { $0.append(detail) } }
            let flow = Flow(provider: client)
            let callback = try await flow.callback()
            let tokens = try await Flow(provider: client).run().tokens
            let calls = sandbox.control.requests().count
            let bad =
                fault == "run out"
                ? try authority.certificate(try authority.sign("bad", for: "client.example", days: -1))
                : try stranger.certificate(try stranger.sign("bad", for: "client.example"))
            #expect(identity.renew(bad))
            for failure in [
                await failure { try await flow.redeem(callback) }, await failure { try await refresh(client, tokens) },
            ] {
                guard case .notSent(let detail) = failure else {
                    Issue.record("\(String(describing: failure))")
                    continue
                }
                #expect(detail.contains(fault == "run out" ? "certificate_expired" : "unknown_ca"), "\(detail)")
            }
            #expect(told.withLock { $0.count } == 2)
            #expect(sandbox.control.requests().count == calls, "the sandbox received no request")
            #expect(
                client.breaker == .closed(failures: 0),
                "the breaker is shared with clients whose certificates may be good")
            #expect(identity.renew(try authority.certificate(good)))
            #expect(
                try await flow.redeem(callback).certificate == identity.current.thumbprint, "the code is still unused")
            _ = try await refresh(client, tokens)
        }
    }

    @Test(
        "The server answers that the certificate belongs to another client → a temporary failure, and the code stays valid"
    )
    func notTheClients() async throws {
        let authority = try TestAuthority()
        let good = try authority.sign("first", for: "client.example")
        let identity = try authority.identity(good)
        try await serving(authority) { sandbox in
            sandbox.control.set(client: "cid-1", of: "oidc", Self.san)
            let client = try Support.client(settings(sandbox, authority, identity))
            let flow = Flow(provider: client)
            let callback = try await flow.callback()
            #expect(identity.renew(try authority.certificate(try authority.sign("other", for: "other.example"))))
            let failure = await failure { try await flow.redeem(callback) }
            guard case .retryable(let status, _, _) = failure else {
                Issue.record("\(String(describing: failure))")
                return
            }
            #expect(status == 401)
            #expect(identity.renew(try authority.certificate(good)))
            _ = try await flow.redeem(callback)
        }
    }

    @Test("Two clients of one provider, or one client before and after a renewal → never share a connection")
    func pools() async throws {
        let authority = try TestAuthority()
        let first = try authority.identity(try authority.sign("first", for: "client.example"))
        let second = try authority.identity(try authority.sign("second", for: "client.example"))
        try await serving(authority) { sandbox in
            sandbox.control.set(client: "cid-1", of: "oidc", Self.san)
            sandbox.control.set(client: "cid-2", of: "oidc", Self.san)
            // All clients share one transport, as they do in a broker process.
            let http = ProviderHTTP()
            func client(_ id: String, _ identity: ClientIdentity) throws -> OIDCClient {
                try Support.client(settings(sandbox, authority, identity, id: id), http: http)
            }
            let (one, two) = (try client("cid-1", first), try client("cid-2", second))
            for _ in 0..<3 {
                _ = try await Flow(provider: one).run()
                _ = try await Flow(provider: two).run()
            }
            let shown = sandbox.control.requests(provider: "oidc", endpoint: "userinfo").compactMap(\.certificate)
            let (a, b) = (first.current.thumbprint, second.current.thumbprint)
            #expect(shown == [a, b, a, b, a, b])
            let renewed = try authority.certificate(try authority.sign("third", for: "client.example"))
            #expect(first.renew(renewed) && !first.renew(renewed))
            _ = try await Flow(provider: one).run()
            let last = sandbox.control.requests(provider: "oidc", endpoint: "userinfo").last
            #expect(last?.certificate == renewed.thumbprint)
            // Tokens that are bound to the certificate before the renewal are still used with that certificate.
            let before = try one.engine.client(Support.ios, showing: a)
            #expect(before.certificate?.thumbprint == a)
            await http.shutdown()
        }
    }

    @Test(
        "A TLS alert ends a call → the call counts as not sent; the broker showed a certificate → also reported as refused"
    )
    func alert() async throws {
        let authority = try TestAuthority()
        let certificate = try authority.certificate(try authority.sign("first", for: "client.example"))
        // The alerts `certificate_required` and `unknown_ca`.
        for alert in [116, 48] as [UInt8] {
            for isShown in [true, false] {
                let server = try AlertServer(alert)
                let http = ProviderHTTP()
                let shown = ClientConnections.Shown(
                    clients: http.clients(showing: isShown ? certificate : nil, trusting: nil),
                    certificate: isShown ? certificate : nil, trust: nil)
                let limiter = CallLimiter(limits: CallLimits(), clock: Support.clock)
                let request = ProviderRequest(
                    method: "POST", url: try #require(EndpointURL("https://127.0.0.1:\(server.port)/token")),
                    connection: .single, body: Array("code=c".utf8))
                let told = Mutex(0)
                for over in isShown ? [shown] : [shown, nil] {
                    let failure = await failure {
                        try await http.send(
                            request, over: over, limiter: limiter, internalAddresses: true, total: .seconds(20)
                        ) { _ in told.withLock { $0 += 1 } }
                    }
                    guard case .notSent = failure else {
                        Issue.record("\(String(describing: failure))")
                        continue
                    }
                }
                #expect(told.withLock { $0 } == (isShown ? 1 : 0), "\(alert)")
                #expect((limiter.breaker == .closed(failures: 0)) == isShown)
                await http.shutdown()
            }
        }
    }

    @Test(
        "A DPoP token from a call with a certificate → bound to the key only; a Bearer token → bound to the certificate"
    )
    func proof() {
        var tokens = TokenSet(credential: .dpop, accessToken: Secret("t"))
        #expect(tokens.bound(to: "x").certificate == nil && tokens.bound(to: "x").credential == .dpop)
        tokens.credential = .bearer
        #expect(tokens.bound(to: "x").credential == .mtls && tokens.bound(to: nil).credential == .bearer)
    }

    @Test(
        "A proxy's page about a missing or wrong certificate → counts as a refused certificate; any other answer → does not",
        arguments: [
            (495, "text/html", "", true), (496, "text/html", "", true),
            (400, "text/html", "<h1>400 Bad Request</h1>The SSL certificate error", true),
            (400, "text/html; charset=utf-8", "No required SSL certificate was sent", true),
            (400, "application/json", #"{"error":"invalid_grant","x":"SSL certificate"}"#, false),
            (400, "text/html", "something else", false), (200, "text/html", "SSL certificate", false),
        ])
    func pages(_ status: Int, _ type: String, _ body: String, _ isRefusal: Bool) {
        let answer = ProviderAnswer(
            status: status, headers: ["Content-Type": type], body: Array(body.utf8), fault: nil)
        #expect(CertificateRefusal.isPage(answer) == isRefusal)
    }
}

private enum Files {
    static func read(_ path: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path))) }
}

extension Support {
    /// Makes a provider client with the given transport, or with a new one.
    ///
    /// Calls `refused` each time that a server refuses the client's certificate.
    fileprivate static func client(
        _ settings: ProviderSettings, http: ProviderHTTP = ProviderHTTP(),
        refused: @escaping @Sendable (ClientName, String) -> Void = { _, _ in }
    ) throws -> OIDCClient {
        let made = try ProviderCatalogue.make(
            settings: [settings], http: http, clock: clock, random: random,
            certificateRefused: { refused($1, $2) })
        return try #require(made.first as? OIDCClient)
    }
}
