import Broker
import BrokerProviders
import Testing

@testable import coatcheck

@Suite("`profile: fapi2`: the settings that it makes, and settings that contradict it", .timeLimit(.minutes(2)))
struct FAPI2ProfileTests {
    private static let key = "private_key: {file: service-key.pem, key_id: k1}"
    private static let certificate = "tls: {certificate: example-client.pem, key: example-client.key}"

    /// An RSA key of 1,024 bits, which the profile must refuse as too short.
    private static let shortKey = """
        -----BEGIN PRIVATE KEY-----
        MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBALf8BhhQgQ/i/QbB
        kn1kcwRxaWFo6F7oGiHO4gaeXfOmUJ4Zn305NQY0PxvDqLWi+L5dNk3CVsKYRMBY
        nLTW4MrHSQ6OCzxaC2Y5bqxrBwVs4VY9J2Xo/W8KobjHAHsGhJj3j/pBmol2Gw85
        A6V5fIH0t+yAMvgUbxvpOH3PPR9jAgMBAAECgYA6oCkFCGoHuOmthHL8V8y6prTQ
        oFAjJcxl53loaIBBikZ4Cmwix97Yij9txmv07OhcKHGMV5ezzDdkHxhYG3xnNlBK
        yFo6ce1oS2gk8rpqPm3dS0TzgugeM4NRuOoS56HnwCIdam2uzCeylo58+66lcfdE
        h8syncB90Q+3FgK6eQJBAOueZbZsvV2nVuToyL3r0JkSlHaqY1/NiHkDfyWb/H1f
        0O/EwQE5G0cMYL+SiXwkjhA4X3hvwX38uqaQSMqdhW8CQQDH5jlHjcoxC0qXY6Vw
        oRjXrhpbCYKqlaWs5lQOuAP54LECC87y8NGLDarOTvMkK/EwKbV4pQoTodB9Xr0L
        d1NNAkEA4yM9llDZdJE++UlXS48q9oWszYCQb+ipaU9voQfwrcRSnPGlxdIRc7qB
        Aez30M9EjGprzqSdeSDLpoptQbX8zQJACnMsl2MAKOQwOA3LfkHNrKi7U/sBS62b
        BZjc2BAilRN77WF0phqUubIzNanG6CMr7pqfk/j8t94Dqiojs8+/GQJBAID+iJo9
        VdL+g6lMuAmeSPxN8PeWaOm/EUl8OKxO0kZGMLcO5B20XPT6qx0UhEPiNWCl6rBi
        LVOdZLhm+l+opfg=
        -----END PRIVATE KEY-----
        """

    /// A file with the provider's lines from line 6 on, then `clients:`, and the whole client in one line.
    private func file(provider: String = "kind: oidc\nissuer: https://bank.example.com\nprofile: fapi2", client: String)
        -> String
    {
        """
        server: {public_url: "https://auth.example.com"}
        keys: {file: keys.json}
        providers:
          bank:
        \(provider.split(separator: "\n").map { "    \($0)" }.joined(separator: "\n"))
            clients:
              web: {client_id: app, redirect_uris: ["https://app.example.com/cb"], \(client)}
        """
    }

    private func load(_ text: String) throws -> Configuration {
        var sources = ConfigurationFixture.sources
        sources.readFile = { [read = sources.readFile] path throws(FileFault) in
            path == "short.pem" ? Array(Self.shortKey.utf8) : try read(path)
        }
        return try Configuration.load(text: text, sources: sources)
    }

    private func errors(_ text: String) -> [String] {
        do { _ = try load(text) } catch let failure as ConfigurationFailure {
            return failure.problems.filter { $0.severity == .error }.map(\.description)
        } catch { return ["\(error)"] }
        return []
    }

    private func client(_ text: String) throws -> ClientSettings {
        try #require(try load(text).providers.first?.clients.first?.settings)
    }

    // MARK: Settings that contradict the profile

