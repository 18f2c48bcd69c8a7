import Broker
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("A client's authentication and parameters at the token endpoint", .timeLimit(.minutes(2)))
struct ClientAuthenticationTests {
    private func settings(
        _ base: String, _ authentication: ClientAuthentication, clientID: String = "cid-1",
        _ change: (inout WireSettings) -> Void = { _ in }
    ) -> ProviderSettings {
        var wire = WireSettings(identity: IdentitySettings(url: EndpointURL(base + "/me"), subject: "/id"))
        change(&wire)
        return ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/authorize"), token: EndpointURL(base + "/token")),
            clients: [
                ClientSettings(
                    profile: Support.profile(nonce: false), clientID: clientID, authentication: authentication,
                    wire: wire)
            ])
    }

    private func sent(
        _ authentication: ClientAuthentication, clientID: String = "cid-1", grant: CodeGrant = Support.grant(),
        _ change: (inout WireSettings) -> Void = { _ in }
    ) async throws -> RawServer.Received {
        let server = try RawServer { _ in .json(#"{"access_token":"at-1"}"#) }
        try await Support.with(settings(server.base, authentication, clientID: clientID, change)) { client in
            _ = try await #require(client as? any CodeExchanging).redeem(grant, by: Support.deadline)
        }
        return try #require(server.received.first)
    }

    private let body =
        "grant_type=authorization_code&code=c0de-1&redirect_uri=com.example.app%3A%2Foauth2redirect&code_verifier="
        + String(repeating: "V", count: 43)

    @Test(
        "A client with `auth: none` calls the token endpoint → the client id is in the body, without an Authorization field"
    )
    func none() async throws {
        let request = try await sent(.none)
        #expect(request.body == body + "&client_id=cid-1")
        #expect(request.header("Authorization") == nil)
        #expect(request.header("Content-Type") == "application/x-www-form-urlencoded")
        #expect(request.header("Host")?.hasPrefix("127.0.0.1:") == true)
    }

    @Test(
        "A client with client_secret_post calls the token endpoint → client id and secret are only in the body (SEC-18)"
    )
    func post() async throws {
        let request = try await sent(.clientSecretPost(Secret("s&=1")))
        #expect(request.body == body + "&client_id=cid-1&client_secret=s%26%3D1")
        #expect(request.header("Authorization") == nil)
    }

    @Test(
        "A client with client_secret_basic, form-encoded or raw → id and secret are only in the Authorization field (SEC-18)"
    )
    func basic() async throws {
        let form = try await sent(.clientSecretBasic(Secret("s:c %+")), clientID: "a b")
        #expect(form.body == body)
        #expect(form.header("Authorization") == "Basic " + Base64.encode(Array("a%20b:s%3Ac%20%25%2B".utf8)))
        let raw = try await sent(.clientSecretBasic(Secret("s:c %+")), clientID: "a b") { $0.basicEncoding = .raw }
        #expect(raw.header("Authorization") == "Basic " + Base64.encode(Array("a b:s:c %+".utf8)))
    }

    @Test("A client id and secret with reserved characters, sent as form-encoded Basic → the sandbox accepts them")
    func basicReserved() async throws {
        try await withSandbox { sandbox in
            let base = sandbox.baseURL + "/oauth2"
            let settings = settings(base, .clientSecretBasic(Secret("s:cr%t +/ü&=")), clientID: "reserved: %+ü") {
                $0.identity.url = EndpointURL(base + "/api/me")
            }
            try await Support.with(settings) { client in
                var flow = Flow(provider: try #require(client as? any CodeExchanging))
                flow.nonce = nil
                let identity = try await flow.run().identity
                #expect(!identity.subject.isEmpty)
            }
        }
    }

    @Test(
        "Two calls with private_key_jwt → each assertion has the issuer as only audience, a typ, a minute and a new jti (SEC-19)"
    )
    func privateKeyJWT() async throws {
        try await withSandbox { sandbox in
            let key = sandbox.control.clientKey
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [
                    ClientSettings(
                        profile: Support.profile(), clientID: "web-jwt",
                        authentication: .privateKeyJWT(SigningKey(pem: Secret(key.pem), keyID: key.id)))
                ])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                _ = try await flow.run()
                _ = try await flow.run()
            }
            var ids: Set<String> = []
            for request in sandbox.control.requests(provider: "oidc", endpoint: "token") {
                #expect(request.header("Authorization") == nil && request.form["client_secret"] == nil)
                let parts = try #require(request.form["client_assertion"]).split(separator: ".")
                let header = try JSONParser.parseObject(try #require(Base64URL.decode(parts[0])), maximumBytes: 4096)
                let claims = try JSONParser.parseObject(try #require(Base64URL.decode(parts[1])), maximumBytes: 4096)
                #expect(header["typ"]?.string == "client-authentication+jwt" && header["kid"]?.string == key.id)
                #expect(claims["aud"] == .string(sandbox.baseURL + "/oidc"))
                #expect(claims["iss"]?.string == "web-jwt" && claims["sub"]?.string == "web-jwt")
                let life = try #require(claims["exp"]?.integer) - #require(claims["iat"]?.integer)
                #expect(life == 60)
                ids.insert(try #require(claims["jti"]?.string))
            }
            #expect(ids.count == 2)
        }
    }

    @Test(
        "The key file of private_key_jwt is empty or has a malformed key → the broker does not start",
        arguments: ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"])
    func badKey(_ pem: String) async {
        await #expect(throws: (any Error).self) {
            try await Support.with(settings("http://127.0.0.1:1", .privateKeyJWT(SigningKey(pem: Secret(pem))))) { _ in
            }
        }
    }

    @Test(
        "private_key_jwt with an RSA key → the assertion has the configured algorithm",
        arguments: [SignatureAlgorithm.rs256, .ps256])
    func rsa(_ algorithm: SignatureAlgorithm) async throws {
        let request = try await sent(.privateKeyJWT(SigningKey(pem: Secret(TestKeys.rsaPEM), algorithm: algorithm)))
        let assertion = try #require(FormPairs(parsing: request.body)["client_assertion"])
        let header = try JSONParser.parseObject(
            try #require(Base64URL.decode(assertion.split(separator: ".")[0])), maximumBytes: 4096)
        #expect(header["alg"]?.string == algorithm.rawValue)
    }

    private static let bothNames = ["EdDSA", "ES256", "Ed25519"]

    @Test(
        "The metadata lists EdDSA, Ed25519 or both → assertions have a listed name; has no list → the configured name (RFC 9864)",
        arguments: [
            (["EdDSA", "ES256"], "Ed25519", "EdDSA"), (["ES256", "Ed25519"], "EdDSA", "Ed25519"),
            (["Ed25519"], nil, "Ed25519"), (bothNames, "EdDSA", "EdDSA"), (bothNames, "Ed25519", "Ed25519"),
            (nil, "Ed25519", "Ed25519"), (nil, nil, "EdDSA"),
        ] as [([String]?, String?, String)])
    func namesOfEd25519(_ listed: [String]?, _ configured: String?, _ expected: String) async throws {
        let key = SigningKey(
            pem: Secret(TestKeys.ed25519PEM), keyID: "ed", algorithm: .edDSA, algorithmName: configured)
        let header = try await withSandbox { sandbox in
            let names = listed.map { JSON.array($0.map { .string($0) }) } ?? .null
            sandbox.control.set(
                settings: ["discovery": ["token_endpoint_auth_signing_alg_values_supported": names]], of: "oidc")
            sandbox.control.set(
                client: "ed", of: "oidc",
                ["auth": "private_key_jwt", "jwks": ["keys": [try JSON.parse(Array(TestKeys.ed25519JWK.utf8))]]])
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [
                    ClientSettings(profile: Support.profile(), clientID: "ed", authentication: .privateKeyJWT(key))
                ])
            try await Support.with(settings) { client in
                _ = try await Flow(provider: try #require(client as? any CodeExchanging)).run()
            }
            let request = try #require(sandbox.control.requests(provider: "oidc", endpoint: "token").last)
            let header = try #require(request.form["client_assertion"]).split(separator: ".")[0]
            return try JSONParser.parseObject(try #require(Base64URL.decode(header)), maximumBytes: 4096)
        }
        #expect(header["alg"]?.string == expected && header["kid"]?.string == "ed")
    }

    @Test(
        "An Ed25519 key, and the metadata is missing or lists neither name of Ed25519 → the assertion has the configured name"
    )
    func configuredName() async throws {
        for (configured, expected) in [("Ed25519", "Ed25519"), ("EdDSA", "EdDSA"), (nil, "EdDSA")] {
            let key = SigningKey(pem: Secret(TestKeys.ed25519PEM), algorithm: .edDSA, algorithmName: configured)
            #expect(try assertion(try await sent(.privateKeyJWT(key))).header["alg"]?.string == expected)
            for listed in [["ES256"], [], ["ed25519", "EDDSA"]] {
                #expect(SignatureAlgorithm.edDSA.name(listed: listed, configured: configured) == expected)
            }
        }
        // Only Ed25519 has a second name. For other algorithms, the metadata's list changes nothing.
        #expect(SignatureAlgorithm.es256.name(listed: ["Ed25519", "EdDSA"], configured: "ES256") == "ES256")
    }

    @Test("A code from a native SDK → redeemed with an empty redirect URI (Google) or without one (Apple)")
    func nativeCodes() async throws {
        let google = try await sent(.none, grant: Support.grant("4/x", redirect: .empty, verifier: nil))
        #expect(google.body == "grant_type=authorization_code&code=4%2Fx&redirect_uri=&client_id=cid-1")
        let apple = try await sent(.none, grant: Support.grant("c", redirect: .omitted, verifier: nil))
        #expect(apple.body == "grant_type=authorization_code&code=c&client_id=cid-1")
    }

    @Test(
        "The configuration renames, omits or adds parameters and headers, or chooses JSON → the request is sent accordingly"
    )
    func shapes() async throws {
        let request = try await sent(.none) {
            $0.tokenRequest = TokenRequestSettings(
                encoding: .json, omit: ["grant_type"],
                rename: ["client_id": "client_key", "redirect_uri": "redirect_url"],
                parameters: [("expires_in", "60")], headers: [("Notion-Version", "2022-06-28"), ("User-Agent", "Acme")])
        }
        #expect(
            request.body
                == #"{"code":"c0de-1","redirect_url":"com.example.app:/oauth2redirect","code_verifier":"\#(String(repeating: "V", count: 43))","client_key":"cid-1","expires_in":"60"}"#
        )
        #expect(request.header("Notion-Version") == "2022-06-28" && request.header("User-Agent") == "Acme")
        #expect(request.header("X-Idempotency-Key") == nil)
    }

    @Test(
        "The granted scope lacks a required scope → the tokens are refused, and kept so that they can be revoked (SEC-20)"
    )
    func requiredScope() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-1","scope":"email"}"#) }
        try await Support.with(settings(server.base, .none) { $0.requiredScope = ["repo"] }) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let tokens = try await exchanger.redeem(Support.grant(), by: Support.deadline)
            #expect(tokens.refusal?.contains("required scope") == true && tokens.accessToken.reveal() == "at-1")
        }
    }

    @Test("A token answer without a scope, for a client with a required scope → the tokens are refused (SEC-20)")
    func assumedScope() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-1"}"#) }
        try await Support.with(settings(server.base, .none) { $0.requiredScope = ["openid"] }) { client in
            let tokens = try await #require(client as? any CodeExchanging).redeem(Support.grant(), by: Support.deadline)
            #expect(tokens.refusal != nil)
        }
    }

    @Test(
        "A token answer is unusable but contains tokens → the tokens are kept so that they can be revoked",
        arguments: [
            #"{"access_token":"at-1","token_type":"DPoP","refresh_token":"rt-1"}"#,
            #"{"access_token":"a\nb","refresh_token":"rt-1"}"#, #"{"access_token":"at-1","id_token":"\u0000"}"#,
        ])
    func unusable(_ answer: String) async throws {
        let server = try RawServer { _ in .json(answer) }
        try await Support.with(settings(server.base, .none)) { client in
            let tokens = try await #require(client as? any CodeExchanging).redeem(Support.grant(), by: Support.deadline)
            #expect(tokens.refusal != nil)
            #expect(["at-1", ""].contains(tokens.accessToken.reveal()))
        }
    }

    private func assertion(_ request: RawServer.Received) throws -> (header: JSONObject, claims: JSONObject) {
        let parts = try #require(FormPairs(parsing: request.body)["client_assertion"]).split(separator: ".")
        return (
            try JSONParser.parseObject(try #require(Base64URL.decode(parts[0])), maximumBytes: 4096),
            try JSONParser.parseObject(try #require(Base64URL.decode(parts[1])), maximumBytes: 4096)
        )
    }

    @Test(
        "A client with client_secret_jwt → its assertion is signed with the secret (HS256), and the secret is not sent")
    func secretJWT() async throws {
        let secret = String(repeating: "s3cret-", count: 6)
        let request = try await sent(.clientSecretJWT(Secret(secret)))
        let (header, claims) = try assertion(request)
        #expect(header["alg"]?.string == "HS256" && header["kid"] == nil)
        #expect(claims["iss"]?.string == "cid-1" && claims["sub"]?.string == "cid-1" && claims["jti"] != nil)
        #expect(!request.body.contains("s3cret") && request.header("Authorization") == nil)
        try await withSandbox { sandbox in
            sandbox.control.set(
                client: "jwt", of: "oidc", ["secret": .string(secret), "auth": "client_secret_jwt"])
            for (given, good) in [(secret, true), (secret + "x", false)] {
                let settings = ProviderSettings(
                    name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                    clients: [
                        ClientSettings(
                            profile: Support.profile(), clientID: "jwt", authentication: .clientSecretJWT(Secret(given))
                        )
                    ])
                try await Support.with(settings) { client in
                    let flow = Flow(provider: try #require(client as? any CodeExchanging))
                    #expect((await Support.failure { try await flow.run() } == nil) == good)
                }
            }
        }
    }

    @Test("Settings for the assertion's audience, type and key header → the assertion has these values (for Microsoft)")
    func dialects() async throws {
        let key = SigningKey(pem: Secret(TestKeys.rsaPEM), keyID: "kid-1", algorithm: .ps256)
        let server = try RawServer { _ in .json(#"{"access_token":"at-1"}"#) }
        for (settings, audience, thumbprint) in [
            (AssertionSettings(audience: .tokenEndpoint, type: "JWT"), server.base + "/token", nil),
            (AssertionSettings(audience: .url("https://as.example/x")), "https://as.example/x", nil),
            (
                AssertionSettings(
                    audience: .tokenEndpoint, type: "JWT", keyHeader: .thumbprint, thumbprint: "thumb"),
                server.base + "/token", "thumb"
            ),
        ] as [(AssertionSettings, String, String?)] {
            try await Support.with(self.settings(server.base, .privateKeyJWT(key)) { $0.assertion = settings }) {
                _ = try await #require($0 as? any CodeExchanging).redeem(Support.grant(), by: Support.deadline)
            }
            let (header, claims) = try assertion(try #require(server.received.last))
            #expect(claims["aud"]?.string == audience && header["typ"]?.string == settings.type)
            #expect(header["x5t#S256"]?.string == thumbprint)
            #expect(header["kid"]?.string == (thumbprint == nil ? "kid-1" : nil))
        }
        let preset = try #require(Presets.named("microsoft"))
        #expect(
            preset.wire.assertion == AssertionSettings(audience: .tokenEndpoint, type: "JWT", keyHeader: .thumbprint)
                && preset.assertionAlgorithm == .ps256)
    }
}
