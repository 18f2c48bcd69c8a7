import Broker
import BrokerProviders
import Testing

@testable import coatcheck

@Suite("Configured certificates of clients and upstreams", .timeLimit(.minutes(2)))
struct MutualTLSSettingsTests {
    private static let pair = "certificate: example-client.pem, key: example-client.key"

    private func file(_ provider: String = "", client: String, more: String = "") -> String {
        """
        server: {public_url: "https://auth.example.com"}
        keys: {file: keys.json}
        providers:
          bank:
            kind: oidc
            issuer: https://bank.example.com
        \(provider.split(separator: "\n").map { "    \($0)" }.joined(separator: "\n"))
            clients:
              web: {client_id: app, redirect_uris: ["com.example.bank:/cb"], \(client)}
        \(more)
        """
    }

    private func client(_ text: String) throws -> ClientSettings {
        try #require(try ConfigurationFixture.load(text).providers.first?.clients.first?.settings)
    }

    @Test(
        "A client's certificate settings are incomplete, contradictory or name a wrong file → refused at the faulty setting",
        arguments: [
            ("auth: tls_client_auth", "web.auth: needs `tls: {certificate, key}`"),
            ("auth: self_signed_tls_client_auth", "web.auth: needs `tls: {certificate, key}`"),
            ("auth: none, sender_constrained: mtls", "web.sender_constrained: needs `tls: {certificate, key}`"),
            ("auth: none, sender_constrained: mtls, tls: {ca_file: example-ca.pem}", "sender_constrained: needs"),
            ("auth: none, tls: {certificate: example-client.pem}", "web.tls: needs `key`"),
            ("auth: none, tls: {key: example-client.key}", "web.tls: needs `certificate`"),
            ("auth: none, certificate: {file: example-client.pem}", "web.certificate: needs `key`"),
            ("auth: none, tls: {certificate: gone.pem, key: example-client.key}", "tls.certificate: names a file"),
            (
                "auth: none, tls: {certificate: not-a-certificate.pem, key: example-client.key}",
                "tls.certificate: names a file that holds no certificate"
            ),
            (
                "auth: none, tls: {certificate: example-client.pem, key: not-a-key.pem}",
                "tls.key: names a file without a private key"
            ),
            (
                "auth: none, tls: {certificate: example-client.pem, key: service-key.pem}",
                "tls.key: names a file that holds no private key"
            ),
            (
                "auth: none, tls: {certificate: example-client.pem, key: other-client.key}",
                "tls.key: is not the key of the first certificate"
            ),
            ("auth: none, tls: {ca_file: not-a-certificate.pem}", "tls.ca_file: names a file that holds no"),
            (
                "auth: none, tls: {\(pair)}, certificate: {file: example-client.pem, key: example-client.key}",
                "web.certificate: stands beside `tls: {certificate, key}`"
            ),
            (
                "auth: tls_client_auth, tls: {\(pair)}, client_secret: zQ8vN2kLr5TwX7yB3mHd",
                "client_secret: is given although"
            ),
            (
                "auth: none, tls: {\(pair)}, sender_constrained: mtls, revocation: {style: bearer_post}",
                "web.revocation: has `style: bearer_post`"
            ),
            ("auth: none, sender_constrained: dpop, revocation: {style: bearer_post}", "web.revocation: has `style"),
            (
                "auth: none, tls: {\(pair)}, sender_constrained: mtls, hand_out_access_token: true",
                "hand_out_access_token: contradicts `sender_constrained: mtls`"
            ),
        ])
    func refused(_ client: String, _ words: String) {
        let errors = ConfigurationFixture.errors(file(client: client))
        #expect(errors.contains { "\($0)".contains(words) }, "\(errors)")
    }

    @Test("A provider of kind `clever` has a certificate, although its calls use none → refused")
    func kinds() {
        let text = """
            server: {public_url: "https://auth.example.com"}
            keys: {file: keys.json}
            providers:
              clever:
                kind: clever
                tls: {\(Self.pair)}
                clients:
                  web: {client_id: a, auth: blank_secret_basic, redirect_uris: ["clever-a://oauth"]}
            """
        #expect(ConfigurationFixture.errors(text).contains { "\($0)".contains("`oidc` and `oauth2`") })
    }

