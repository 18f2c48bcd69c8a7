import Broker
import BrokerTestSupport
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Back-channel logout tokens", .timeLimit(.minutes(2)))
struct LogoutTokenTests {
    private func verify(_ order: JSON, then body: (Result<LogoutNotice, ProviderFailure>) throws -> Void) async throws {
        try await withSandbox { sandbox in
            let answer = try await sandbox.control.backchannelLogout(order)
            let token = try #require(answer["token"]?.text)
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let verifier = try #require(client as? any LogoutTokenVerifying)
                do { try body(.success(try await verifier.verifyLogoutToken(Secret(token)) { true })) } catch let
                    failure
                    as ProviderFailure
                {
                    try body(.failure(failure))
                }
            }
        }
    }

    private static let order: JSON = ["provider": "oidc", "client_id": "mobile-app", "user": "ana", "sid": "sid-1"]

    @Test("A good logout token → its subject, sid and id are read")
    func good() async throws {
        try await verify(Self.order) { result in
            let notice = try result.get()
            #expect(notice.subject == "user-ana" && notice.sid == "sid-1" && !notice.tokenID.isEmpty)
            #expect(notice.clients == [Support.ios])
            #expect(notice.rememberUntil > Support.clock.now().advanced(by: .seconds(600)))
        }
    }

    @Test(
        "A logout token with the type JWT, without exp, or with only sub or sid → accepted, because real servers send these",
        arguments: [
            #"{"header":{"typ":"JWT"}}"#, #"{"mutate":{"exp":null}}"#, #"{"mutate":{"sub":null}}"#,
            #"{"mutate":{"sid":null}}"#, #"{"header":{"typ":null}}"#,
        ])
    func lenient(_ change: String) async throws {
        try await verify(Self.merged(change)) { #expect(throws: Never.self, "\(change)", performing: $0.get) }
    }

    @Test(
        "A logout token with a wrong claim, header or signature → identity_rejected (SEC-66)",
        arguments: [
            #"{"mutate":{"iss":"https://evil.example"}}"#, #"{"mutate":{"aud":"other"}}"#, #"{"mutate":{"aud":null}}"#,
            #"{"mutate":{"iat":null}}"#, #"{"mutate":{"iat":1000}}"#, #"{"mutate":{"iat":99999999999}}"#,
            #"{"mutate":{"exp":1000}}"#,
            #"{"mutate":{"jti":null}}"#, #"{"mutate":{"jti":""}}"#, #"{"mutate":{"events":null}}"#,
            #"{"mutate":{"events":{}}}"#,
            #"{"mutate":{"events":{"http://schemas.openid.net/event/backchannel-logout":"x"}}}"#,
            #"{"mutate":{"nonce":"n"}}"#,
            #"{"mutate":{"sub":null,"sid":null}}"#, #"{"mutate":{"sub":7}}"#, #"{"signature":"foreign"}"#,
            #"{"alg":"none"}"#,
            #"{"header":{"typ":"at+jwt"}}"#, #"{"header":{"kid":"nobody"}}"#, #"{"header":{"crit":["x"]}}"#,
        ])
    func faults(_ change: String) async throws {
        try await verify(Self.merged(change)) { result in
            guard case .failure(.identityRejected) = result else { return #expect(Bool(false), "\(change): \(result)") }
        }
    }

    @Test("A logout token whose sid has 4 KiB → accepted; whose sid is longer → refused (SEC-66)")
    func longSID() async throws {
        for (length, good) in [(256, true), (4096, true), (4097, false)] {
            let sid = String(repeating: "s", count: length)
            var order = Self.order
            order["sid"] = .string(sid)
            try await verify(order) { #expect((try? $0.get().sid) == (good ? sid : nil), "\(length)") }
        }
    }

    @Test(
        "Forged logout tokens use up their share of key fetches, and then keys rotate → a login still fetches new keys (SEC-27)"
    )
    func forgedBeforeRotation() async throws {
        try await withSandbox { sandbox in
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                let verifier = try #require(client as? any LogoutTokenVerifying)
                _ = try await flow.run()
                for change in [#"{"mutate":{"aud":"other"}"#, #"{"mutate":{"iss":"https://evil.example"}"#] {
                    try await forge(change + #","header":{"kid":"nobody"}}"#, sandbox, verifier)
                }
                #expect(
                    sandbox.control.count("oidc", "jwks") == 1,
                    "a token of another audience or issuer causes no fetch of keys")
                for _ in 0..<5 { try await forge(#"{"header":{"kid":"nobody"}}"#, sandbox, verifier) }
                #expect(sandbox.control.count("oidc", "jwks") == 4)
                sandbox.control.rotateKeys("oidc", keepOld: false)
                _ = try await flow.run()
            }
        }
    }

    private func forge(
        _ change: String, _ sandbox: RunningSandbox, _ verifier: any LogoutTokenVerifying
    ) async throws {
        let token = try #require(try await sandbox.control.backchannelLogout(Self.merged(change))["token"]?.text)
        guard
            case .identityRejected = await Support.failure({
                try await verifier.verifyLogoutToken(Secret(token)) { true }
            })
        else { return #expect(Bool(false), "\(change)") }
    }

    @Test("An id_token sent as a logout token, or a logout token sent as an id_token → refused (SEC-31)")
    func crossing() async throws {
        try await withSandbox { sandbox in
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            let logout = try #require(
                try await sandbox.control.backchannelLogout(Self.merged(#"{"header":{"typ":"JWT"}}"#))["token"]?.text)
            try await Support.with(settings) { client in
                let exchanger = try #require(client as? any CodeExchanging)
                let idToken = try #require(try await Flow(provider: exchanger).run().tokens.idToken)
                let verifier = try #require(client as? any LogoutTokenVerifying)
                guard
                    case .identityRejected = await Support.failure({
                        try await verifier.verifyLogoutToken(idToken) { true }
                    })
                else {
                    return #expect(Bool(false))
                }
                let asIdentity = TokenSet(accessToken: Secret("at"), idToken: Secret(logout))
                guard
                    case .identityRejected = await Support.failure({
                        try await exchanger.identify(asIdentity, Support.context(), by: Support.deadline)
                    })
                else { return #expect(Bool(false)) }
            }
        }
    }

    private static func merged(_ change: String) throws -> JSON {
        var order = Self.order
        let object = try JSONParser.parseObject(Array(change.utf8), maximumBytes: 4096)
        for member in object.members { order[member.name] = json(member.value) }
        return order
    }

    private static func json(_ value: JSONValue) -> JSON {
        switch value {
        case .string(let text): .string(text)
        case .number(let text): .raw(text)
        case .bool(let flag): .bool(flag)
        case .null: .null
        case .array(let items): .array(items.map(json))
        case .object(let object):
            object.members.reduce(into: [:] as JSON) { $0[$1.name] = json($1.value) }
        }
    }
}