    @Test(
        "A client's setting contradicts `profile: fapi2` → refused at the setting's line",
        arguments: [
            ("auth: none", "web.auth"),
            ("auth: client_secret_basic, client_secret: zQ8vN2kLr5TwX7yB3mHd", "web.auth"),
            ("auth: client_secret_post, client_secret: zQ8vN2kLr5TwX7yB3mHd", "web.auth"),
            ("auth: client_secret_jwt, client_secret: zQ8vN2kLr5TwX7yB3mHdzQ8vN2kLr5TwX7yB3mHd", "web.auth"),
            ("client_secret: zQ8vN2kLr5TwX7yB3mHd", "web.client_secret"),
            ("apple: {team_id: T, key_id: K, key: {file: apple-key.p8}}", "web.apple"), ("scope: openid", "web"),
            ("\(key), par: off", "web.par"), ("\(key), par: optional", "web.par"),
            ("\(key), sender_constrained: off", "web.sender_constrained"),
            ("private_key: {file: service-key.pem, algorithm: RS256}", "web.private_key.algorithm"),
            ("private_key: {file: service-key.pem, algorithm: ES384}", "web.private_key.algorithm"),
            ("private_key: {file: short.pem, algorithm: PS256}", "web.private_key.file"),
            ("\(key), assertion: {audience: token_endpoint}", "web.assertion.audience"),
            ("\(key), assertion: {audience: endpoint}", "web.assertion.audience"),
            ("\(key), assertion: {audience: \"https://bank.example.com\"}", "web.assertion.audience"),
            ("\(key), id_token: {algorithms: [PS256, RS256]}", "web.id_token.algorithms"),
            ("\(key), id_token: {leeway: 61s}", "web.id_token.leeway"),
            ("\(key), token_request: {encoding: json}", "web.token_request.encoding"),
            ("\(key), token_request: {omit: [code_verifier]}", "web.token_request.omit"),
            ("\(key), token_request: {omit: [redirect_uri]}", "web.token_request.omit"),
            ("\(key), token_request: {rename: {client_assertion: assertion}}", "web.token_request.rename"),
            ("\(key), token_request: {rename: {client_id: app}}", "web.token_request.rename"),
            (
                "\(key), id_token: {issuer_template: \"https://bank.example.com/{tenantid}\"}",
                "web.id_token.issuer_template"
            ),
            ("\(key), login: app", "web.login"), ("\(key), login: both", "web.login"),
            ("\(key), native_code: true", "web.native_code"), ("\(key), import_tokens: true", "web.import_tokens"),
            ("\(key), pkce: unsupported", "web.pkce"), ("\(key), nonce: off", "web.nonce"),
            ("\(key), hand_out_access_token: true", "web.hand_out_access_token"),
        ])
    func contradictions(_ client: String, _ place: String) throws {
        let found = errors(file(client: client))
        // The client and all its settings are in line 9.
        let expected = "error: line 9: providers.bank.clients.\(place): contradicts profile fapi2: "
        #expect(found.contains { $0.hasPrefix(expected) }, "\(found)")
    }