    @Test(
        "A provider has a certificate → its clients use it; a client has its own → this certificate replaces the provider's"
    )
    func places() throws {
        let shared = try client(file("tls: {\(Self.pair), ca_file: example-ca.pem}", client: "auth: tls_client_auth"))
        let identity = try #require(shared.wire.connection.identity)
        #expect(identity.files == .init(certificate: "example-client.pem", key: "example-client.key"))
        #expect(identity.current.thumbprint == "ORkLQ7Dx7IsJ5g8SQXitINASAYwD0fxBrKRXLnybNaw", "the leaf's own")
        #expect(shared.wire.connection.trust?.certificates.count == 1)
        #expect(shared.authentication.method == "tls_client_auth")
        let own = try client(
            file(
                "tls: {certificate: fullchain.pem, key: privkey.pem, ca_file: example-ca.pem}",
                client: "auth: self_signed_tls_client_auth, sender_constrained: mtls, "
                    + "certificate: {file: example-client.pem, key: example-client.key}"))
        #expect(own.wire.connection.identity?.files.certificate == "example-client.pem")
        #expect(own.wire.connection.trust != nil, "what the client does not say stays the provider's")
        #expect(own.profile.senderConstraint == .mtls)
        #expect(own.authentication.method == "self_signed_tls_client_auth")
        #expect(try client(file(client: "auth: none")).wire.connection.identity == nil)
    }

    @Test("A client's key that others may read, or a certificate that has expired or is not valid yet → a warning")
    func warnings() throws {
        let open = file(client: "auth: none, tls: {certificate: example-client.pem, key: open-client.key}")
        #expect(ConfigurationFixture.problems(open).contains { "\($0)".contains("others may read") })
        for (second, words) in [(4_950_000_000, "has run out"), (1_700_000_000, "is not valid yet")]
            as [(Int64, String)]
        {
            var sources = ConfigurationFixture.sources
            sources.now = { WallTime(seconds: second) }
            let loaded = try Configuration.load(text: file(client: "auth: none, tls: {\(Self.pair)}"), sources: sources)
            #expect(loaded.warnings.contains { "\($0)".contains(words) }, "\(loaded.warnings)")
            let fault = Certificates.firstFault(loaded, at: WallTime(seconds: second))
            #expect(fault?.path == "providers.bank.clients.web.tls.certificate", "check fails")
            #expect(fault?.message.hasPrefix("names a file with a certificate that \(words)") == true)
        }
        let good = try ConfigurationFixture.load(file(client: "auth: none, tls: {\(Self.pair)}"))
        #expect(Certificates.firstFault(good, at: WallTime(seconds: 1_795_400_000)) == nil)
    }

    @Test("A client's certificate, in `tls` or `certificate`, has expired → `check` names the setting and its line")
    func faultPlaces() throws {
        let later = WallTime(seconds: 4_950_000_000)
        func fault(_ tls: String) throws -> ConfigProblem? {
            let text = """
                server: {public_url: "https://auth.example.com"}
                keys: {file: keys.json}
                providers:
                  bank:
                    kind: oidc
                    issuer: https://bank.example.com
                    clients:
                      web:
                        client_id: app
                        auth: none
                        redirect_uris: ["com.example.bank:/cb"]
                        \(tls)
                """
            return Certificates.firstFault(try ConfigurationFixture.load(text), at: later)
        }
        let client = "providers.bank.clients.web"
        let other = try fault("certificate:\n          key: example-client.key\n          file: example-client.pem")
        #expect(other?.path == "\(client).certificate.file" && other?.line == 14, "\(String(describing: other))")
        let plain = try fault("tls: {\(Self.pair)}")
        #expect(plain?.path == "\(client).tls.certificate" && plain?.line == 12, "\(String(describing: plain))")
    }

    @Test(
        "An upstream's `tls` sets a certificate, and its calls use certificate-bound tokens → refused; unbound tokens → accepted"
    )
    func upstreams() throws {
        func upstream(_ tls: String, url: String = "https://api.example.com", more: String = "") -> String {
            "upstreams:\n  api: {base_url: \"\(url)\", provider: bank, allow: [\"GET /**\"], tls: {\(tls)}\(more)}"
        }
        let bound = "auth: tls_client_auth, sender_constrained: mtls, tls: {\(Self.pair)}"
        let errors = ConfigurationFixture.errors(file(client: bound, more: upstream(Self.pair)))
        #expect(errors.contains { "\($0)".contains("upstreams.api.tls: has a certificate") }, "\(errors)")
        #expect(
            ConfigurationFixture.errors(file(client: bound, more: upstream("ca_file: example-ca.pem"))).isEmpty)
        let open = ConfigurationFixture.errors(
            file(client: bound, more: upstream("{}", url: "http://127.0.0.1:9").replacing(", tls: {{}}", with: "")))
        #expect(open.contains { "\($0)".contains("upstreams.api.base_url: has to be https") }, "\(open)")
        let plain = try ConfigurationFixture.load(file(client: "auth: none", more: upstream(Self.pair)))
        #expect(plain.upstreams.first?.connection.identity != nil)
        #expect(
            ConfigurationFixture.errors(
                file(client: "auth: none", more: upstream(Self.pair, url: "http://127.0.0.1:9"))
            )
            .contains { "\($0)".contains("needs an https `base_url`") })
    }
}
