import Broker
import BrokerTestSupport
import BrokerVault
import HTTPTypes
import Testing

@testable import BrokerHTTP

/// The forms of gateways that ask about sessions (lua-resty-openidc, APISIX, Kong, mod_auth_openidc), and of providers that end
/// sessions.
@Suite("Form bodies that gateways and providers send", .timeLimit(.minutes(2)))
struct GatewayFormTests {
    private static let post = "client_id=orders&client_secret=\(Backends.credential)"
    private static let exchange =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"
        + "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&subject_token="
    private static let none = HTTPFields()
    private static let basic: HTTPFields = [.authorization: "Basic b3JkZXJzOmNhbmFyeS1iYWNrZW5kLWNyZWRlbnRpYWw="]

    private func harness(limit: Int = 60) throws -> HTTPHarness {
        try HTTPHarness { configuration, vault in
            configuration.backends = [
                Backends.orders(vault),
                BackendConfiguration(
                    name: BackendName(unchecked: "other"), digest: vault.digest(Array("other-credential".utf8)),
                    may: [.forwardAuth]),
            ]
            configuration.limits.charges.wrongTokensPerMinute = limit
        }
    }

    @Test(
        "A backend's form is ambiguous → 400; the form has a wrong secret → 401; the backend lacks the permission → 403"
    )
    func refused() async throws {
        let harness = try harness()
        let token = try await harness.signIn().token.reveal()
        let own = Self.exchange + token
        for (path, form, fields, status) in [
            ("/v1/introspect", "token=\(token)&token=\(token)", Backends.proof, 400),
            ("/v1/introspect", "token=\(token)&foo=1&foo=1", Backends.proof, 400),
            ("/v1/introspect", "token=\(token)&foo=&foo=", Backends.proof, 400),
            ("/v1/introspect", "token=", Backends.proof, 400),
            ("/v1/introspect", "token=%E9", Backends.proof, 400),
            ("/v1/introspect", "token=\(token)&x=%00", Backends.proof, 400),
            ("/v1/introspect", "token=\(token)&client_id=other", Backends.proof, 400),
            ("/v1/introspect", "token=\(token)&client_id=ORDERS", Self.basic, 400),
            ("/v1/introspect", "token=\(token)&\(Self.post)", Self.basic, 400),
            ("/v1/introspect", "token=\(token)&\(Self.post)", Backends.proof, 400),
            ("/v1/introspect", "token=\(token)&\(Self.post)", [.authorization: "Bearer \(Backends.credential)"], 400),
            ("/v1/introspect", "token=\(token)&client_secret=\(Backends.credential)", Self.none, 400),
            ("/v1/introspect", "token=\(token)&client_id=orders&client_secret=wrong", Self.none, 401),
            ("/v1/introspect", "token=\(token)&client_id=other&client_secret=\(Backends.credential)", Self.none, 401),
            ("/v1/introspect", "token=\(token)&client_id=other&client_secret=other-credential", Self.none, 403),
            ("/v1/introspect", "token=\(token)&client_id=orders&client_secret=", Self.none, 401),
            ("/v1/introspect?\(Self.post)", "token=\(token)", Self.none, 401),
            ("/v1/token?\(Self.post)", own, Self.none, 401), ("/v1/token", own + "&\(Self.post)", Self.basic, 400),
            ("/v1/token", own + "&client_id=orders&client_secret=wrong", Self.none, 401),
            ("/v1/token", own + "&client_id=other", Backends.proof, 400),
            ("/v1/token", own + "&resource=", Backends.proof, 400),
            ("/v1/token", own + "&audience=", Backends.proof, 400),
            ("/v1/token", own + "&audiance=x", Backends.proof, 400),
            ("/v1/token", own + "&actor_token=x", Backends.proof, 400),
            ("/v1/token", own + "&requested_token_type=", Backends.proof, 400),
            ("/v1/token", own + "&scope=&scope=", Backends.proof, 400),
            ("/v1/token", own + "&x=%E9", Backends.proof, 400),
            (
                "/v1/token", own + "&requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt",
                Backends.proof, 400
            ),
        ] as [(String, String, HTTPFields, Int)] {
            let reply = try await harness.form(path, form, fields)
            #expect(reply.status == status, "\(path) \(form): \(reply.body)")
            #expect(!reply.body.contains("canary"), "\(reply.body)")
        }
    }

    @Test("A backend's form is refused → the answer and the log name the faulty field")
    func names() async throws {
        let harness = try harness()
        let token = try await harness.signIn().token.reveal()
        for (path, form, pointer) in [
            ("/v1/introspect", "token=\(token)&client_id=other", "client_id"),
            ("/v1/introspect", "token=\(token)&%66oo=1&foo=2", "foo"), ("/v1/introspect", "token=%zz", "token"),
            ("/v1/token", Self.exchange + token + "&audiance=x", "audiance"),
            ("/v1/token", Self.exchange + token + "&resource=", "resource"),
        ] {
            let reply = try await harness.form(path, form, Backends.proof)
            #expect(reply.json?["errors"]?.array?.first?.object?["pointer"]?.string == pointer, "\(reply.body)")
        }
        let broken = try await harness.form("/v1/introspect", "token=%zz", Backends.proof)
        #expect(broken.json?["error_description"]?.string?.contains("`token` has a broken percent-escape") == true)
        #expect(harness.records.all.last?.privateDetail == "`token` has a broken percent-escape")
        let type = try await harness.send(
            .post, "/v1/introspect", [.contentType: "text/x\u{7F}y; a=b"], body: "token=x")
        #expect(type.status == 401)
        let typed = try await harness.send(
            .post, "/v1/introspect", [.contentType: "text/x<y; a=b", Backends.header: Backends.credential],
            body: "token=x")
        #expect(typed.status == 415 && harness.records.all.last?.privateDetail == "the Content-Type is `text/xy; a=b`")
    }