    @Test(
        "A provider's setting contradicts its own or a client's `profile: fapi2` → refused at the setting's line",
        arguments: [
            ("par: off", "par"), ("sender_constrained: off", "sender_constrained"),
            ("assertion: {audience: token_endpoint}", "assertion.audience"),
            ("id_token: {leeway: 2m}", "id_token.leeway"),
            ("id_token: {algorithms: [RS256]}", "id_token.algorithms"),
            ("callback_issuer: https://bank.example.com/other", "callback_issuer"), ("discovery: off", "discovery"),
            ("endpoints: {token: \"https://bank.example.com/token\"}", "endpoints.token"),
            ("endpoints: {authorization: \"https://bank.example.com/a\"}", "endpoints.authorization"),
            ("endpoints: {par: \"https://bank.example.com/par\"}", "endpoints.par"),
            ("endpoints: {jwks: \"https://bank.example.com/jwks\"}", "endpoints.jwks"),
            ("endpoints: {userinfo: \"https://bank.example.com/me\"}", "endpoints.userinfo"),
            ("endpoints: {revocation: \"https://bank.example.com/revoke\"}", "endpoints.revocation"),
            ("endpoints: {refresh: \"https://bank.example.com/refresh\"}", "endpoints.refresh"),
        ])
    func onProvider(_ line: String, _ place: String) throws {
        let base = "kind: oidc\nissuer: https://bank.example.com\n\(line)"
        let words = "error: line 7: providers.bank.\(place): contradicts profile fapi2: "
        for text in [
            file(provider: base + "\nprofile: fapi2", client: Self.key),
            file(provider: base, client: "\(Self.key), profile: fapi2"),
        ] {
            #expect(errors(text).contains { $0.hasPrefix(words) }, "\(errors(text))")
        }
    }

    @Test("`profile: fapi2` on another kind than `oidc` or `oauth2`, or without the issuer's metadata → refused")
    func kinds() {
        let clever = file(
            provider: "kind: clever\nprofile: fapi2",
            client: "auth: client_secret_basic, client_secret: zQ8vN2kLr5TwX7yB3mHd")
        #expect(errors(clever).contains { $0.contains("providers.bank.kind: contradicts profile fapi2") })
        let zephr = """
            server: {public_url: "https://auth.example.com"}
            keys: {file: keys.json}
            providers:
              news:
                kind: zephr
                base_url: https://news.example.com
                profile: fapi2
                clients:
                  ios: {platform: ios, redirect_uris: ["com.example.app:/cb"]}
            """
        #expect(errors(zephr).contains { $0.contains("providers.news.kind: contradicts profile fapi2") })
        let fixed = file(provider: "preset: github\nprofile: fapi2", client: Self.key)
        #expect(errors(fixed).contains { $0.contains("providers.bank.preset: contradicts profile fapi2") })
        let plain = file(provider: "kind: oauth2\nprofile: fapi2", client: Self.key)
        #expect(errors(plain).contains { $0.contains("contradicts profile fapi2: needs `issuer`") }, "\(errors(plain))")
        #expect(errors(file(client: Self.key + ", profile: fapi1")).contains { $0.contains("web.profile: ") })
    }

    @Test(
        "A client has `profile: fapi2`, a backend `forward_access_token` → refused, because bound tokens stay with the broker"
    )
    func forwarded() {
        let text =
            file(client: Self.key)
            + "\nbackends:\n  orders: {sha256: \(String(repeating: "0a", count: 32)), may: [introspect], forward_access_token: true}"
        #expect(errors(text).contains { $0.contains("forward_access_token") }, "\(errors(text))")
    }

    // MARK: Settings that the profile makes

    @Test("`profile: fapi2` at the provider or the client → the client has all settings of the profile")
    func expansion() throws {
        for text in [
            file(client: Self.key),
            file(
                provider: "kind: oidc\nissuer: https://bank.example.com", client: "\(Self.key), profile: fapi2"),
            file(
                provider:
                    "kind: oidc\nissuer: https://bank.example.com\nprofile: fapi2\nprivate_key: {file: service-key.pem}",
                client: "scope: openid"),
        ] {
            let client = try client(text)
            #expect(client.wire.pushedAuthorization == .required)
            #expect(client.profile.pkce == .required)
            #expect(client.profile.nonce)
            #expect(client.authentication.method == "private_key_jwt")
            #expect(client.profile.senderConstraint == .dpop)
            #expect(client.wire.assertion.audience == .issuer)
            #expect(Set(client.wire.idToken.algorithms) == [.ps256, .es256, .edDSA])
            #expect(client.wire.idToken.leeway == .seconds(10))
            #expect(client.profile.demandsIssuer)
        }
        let plain = try client(
            file(provider: "kind: oidc\nissuer: https://bank.example.com", client: Self.key + ", auth: private_key_jwt")
        )
        #expect(plain.wire.pushedAuthorization == .off && plain.profile.senderConstraint == .off)
        #expect(!plain.profile.demandsIssuer && plain.wire.idToken.leeway == .seconds(60))
    }

