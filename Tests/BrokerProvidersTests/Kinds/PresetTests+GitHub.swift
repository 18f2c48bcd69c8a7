import Broker
import Sandbox
import Testing

@testable import BrokerProviders

extension PresetTests {
    func github(_ base: String) throws -> ProviderSettings {
        try settings(
            "github",
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/github/login/oauth/authorize"),
                token: EndpointURL(base + "/github/login/oauth/access_token"),
                userinfo: EndpointURL(base + "/github/user"),
                revocation: base + "/github/applications/{client_id}/token")
        ) { _ in
        } wire: {
            $0.identity.url = EndpointURL(base + "/github/user")
            $0.identity.emailsURL = EndpointURL(base + "/github/user/emails")
        }
    }

    @Test(
        "GitHub: a login → the subject is the numeric id, and a second call gets the address; an error with 200 → a rejection"
    )
    func github() async throws {
        try await withSandbox { sandbox in
            try await Support.with(try github(sandbox.baseURL)) { client in
                let flow = try flow(client, nonce: false)
                let callback = try await flow.callback()
                let tokens = try await flow.redeem(callback)
                let identity = try await flow.identify(tokens, callback)
                #expect(Int64(identity.subject) != nil)
                #expect(identity.claims.first { $0.name == "email" }?.value == .string("ana@example.org"))
                #expect(identity.claims.first { $0.name == "email_verified" }?.value == .bool(true))
                #expect(tokens.refreshToken == nil)
                guard case .rejected(let error) = await Support.failure({ try await flow.redeem(callback) }) else {
                    return #expect(Bool(false))
                }
                #expect(error.code == "bad_verification_code" && error.status == 200)
            }
        }
    }

    @Test("GitHub: the primary e-mail address is unverified → the identity has no e-mail address (SEC-33)")
    func githubUnverified() async throws {
        try await withSandbox { sandbox in
            try await Support.with(try github(sandbox.baseURL)) { client in
                let identity = try await flow(client, nonce: false, user: "ben").run().identity
                #expect(identity.claims.first { $0.name == "email" } == nil)
            }
        }
    }

    @Test(
        "GitHub: a grant is revoked → DELETE with Basic and client id in the path, even if other calls send the secret in a body",
        arguments: [
            ClientAuthentication.clientSecretBasic(Secret("web-secret")), .clientSecretPost(Secret("web-secret")),
        ])
    func githubRevocation(_ authentication: ClientAuthentication) async throws {
        let server = try RawServer { _ in .http(204, [], []) }
        let settings = try settings(
            "github",
            endpoints: EndpointSettings(
                authorization: EndpointURL(server.base + "/a"), token: EndpointURL(server.base + "/t"),
                revocation: server.base + "/applications/{client_id}/token"),
            authentication: authentication
        ) { _ in
        } wire: {
            $0.identity.url = EndpointURL(server.base + "/user")
        }
        try await Support.with(settings) { client in
            try await #require(client as? any TokenRevoking).revoke(
                TokenSet(accessToken: Secret("gho_1")), client: Support.ios, by: Support.deadline)
            let request = try #require(server.received.first)
            #expect(request.method == "DELETE" && request.target == "/applications/web/token")
            #expect(request.body == #"{"access_token":"gho_1"}"#)
            #expect(request.header("Authorization") == "Basic d2ViOndlYi1zZWNyZXQ=")
        }
    }
}
