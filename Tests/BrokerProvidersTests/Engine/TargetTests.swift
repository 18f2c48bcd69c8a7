import Broker
import BrokerTestSupport
import BrokerVault
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Tokens for another API", .timeLimit(.minutes(2)))
struct TargetTests {
    private static let orders = "https://api.example.org/orders"
    private static let refreshing = TokenTarget(
        resources: [orders, "urn:bills"], audience: "a b", scope: ["read", "write"])
    private static let exchanging = TokenTarget(grant: .exchange, audience: "ledger")
    private static let good =
        #"{"access_token":"at-2","issued_token_type":"\#(TokenAnswer.accessTokenType)","token_type":"Bearer","expires_in":60"#

    private func settings(_ base: String, _ change: (inout ClientSettings) -> Void = { _ in }) -> ProviderSettings {
        var client = ClientSettings(
            profile: Support.profile(), clientID: "cid-1", authentication: .clientSecretBasic(Secret("s-1")),
            wire: WireSettings(identity: IdentitySettings(url: EndpointURL(base + "/me"))))
        change(&client)
        return ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/authorize"), token: EndpointURL(base + "/token")),
            clients: [client])
    }

    /// Makes one token exchange.
    ///
    /// Returns its result, the form that was sent, and the `Authorization` field.
    private func exchange(
        _ reply: RawServer.Reply, isCertified: Bool = false, _ change: (inout ClientSettings) -> Void = { _ in }
    ) async throws -> (result: Result<TokenSet, ProviderFailure>, form: FormPairs, basic: String?) {
        let server = try RawServer { _ in reply }
        let result: Result<TokenSet, ProviderFailure> = try await Support.with(settings(server.base, change)) {
            client in
            let exchanger = try #require(client as? any TokenExchanging)
            var request = TargetExchange(client: Support.ios, subjectToken: Secret("at-1"), target: Self.exchanging)
            request.isCertified = isCertified
            do { return .success(try await exchanger.exchange(request, by: Support.deadline)) } catch let failure
                as ProviderFailure
            { return .failure(failure) }
        }
        let sent = try #require(server.received.first)
        return (result, try FormPairs(parsing: sent.body), sent.header("Authorization"))
    }

    @Test("A token exchange's answer lacks the token, issued_token_type or token_type, or has a wrong type → unusable")
    func badAnswers() async throws {
        let type = #""issued_token_type":"\#(TokenAnswer.accessTokenType)""#
        for body in [
            #"{"access_token":"at-2","token_type":"Bearer"}"#, #"{"access_token":"at-2",\#(type)}"#,
            #"{"access_token":"at-2","issued_token_type":"urn:ietf:params:oauth:token-type:refresh_token","token_type":"Bearer"}"#,
            #"{"access_token":"at-2",\#(type),"token_type":"N_A"}"#,
            #"{"access_token":"at-2",\#(type),"token_type":"DPoP"}"#,
            #"{\#(type),"token_type":"Bearer"}"#,
        ] {
            guard case .failure(.unusable) = try await exchange(.json(body)).result else {
                Issue.record("\(body)")
                continue
            }
        }
    }

    @Test(
        "The provider refuses a token exchange → its error code is reported unchanged",
        arguments: ["invalid_target", "invalid_request", "invalid_grant"])
    func refused(_ code: String) async throws {
        guard
            case .failure(.rejected(let refusal)) = try await exchange(.json(#"{"error":"\#(code)"}"#, status: 400))
                .result
        else { return #expect(Bool(false)) }
        #expect(refusal.code == code)
    }

    @Test(
        "A token exchange → sends the client's authentication and the session's token, and drops a refresh token in the answer"
    )
    func exchanged() async throws {
        let answer = try await exchange(.json(Self.good + #","refresh_token":"rt-x","id_token":"a.b.c"}"#))
        let tokens = try answer.result.get()
        #expect(tokens.accessToken.reveal() == "at-2" && tokens.refreshToken == nil && tokens.idToken == nil)
        #expect(answer.basic?.hasPrefix("Basic ") == true)
        let names = answer.form.pairs.map { "\($0.name)=\($0.value)" }
        #expect(
            names == [
                "grant_type=urn:ietf:params:oauth:grant-type:token-exchange", "subject_token=at-1",
                "subject_token_type=\(TokenAnswer.accessTokenType)",
                "requested_token_type=\(TokenAnswer.accessTokenType)",
                "audience=ledger",
            ])
    }

    @Test(
        "A token exchange by a client with `mtls`, or for a certificate-bound token → the new token is marked as bound")
    func certified() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(try authority.sign("first", for: "client.example"))
        for (constraint, isCertified, credential) in [
            (.off, false, .bearer), (.off, true, .mtls), (.mtls, false, .mtls), (.mtls, true, .mtls),
        ] as [(SenderConstraint, Bool, TokenSet.Credential)] {
            let answer = try await exchange(.json(Self.good + "}"), isCertified: isCertified) {
                $0.profile.senderConstraint = constraint
                $0.wire.connection = ConnectionSettings(identity: identity)
            }
            let tokens = try answer.result.get()
            #expect(tokens.credential == credential, "\(constraint) \(isCertified)")
            #expect(tokens.certificate == (credential == .mtls ? identity.current.thumbprint : nil))
        }
    }

    @Test(
        "A refresh for a target → sends resource, audience and scope, even if settings omit them; a plain refresh → sends none"
    )
    func refreshed() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-2"}"#) }
        let settings = settings(server.base) {
            $0.wire.tokenRequest.omit = ["resource", "scope"]
            $0.wire.tokenRequest.parameters = [("audience", "fixed"), ("more", "1")]
        }
        try await Support.with(settings) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            var request = Support.refresh()
            _ = try await refresher.refresh(request, by: Support.deadline)
            request.target = Self.refreshing
            _ = try await refresher.refresh(request, by: Support.deadline)
        }
        let sent = server.received.map(\.body)
        #expect(try #require(sent.first).hasSuffix("refresh_token=rt-1&audience=fixed&more=1"))
        let target = FormPairs.encode(Self.refreshing.parameters)
        #expect(try #require(sent.last).hasSuffix("refresh_token=rt-1&\(target)&more=1"))
        #expect(target.hasPrefix("resource=https%3A%2F%2Fapi.example.org%2Forders&resource=urn%3Abills&audience=a%20b"))
    }

    @Test(
        "The access token for a target is unusable → the result has the new refresh token and the access token's fault (SEC-57)",
        arguments: [
            #"{"refresh_token":"rt-2"}"#, #"{"access_token":"a b","refresh_token":"rt-2","expires_in":60}"#,
            #"{"access_token":"at-2","refresh_token":"rt-2","token_type":"N_A"}"#,
            #"{"access_token":"at-2","refresh_token":"rt-2","token_type":"DPoP"}"#,
            #"{"access_token":"at-2","refresh_token":"rt-2","id_token":7}"#,
        ])
    func ofNoUse(_ body: String) async throws {
        let server = try RawServer { _ in .json(body) }
        try await Support.with(settings(server.base)) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            var request = Support.refresh()
            request.target = Self.refreshing
            let tokens = try await refresher.refresh(request, by: Support.deadline)
            #expect(tokens.refreshToken?.reveal() == "rt-2" && tokens.accessToken.isEmpty && tokens.expiresAt == nil)
            #expect(tokens.refusal != nil)
        }
        // An answer with neither a usable access token nor a refresh token is unusable.
        let bare = try RawServer { _ in .json(#"{"access_token":"a b"}"#) }
        try await Support.with(settings(bare.base)) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            var request = Support.refresh()
            request.target = Self.refreshing
            let asked = request
            guard
                case .unusable = await Support.failure({
                    try await refresher.refresh(asked, by: Support.deadline)
                })
            else { return #expect(Bool(false)) }
        }
    }

    @Test(
        "A configured fixed parameter has the same name as a target's audience parameter → the target's value is sent")
    func renamed() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-2"}"#) }
        let settings = settings(server.base) {
            $0.wire.tokenRequest.rename = ["audience": "aud"]
            $0.wire.tokenRequest.parameters = [("aud", "fixed"), ("more", "1")]
        }
        try await Support.with(settings) { client in
            var request = Support.refresh()
            request.target = TokenTarget(audience: "b")
            _ = try await #require(client as? any TokenRefreshing).refresh(request, by: Support.deadline)
        }
        #expect(try #require(server.received.first?.body).hasSuffix("refresh_token=rt-1&aud=b&more=1"))
    }

    @Test("A target with several resources, and token requests in JSON → the resources are sent as a list")
    func json() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-2"}"#) }
        try await Support.with(settings(server.base) { $0.wire.tokenRequest.encoding = .json }) { client in
            var request = Support.refresh()
            request.target = Self.refreshing
            _ = try await #require(client as? any TokenRefreshing).refresh(request, by: Support.deadline)
        }
        let body = try #require(server.received.first?.body)
        #expect(body.contains(#""resource":["https://api.example.org/orders","urn:bills"]"#), "\(body)")
    }

    @Test(
        "Refreshes of one token for different targets → different idempotency keys; for one target twice → the same key"
    )
    func keys() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-2"}"#) }
        try await Support.with(settings(server.base) { $0.wire.tokenRequest.idempotencyKey = true }) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            for target in [nil, Self.refreshing, TokenTarget(audience: "b"), Self.refreshing] {
                var request = Support.refresh()
                request.target = target
                _ = try await refresher.refresh(request, by: Support.deadline)
            }
        }
        let keys = server.received.compactMap { $0.header("X-Idempotency-Key") }
        #expect(keys.count == 4 && Set(keys).count == 3 && keys[1] == keys[3])
    }

    @Test(
        "A sign-in that the broker began → login and code call name the targets' resources; an app's own code → no resources"
    )
    func signIn() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-1"}"#) }
        let settings = settings(server.base) {
            $0.targets = [
                Self.refreshing, Self.exchanging, TokenTarget(resources: [Self.orders], scope: ["read", "email"]),
            ]
        }
        try await Support.with(settings) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let url = try await Flow(provider: exchanger, scope: ["openid"]).start().url.reveal()
            #expect(url.contains("&scope=openid%20read%20write%20email&"), "\(url)")
            #expect(url.contains("&resource=https%3A%2F%2Fapi.example.org%2Forders&resource=urn%3Abills"), "\(url)")
            #expect(!url.contains("ledger"))
            var grant = Support.grant()
            _ = try await exchanger.redeem(grant, by: Support.deadline)
            grant.isOfOwnRequest = true
            _ = try await exchanger.redeem(grant, by: Support.deadline)
        }
        let sent = server.received.map(\.body)
        #expect(sent.count == 2 && !sent[0].contains("resource="))
        #expect(sent[1].contains("resource=https%3A%2F%2Fapi.example.org%2Forders&resource=urn%3Abills"))
    }

    @Test(
        "A token exchange for bound tokens → sends a proof with the server's nonce; the answer's token is unbound → dropped"
    )
    func bound() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "require", "nonces": "change"], of: "oidc")
            var client = ClientSettings(
                profile: Support.profile { $0.senderConstraint = .dpop }, clientID: "web",
                authentication: .clientSecretBasic(Secret("web-secret")))
            client.wire.senderConstraint = .dpop
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [client])
            try await Support.with(settings) { client in
                let vault = try OpenSSLVault(
                    ring: KeyRing.generate(now: Support.clock.now(), random: SystemRandom.bytes))
                let signer = ProofMaker(try vault.proofKeyPair(seed: try vault.random(32)), vault, Support.clock)
                var flow = Flow(provider: try #require(client as? any CodeExchanging))
                flow.proof = signer
                let tokens = try await flow.redeem(try await flow.callback())
                let exchanger = try #require(client as? any TokenExchanging)
                let request = TargetExchange(
                    client: Support.ios, subjectToken: tokens.accessToken, target: Self.exchanging, proof: signer)
                let made = try await exchanger.exchange(request, by: Support.deadline)
                #expect(made.credential == .dpop && made.key != nil && made.refreshToken == nil)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "exchange", "token-type-bearer", times: 1))
                // If the exchanged token is not bound, the access token is dropped, as it is after a refresh.
                let unbound = try await exchanger.exchange(request, by: Support.deadline)
                #expect(unbound.accessToken.isEmpty && unbound.key == nil && unbound.expiresAt == nil)
            }
        }
    }
}