    @Test(
        "A client with `profile: fapi2` has a key, a certificate or both → they decide its authentication and token binding",
        arguments: [
            (key, "private_key_jwt", SenderConstraint.dpop), (certificate, "tls_client_auth", .mtls),
            ("\(key), \(certificate)", "private_key_jwt", .dpop),
            ("\(key), \(certificate), sender_constrained: mtls", "private_key_jwt", .mtls),
            ("\(certificate), sender_constrained: dpop", "tls_client_auth", .dpop),
            ("\(certificate), auth: self_signed_tls_client_auth", "self_signed_tls_client_auth", .mtls),
            ("\(key), \(certificate), auth: tls_client_auth", "tls_client_auth", .dpop),
            ("certificate: {file: example-client.pem, key: example-client.key}", "tls_client_auth", .mtls),
        ])
    func credentials(_ client: String, _ method: String, _ constraint: SenderConstraint) throws {
        let client = try self.client(file(client: client))
        #expect(client.authentication.method == method)
        #expect(client.profile.senderConstraint == constraint)
    }

    @Test("A setting agrees with `profile: fapi2`, or is stricter → accepted")
    func agreement() throws {
        let same = try client(
            file(
                client: "\(Self.key), auth: private_key_jwt, par: required, pkce: required, nonce: on, login: broker, "
                    + "sender_constrained: dpop, assertion: {audience: issuer}, "
                    + "id_token: {algorithms: [ES256], leeway: 60s}, dpop: {par: thumbprint}, native_code: false"))
        #expect(same.wire.idToken.algorithms == [.es256] && same.wire.idToken.leeway == .seconds(60))
        #expect(same.wire.dpop.par == .thumbprint)
        let kept = file(
            provider: "kind: oidc\nissuer: https://bank.example.com\nprofile: fapi2\n"
                + "endpoints: {end_session: \"https://bank.example.com/out\", introspection: \"https://bank.example.com/i\"}",
            client: Self.key)
        #expect(errors(kept) == [])
        let oauth = file(provider: "kind: oauth2\nissuer: https://bank.example.com\nprofile: fapi2", client: Self.key)
        #expect(errors(oauth) == [])
    }

    @Test("The preset cloudentity or linkedin with `profile: fapi2` → the profile's values replace the preset's")
    func presets() throws {
        let workspace = "issuer: https://example.eu.authz.cloudentity.io/example/demo\nprofile: fapi2"
        let cloudentity = try client(file(provider: "preset: cloudentity\n" + workspace, client: Self.key))
        #expect(cloudentity.wire.tokenRequest.idempotencyKey && cloudentity.wire.pushedAuthorization == .required)
        #expect(cloudentity.profile.senderConstraint == .dpop && cloudentity.profile.nonce)
        let linkedin = try client(file(provider: "preset: linkedin\n" + workspace, client: Self.key))
        #expect(linkedin.profile.pkce == .required && linkedin.profile.nonce)
        #expect(Set(linkedin.wire.idToken.algorithms) == [.ps256, .es256, .edDSA])
    }

    @Test("`check` reads a client with `profile: fapi2` → it shows the settings that the profile makes")
    func words() throws {
        let lines = ProfileWords.lines(try load(file(client: Self.key)))
        #expect(
            lines == [
                "providers.bank.clients.web.profile: fapi2: par required, pkce required, auth private_key_jwt, "
                    + "sender_constrained dpop, assertion.audience issuer, id_token PS256, ES256, EdDSA with 10 s of leeway, "
                    + "iss in every callback"
            ])
    }
}