    @Test(
        "Forms of a backend have wrong secrets → counted like wrong secrets in `Authorization: Basic`, then 429 (SEC-121)"
    )
    func charged() async throws {
        for proof: HTTPFields? in [nil, [.authorization: "Basic b3JkZXJzOndyb25n"]] {
            let harness = try harness(limit: 3)
            let statuses = try await harness.live { port in
                var statuses: [String] = []
                for _ in 0..<5 {
                    let form = proof == nil ? "token=x&client_id=orders&client_secret=wrong" : "token=x"
                    let field = proof?[.authorization].map { "Authorization: \($0)\r\n" } ?? ""
                    let answer = try await RawClient(port: port).exchange(
                        "POST /v1/introspect HTTP/1.1\r\nHost: auth.example.com\r\nConnection: close\r\n\(field)"
                            + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n\r\n\(form)"
                    )
                    statuses.append(String(answer.dropFirst(9).prefix(3)))
                }
                return statuses
            }
            #expect(statuses == ["401", "401", "401", "429", "429"], "\(statuses)")
        }
    }

    @Test(
        "A gateway's introspection form has extra fields → ignored; has the gateway's id and secret → accepted (RFC 6749 2.3.1)"
    )
    func introspection() async throws {
        let harness = try harness()
        let token = try await harness.signIn().token.reveal()
        for (more, fields) in [
            ("token_type_hint=&scope=", Backends.proof), ("client_id=orders", Self.basic), ("client_id=", Self.basic),
            ("client_secret=", Self.basic), ("requested_scope=x&x=%E9&%zz", Backends.proof), ("&&", Backends.proof),
            ("pass=&dpop=&htm=&htu=", Backends.proof), ("=x", Backends.proof.merging([.origin: "null"])),
            (Self.post, Self.none),
            (Self.post + "&token_type_hint=access_token&", [.cookie: "__Host-coatcheck=x"]),
        ] as [(String, HTTPFields)] {
            for form in ["token=\(token)&\(more)", "\(more)&token=\(token)"] {
                let reply = try await harness.form("/v1/introspect", form, fields)
                #expect(reply.json?["active"]?.bool == true, "\(form): \(reply.body)")
            }
        }
    }

    @Test("A gateway adds its client name, its secret or empty fields to a token exchange → the token is returned")
    func exchange() async throws {
        let harness = try harness()
        let token = try await harness.signIn().token.reveal()
        for (more, fields) in [
            ("scope=", Backends.proof), ("client_id=orders", Self.basic), ("client_id=&scope=&", Backends.proof),
            (Self.post, Self.none), (Self.post + "&scope=", Self.none),
        ] as [(String, HTTPFields)] {
            let reply = try await harness.form("/v1/token", Self.exchange + token + "&" + more, fields)
            #expect(
                reply.status == 200 && reply.json?["access_token"]?.string == "canary-access", "\(more): \(reply.body)")
        }
    }

    @Test("A provider sends a logout token together with extra fields → the answer is the same as without these fields")
    func logOut() async throws {
        let harness = try harness()
        for (form, detail) in [
            ("logout_token=a&logout_token=a", "`logout_token` is repeated"),
            ("logout_token=%E9", "`logout_token` has invalid UTF-8"),
            ("x=%E9", "Some"), ("logout_token=a&x=%01", "parameter 2 has a control character"),
        ] {
            let reply = try await harness.form("/v1/backchannel-logout/as", form)
            #expect(reply.status == 400, "\(form)")
            if detail != "Some" { #expect(reply.body.contains(detail), "\(reply.body)") }
        }
        // The broker accepts each of these forms, and refuses only the logout token in it.
        let words = try await harness.form("/v1/backchannel-logout/as", "logout_token=a").body
        for more in ["&", "&x=%E9", "&x=1&x=2", "&&%zz", "&=", "&state="] {
            let reply = try await harness.form("/v1/backchannel-logout/as", "logout_token=a" + more)
            #expect(reply.status == 400 && reply.code == "invalid_request")
            #expect(
                reply.json?["detail"]?.string
                    == words.split(separator: "\"detail\":\"").last?.split(separator: "\"").first.map(String.init),
                "\(more)")
        }
    }
}

extension HTTPFields {
    fileprivate func merging(_ more: HTTPFields) -> HTTPFields {
        var fields = self
        for field in more { fields.append(field) }
        return fields
    }
}
