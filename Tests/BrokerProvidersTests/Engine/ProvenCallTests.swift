import Broker
import BrokerTestSupport
import BrokerVault
import NIOHTTP1
import Sandbox
import Synchronization
import Testing

@testable import BrokerProviders

/// Calls with DPoP proofs, nonces and bound tokens.
///
/// Some tests call the sandbox, which checks proofs with its own code. The others play a server's malformed answers.
@Suite("Calls with DPoP proofs", .timeLimit(.minutes(2)))
struct ProvenCallTests {
    private let vault: OpenSSLVault
    private let maker: ProofMaker

    init() throws {
        vault = try OpenSSLVault(ring: KeyRing.generate(now: Support.clock.now(), random: SystemRandom.bytes))
        maker = ProofMaker(try vault.proofKeyPair(seed: try vault.random(32)), vault, Support.clock)
    }

    // MARK: A server that judges proofs

    private func settings(
        _ sandbox: RunningSandbox, path: String = "/oidc", _ change: (inout WireSettings) -> Void = { _ in }
    ) -> ProviderSettings {
        var wire = WireSettings(identity: IdentitySettings(source: .userinfo))
        wire.senderConstraint = .dpop
        change(&wire)
        return ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oidc, issuer: sandbox.baseURL + path,
            clients: [ClientSettings(profile: Support.profile(), clientID: "cid-1", wire: wire)])
    }

    private func signIn(_ client: any ProviderClient) async throws -> TokenSet {
        let exchanger = try #require(client as? any CodeExchanging)
        var flow = Flow(provider: exchanger)
        flow.proof = maker
        return try await flow.run().tokens
    }

    private func request(_ tokens: TokenSet, recovering: Bool = false) throws -> RefreshRequest {
        var request = RefreshRequest(
            client: Support.ios, refreshToken: try #require(tokens.refreshToken), accessToken: tokens.accessToken,
            idempotencyKey: String(repeating: "k", count: 43), recovering: recovering)
        request.proof = maker
        request.isBound = true
        return request
    }

    private func refresh(_ client: any ProviderClient, _ request: RefreshRequest) async throws -> TokenSet {
        try await (try #require(client as? any TokenRefreshing)).refresh(request, by: Support.deadline)
    }

    /// The claims of a recorded request's proof.
    private func claims(_ request: RecordedRequest) throws -> JSONObject {
        try claims(try #require(request.header("DPoP")))
    }

    private func claims(_ proof: String) throws -> JSONObject {
        let segments = proof.split(separator: ".")
        let key = try DPoPProof([proof]).key
        #expect(segments.count == 3 && key == maker.key.publicKey)
        let signature = try #require(Base64URL.decode(segments[2]))
        let input = Array("\(segments[0]).\(segments[1])".utf8)
        #expect(vault.isES256Signature(signature, over: input, by: maker.key.publicKey))
        return try JSONParser.parseObject(
            try #require(Base64URL.decode(segments[1])), maximumBytes: 4096, maximumDepth: 4)
    }

    @Test(
        "The server sends no DPoP nonces, keeps its nonce or changes it → a sign-in and three refreshes succeed",
        arguments: [
            ("off", WireSettings.PushedAuthorization.required), ("keep", .required), ("change", .required),
            ("change", .off),
        ])
    func signsIn(_ nonces: String, _ par: WireSettings.PushedAuthorization) async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "require", "nonces": .string(nonces)], of: "oidc")
            try await Support.with(settings(sandbox) { $0.pushedAuthorization = par }) { client in
                var tokens = try await signIn(client)
                #expect(tokens.credential == .dpop && tokens.key?.pair.publicKey == maker.key.publicKey)
                #expect(tokens.key?.usesNonces == (nonces != "off"))
                for _ in 0..<3 {
                    let next = try await refresh(client, try request(tokens))
                    #expect(next.credential == .dpop)
                    tokens = tokens.refreshed(with: next)
                }
            }
            let sent = sandbox.control.requests(provider: "oidc").filter { $0.header("DPoP") != nil }
            let proofs = try sent.map { try claims($0) }
            #expect(Set(proofs.compactMap { $0["jti"]?.string }).count == sent.count, "each proof is sent once")
            for (request, claims) in zip(sent, proofs) {
                #expect(claims["htm"]?.string == request.method)
                #expect(claims["htu"]?.string == sandbox.baseURL + request.path)
                #expect((claims["ath"] != nil) == (request.endpoint == "userinfo"))
            }
            #expect(
                sent.contains { $0.endpoint == "userinfo" && $0.header("Authorization")?.hasPrefix("DPoP ") == true })
            let pushed = sandbox.control.requests(provider: "oidc", endpoint: "par")
            #expect(pushed.allSatisfy { $0.form["dpop_jkt"] == maker.thumbprint })
            #expect(pushed.isEmpty == (par == .off))
            // The authorization server's nonces and userinfo's nonces are separate. Each challenge costs one more call.
            let expected = ["off": 1, "keep": 2, "change": 2][nonces]
            #expect(sandbox.control.count("oidc", "userinfo") == expected)
            #expect(sandbox.control.count("oidc", "refresh") == 3)
            let challenged = nonces == "off" ? 0 : 1
            #expect(sandbox.control.count("oidc", "token") + (par == .off ? 0 : pushed.count - 1) == 1 + challenged)
        }
    }

    @Test(
        "A client with `dpop: {par: thumbprint}` starts a login → the pushed request has the key's thumbprint and no proof"
    )
    func thumbprintAlone() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "accept"], of: "oidc")
            try await Support.with(
                settings(sandbox) {
                    $0.pushedAuthorization = .required
                    $0.dpop.par = .thumbprint
                }
            ) { client in _ = try await signIn(client) }
            let pushed = try #require(sandbox.control.requests(provider: "oidc", endpoint: "par").first)
            #expect(pushed.header("DPoP") == nil && pushed.form["dpop_jkt"] == maker.thumbprint)
        }
    }

    @Test(
        "A challenge has a new nonce → one more call with this nonce; has the refused nonce again → no further call (SEC-22)"
    )
    func forgets() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "require", "nonces": "keep", "nonce_status": 401], of: "oidc")
            try await Support.with(settings(sandbox)) { client in
                let tokens = try await signIn(client)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "refresh", "forgets-nonces", times: 1))
                let next = tokens.refreshed(with: try await refresh(client, try request(tokens)))
                #expect(sandbox.control.count("oidc", "refresh") == 2)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "refresh", "repeats-nonce", times: 1))
                let failure = await Support.failure { try await refresh(client, try request(next)) }
                guard case .retryable(_, let wait, _) = failure else { return #expect(Bool(false)) }
                #expect(wait == .seconds(1))
                #expect(sandbox.control.count("oidc", "refresh") == 3)
                _ = try await refresh(client, try request(next))
            }
        }
    }

    @Test("A server refuses the proof of a refresh → one call, and the failure is marked as a refusal of the proof")
    func refusesProof() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "require"], of: "oidc")
            try await Support.with(settings(sandbox) { $0.pushedAuthorization = .required }) { client in
                let tokens = try await signIn(client)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "refresh", "refuses-proof", times: 1))
                let failure = await Support.failure { try await refresh(client, try request(tokens)) }
                guard case .rejected(let refusal) = failure else { return #expect(Bool(false)) }
                #expect(refusal.isAboutProof && sandbox.control.count("oidc", "refresh") == 1)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "par", "refuses-proof", times: 1))
                let start = await Support.failure { _ = try await signIn(client) }
                guard case .unusable(let detail) = start else { return #expect(Bool(false)) }
                #expect(detail.contains("dpop: {par: thumbprint}"))
            }
        }
    }

    @Test(
        "A DPoP client gets a Bearer token for a code → refused, kept for revocation; by a refresh → dropped (SEC-22)"
    )
    func bearer() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "require"], of: "oidc")
            try await Support.with(settings(sandbox)) { client in
                let tokens = try await signIn(client)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "refresh", "token-type-bearer", times: 1))
                let withheld = try await refresh(client, try request(tokens))
                #expect(withheld.accessToken.isEmpty && withheld.expiresAt == nil && withheld.key == nil)
                let kept = tokens.refreshed(with: withheld)
                #expect(kept.isWithheld && kept.refreshToken?.reveal() != tokens.refreshToken?.reveal())
                #expect(try await refresh(client, try request(kept)).credential == .dpop)
                // The token type `dpop` in small letters is accepted, too.
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "refresh", "token-type-lower", times: 1))
                let lower = try await refresh(
                    client, try request(tokens.refreshed(with: try await latest(client, kept))))
                #expect(lower.credential == .dpop)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "token", "token-type-bearer", times: 1))
                var flow = Flow(provider: try #require(client as? any CodeExchanging))
                flow.proof = maker
                let refused = try await flow.redeem(try await flow.callback())
                #expect(refused.refusal != nil && !refused.accessToken.isEmpty && refused.key == nil)
            }
        }
    }

    private func latest(_ client: any ProviderClient, _ tokens: TokenSet) async throws -> TokenSet {
        var flow = Flow(provider: try #require(client as? any CodeExchanging))
        flow.proof = maker
        return try await flow.run().tokens
    }

    @Test(
        "The nonce is old, and servers may use up refresh tokens before they check nonces → a PAR call gets a new nonce first"
    )
    func primes() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(
                settings: ["dpop": "require", "nonces": "change", "spends_before_proof": true], of: "oidc")
            for (rule, primed) in [(DPoPSettings.NonceBeforeSpending.unknown, 1), (.no, 1), (.yes, 0)] {
                let clock = TestClock(Support.clock.now())
                try await Support.with(
                    settings(sandbox) { $0.dpop.nonceBeforeSpending = rule }, clock: clock.clock
                ) { client in
                    let tokens = try await signIn(client)
                    var first = try request(tokens)
                    first.usesNonces = true
                    let next = tokens.refreshed(with: try await refresh(client, first))
                    sandbox.control.clearRequests()
                    // The server has forgotten the nonce, and the broker got it more than four minutes ago.
                    try sandbox.control.place(Fault(provider: "oidc", endpoint: "par", "forgets-nonces", times: 1))
                    clock.advance(.seconds(241))
                    var second = try request(next)
                    second.usesNonces = true
                    let renewed = try await refresh(client, second)
                    #expect(renewed.credential == .dpop)
                    #expect(sandbox.control.count("oidc", "par") == primed)
                    #expect(sandbox.control.count("oidc", "refresh") == 1)
                    #expect(!second.sending.mayBeSpent)
                    // The answer to the second refresh had a fresh nonce, so another pushed request is superfluous.
                    var third = try request(tokens.refreshed(with: renewed))
                    third.usesNonces = true
                    _ = try await refresh(client, third)
                    #expect(sandbox.control.count("oidc", "par") == primed)
                }
            }
        }
    }

    @Test(
        "A server uses up the refresh token and then refuses the nonce → the broker treats the token as possibly used up"
    )
    func spentPerhaps() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(
                settings: ["dpop": "require", "nonces": "keep", "spends_before_proof": true], of: "oidc")
            try await Support.with(settings(sandbox)) { client in
                let tokens = try await signIn(client)
                try sandbox.control.place(Fault(provider: "oidc", endpoint: "refresh", "forgets-nonces", times: 1))
                let asked = try request(tokens)
                let failure = await Support.failure { try await refresh(client, asked) }
                guard case .rejected(let refusal) = failure else { return #expect(Bool(false)) }
                #expect(refusal.isInvalidGrant && !refusal.isOfOldProof && asked.sending.mayBeSpent)
            }
        }
    }

    @Test(
        "A refresh is repeated with a new nonce, and this answer is lost → the confirming call has its nonce and idempotency key"
    )
    func idempotency() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "require", "nonces": "keep"], of: "cloudentity")
            let wired = settings(sandbox, path: "/cloudentity/example/demo") { $0.tokenRequest.idempotencyKey = true }
            try await Support.with(wired) { client in
                let tokens = try await signIn(client)
                try sandbox.control.place(
                    Fault(provider: "cloudentity", endpoint: "refresh", "forgets-nonces", times: 1))
                try sandbox.control.place(
                    Fault(provider: "cloudentity", endpoint: "refresh", "drop-after", times: 2))
                let asked = try request(tokens)
                _ = await Support.failure { try await refresh(client, asked) }
                sandbox.control.clearFaults()
                var confirming = try request(tokens, recovering: true)
                confirming.sending = asked.sending
                let sent = sandbox.control.requests(provider: "cloudentity", endpoint: "refresh")
                _ = try? await refresh(client, confirming)
                let again = try #require(
                    sandbox.control.requests(provider: "cloudentity", endpoint: "refresh").dropFirst(sent.count).first)
                #expect(again.header("X-Idempotency-Key") == sent.last?.header("X-Idempotency-Key"))
                #expect(try claims(again)["nonce"]?.string == claims(try #require(sent.last))["nonce"]?.string)
            }
        }
    }

    @Test("A bound token is revoked → the call has the client's authentication, but no DPoP proof")
    func revokes() async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(settings: ["dpop": "require"], of: "oidc")
            try await Support.with(settings(sandbox)) { client in
                let tokens = try await signIn(client)
                try await (try #require(client as? any TokenRevoking)).revoke(
                    tokens, client: Support.ios, by: Support.deadline)
            }
            let revoked = sandbox.control.requests(provider: "oidc", endpoint: "revoke")
            #expect(revoked.count == 2 && revoked.allSatisfy { $0.header("DPoP") == nil })
        }
    }

    @Test("A client without sender_constrained → sends no proofs, and accepts unbound tokens")
    func unbound() async throws {
        try await withSandbox { sandbox in
            try await Support.with(settings(sandbox) { $0.pushedAuthorization = .required }) { client in
                let tokens = try await Flow(provider: try #require(client as? any CodeExchanging)).run().tokens
                var plain = try request(tokens)
                plain.proof = nil
                plain.isBound = false
                _ = try await refresh(client, plain)
            }
            let all = sandbox.control.requests(provider: "oidc")
            #expect(all.allSatisfy { $0.header("DPoP") == nil && $0.form["dpop_jkt"] == nil })
        }
    }

    // MARK: Malformed answers

    private func raw(
        _ answer: @escaping @Sendable (Int) -> RawServer.Reply, _ change: (inout ClientSettings) -> Void = { _ in },
        revocation: Bool = false, _ body: (any ProviderClient, RawServer) async throws -> Void
    ) async throws {
        let count = Atomic(0)
        let server = try RawServer { _ in answer(count.add(1, ordering: .relaxed).newValue) }
        var client = ClientSettings(
            profile: Support.profile(), clientID: "cid-1",
            wire: WireSettings(identity: IdentitySettings(url: EndpointURL(server.base + "/me"))))
        change(&client)
        let settings = ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(server.base + "/authorize"), token: EndpointURL(server.base + "/token"),
                revocation: revocation ? server.base + "/revoke" : nil),
            clients: [client])
        try await Support.with(settings) { try await body($0, server) }
    }

    private func grant() -> CodeGrant {
        var grant = Support.grant()
        grant.proof = maker
        return grant
    }

    private static let challenge = #"{"error":"use_dpop_nonce"}"#
    private static let tokens = #"{"access_token":"at","token_type":"DPoP","refresh_token":"rt"}"#

    @Test(
        "A nonce challenge with status 400, 401 or 403, in the body or in WWW-Authenticate → recognised in any letter case"
    )
    func challenges() async throws {
        let fields = [("DPoP-Nonce", "n-1")]
        let ask = #"Basic realm="x", DPoP algs="ES256", Error = "USE_dpop_nonce""#
        for first in [
            RawServer.Reply.json(Self.challenge, status: 400, fields), .json(Self.challenge, status: 401, fields),
            .json(Self.challenge, status: 403, fields), .http(401, fields + [("WWW-Authenticate", ask)], []),
            .json(#"{"error":"Use_DPoP_Nonce"}"#, status: 400, fields),
        ] {
            try await raw({ $0 == 1 ? first : .json(Self.tokens) }) { client, server in
                let exchanger = try #require(client as? any CodeExchanging)
                #expect(try await exchanger.redeem(grant(), by: Support.deadline).credential == .dpop)
                #expect(server.received.count == 2)
            }
        }
    }

    @Test(
        "A nonce challenge without a usable nonce, or a second challenge → no further call, and the app may send the code again"
    )
    func notSatisfied() async throws {
        for fields in [
            [], [("DPoP-Nonce", "a b")], [("DPoP-Nonce", "a"), ("DPoP-Nonce", "b")],
            [("DPoP-Nonce", String(repeating: "n", count: 513))],
        ] as [[(String, String)]] {
            try await raw({ _ in .json(Self.challenge, status: 400, fields) }) { client, server in
                let exchanger = try #require(client as? any CodeExchanging)
                let failure = await Support.failure { try await exchanger.redeem(grant(), by: Support.deadline) }
                guard case .retryable = failure else { return #expect(Bool(false)) }
                #expect(server.received.count == 1)
            }
        }
        try await raw({ .json(Self.challenge, status: 400, [("DPoP-Nonce", "n-\($0)")]) }) { client, server in
            let exchanger = try #require(client as? any CodeExchanging)
            let failure = await Support.failure { try await exchanger.redeem(grant(), by: Support.deadline) }
            guard case .retryable = failure else { return #expect(Bool(false)) }
            #expect(server.received.count == 2)
        }
    }

    @Test("A code is sent again with a new nonce → the second call has a new idempotency key")
    func codeIdempotency() async throws {
        let answers: @Sendable (Int) -> RawServer.Reply = {
            $0 == 1 ? .json(Self.challenge, status: 400, [("DPoP-Nonce", "n-1")]) : .json(Self.tokens)
        }
        try await raw(answers, { $0.wire.tokenRequest.idempotencyKey = true }) { client, server in
            let exchanger = try #require(client as? any CodeExchanging)
            _ = try await exchanger.redeem(grant(), by: Support.deadline)
            let keys = server.received.compactMap { $0.header("X-Idempotency-Key") }
            #expect(keys.count == 2 && keys.first == grant().idempotencyKey && Set(keys).count == 2)
        }
    }

    @Test(
        "A code's call gets two nonce challenges, and later the code is sent again → the later call has a new idempotency key"
    )
    func laterCode() async throws {
        let answers: @Sendable (Int) -> RawServer.Reply = {
            $0 < 3 ? .json(Self.challenge, status: 400, [("DPoP-Nonce", "n-\($0)")]) : .json(Self.tokens)
        }
        try await raw(answers, { $0.wire.tokenRequest.idempotencyKey = true }) { client, server in
            let exchanger = try #require(client as? any CodeExchanging)
            let failure = await Support.failure { try await exchanger.redeem(grant(), by: Support.deadline) }
            guard case .retryable = failure else { return #expect(Bool(false)) }
            _ = try await exchanger.redeem(grant(), by: Support.deadline)
            let keys = server.received.compactMap { $0.header("X-Idempotency-Key") }
            #expect(keys.count == 3 && keys.first == grant().idempotencyKey && Set(keys).count == 3)
        }
    }

    @Test(
        "A code's call fails without a challenge → the next call has the same idempotency key, so the answer can be repeated"
    )
    func sameCode() async throws {
        for fields in [[], [("DPoP-Nonce", "n-1")]] as [[(String, String)]] {
            let answers: @Sendable (Int) -> RawServer.Reply = { number in
                switch number {
                case 1: .json(Self.challenge, status: 400, [("DPoP-Nonce", "n-1")])
                case 2: .json("{}", status: 503, fields)
                default: .json(Self.tokens)
                }
            }
            try await raw(answers, { $0.wire.tokenRequest.idempotencyKey = true }) { client, server in
                let exchanger = try #require(client as? any CodeExchanging)
                _ = await Support.failure { try await exchanger.redeem(grant(), by: Support.deadline) }
                _ = try await exchanger.redeem(grant(), by: Support.deadline)
                let keys = server.received.compactMap { $0.header("X-Idempotency-Key") }
                #expect(keys.count == 3 && keys[0] != keys[1] && keys[1] == keys[2])
            }
        }
    }

    /// Refreshes at a server that refuses the first call's proof and answers the next call with `second`.
    ///
    /// Passes the result and the sent requests to `check`. With `checksFirst`, the client's settings state that the
    /// server checks a nonce before it spends a token.
    private func refusedProof(
        isBound: Bool, _ second: RawServer.Reply, checksFirst: Bool = false,
        _ check: (TokenSet?, ProviderFailure?, RefreshRequest, [RawServer.Received]) throws -> Void
    ) async throws {
        let answers: @Sendable (Int) -> RawServer.Reply = {
            $0 == 1 ? .json(#"{"error":"invalid_dpop_proof"}"#, status: 403) : second
        }
        let change: (inout ClientSettings) -> Void = { client in
            client.wire.tokenRequest.idempotencyKey = true
            if checksFirst { client.wire.dpop.nonceBeforeSpending = .yes }
        }
        try await raw(answers, change) { client, server in
            var asked = Support.refresh()
            asked.proof = maker
            asked.isBound = isBound
            var tokens: TokenSet?
            let failure = await Support.failure { [asked] in
                let answer = try await refresh(client, asked)
                tokens = answer
                return answer
            }
            try check(tokens, failure, asked, server.received)
        }
    }

    @Test(
        "A server refuses the proof of a refresh → if the token is unbound, one more call without a proof; if it is bound, none"
    )
    func bare() async throws {
        let bearer = RawServer.Reply.json(#"{"access_token":"at-2","token_type":"Bearer","refresh_token":"rt-2"}"#)
        try await refusedProof(isBound: true, bearer) { tokens, failure, _, sent in
            guard case .rejected(let refusal) = failure else { return #expect(Bool(false)) }
            #expect(
                tokens == nil && refusal.isAboutProof && sent.count == 1, "a bound token is never sent without a proof")
        }
        try await refusedProof(isBound: false, bearer) { tokens, _, asked, sent in
            #expect(tokens?.credential == .bearer && tokens?.key == nil && tokens?.accessToken.reveal() == "at-2")
            #expect(sent.map { $0.header("DPoP") != nil } == [true, false])
            #expect(Set(sent.compactMap { $0.header("X-Idempotency-Key") }).count == 2)
            #expect(asked.sending.mayBeSpent, "the server may have used up the token before it refused the proof")
            #expect(asked.sending.isBare)
        }
        let revoked = RawServer.Reply.json(#"{"error":"invalid_grant"}"#, status: 400)
        try await refusedProof(isBound: false, revoked, checksFirst: true) { _, failure, asked, sent in
            guard case .rejected(let refusal) = failure else { return #expect(Bool(false)) }
            #expect(refusal.isInvalidGrant && sent.count == 2 && !asked.sending.mayBeSpent)
            #expect(
                refusal.doubt == .noProof && refusal.mayMeanDeadGrant,
                "the server may have refused the second call because it had no proof")
        }
    }

    @Test(
        "A certificate-bound client gets a DPoP setting → a refreshed Bearer token keeps its mark as bound to the certificate"
    )
    func switched() async throws {
        let authority = try TestAuthority()
        let identity = try authority.identity(try authority.sign("first", for: "client.example"))
        let bearer = RawServer.Reply.json(#"{"access_token":"at-2","token_type":"Bearer","refresh_token":"rt-2"}"#)
        let refused = RawServer.Reply.json(#"{"error":"invalid_dpop_proof"}"#, status: 400)
        for answers in [[bearer], [refused, bearer]] {
            for isCertified in [true, false] {
                try await raw({ answers[min($0, answers.count) - 1] }) {
                    $0.wire.connection = ConnectionSettings(identity: identity)
                } _: { client, server in
                    var asked = Support.refresh()
                    asked.proof = maker
                    asked.isCertified = isCertified
                    let tokens = try await refresh(client, asked)
                    #expect(server.received.count == answers.count)
                    #expect(tokens.certificate == (isCertified ? identity.current.thumbprint : nil))
                    #expect(tokens.credential == (isCertified ? .mtls : .bearer))
                }
            }
        }
    }

    private func boundRefresh(recovering: Bool = false) -> RefreshRequest {
        var asked = Support.refresh(recovering: recovering)
        asked.proof = maker
        asked.isBound = true
        return asked
    }

    @Test(
        "A second call confirms a refresh whose answer was lost → both have one idempotency key, even after a nonce challenge"
    )
    func lostKey() async throws {
        let answers: @Sendable (Int) -> RawServer.Reply = {
            $0 == 1 ? .json(Self.challenge, status: 400, [("DPoP-Nonce", "n-1")]) : .json(Self.tokens)
        }
        try await raw(answers, { $0.wire.tokenRequest.idempotencyKey = true }) { client, server in
            let asked = boundRefresh(recovering: true)
            asked.sending.markSending(nonce: "n-0", idempotencyKey: asked.idempotencyKey)
            _ = try await refresh(client, asked)
            let keys = server.received.map { $0.header("X-Idempotency-Key") }
            #expect(keys == [asked.idempotencyKey, asked.idempotencyKey])
        }
    }

    @Test(
        "A second call confirms a refresh whose answer was received → it has the newest nonce and a new idempotency key"
    )
    func confirmsHeard() async throws {
        let refused = #"{"error":"invalid_grant"}"#
        try await raw(
            { .json(refused, status: 400, [("DPoP-Nonce", "n-\($0)")]) }, { $0.wire.tokenRequest.idempotencyKey = true }
        ) { client, server in
            let first = boundRefresh()
            _ = await Support.failure { try await refresh(client, first) }
            // The answer to another session's refresh contains a newer nonce.
            _ = await Support.failure { try await refresh(client, boundRefresh()) }
            var confirming = boundRefresh(recovering: true)
            confirming.sending = first.sending
            let failure = await Support.failure { [confirming] in try await refresh(client, confirming) }
            guard case .rejected(let refusal) = failure else { return #expect(Bool(false)) }
            #expect(refusal.isInvalidGrant && !refusal.isOfOldProof)
            let sent = try #require(server.received.last)
            #expect(try claims(try #require(sent.header("DPoP")))["nonce"]?.string == "n-2")
            let keys = server.received.compactMap { $0.header("X-Idempotency-Key") }
            #expect(keys.count == 3 && keys[0] == keys[1] && keys[2] != keys[0])
        }
    }

    @Test(
        "A newer nonce arrives during a call → the call's proof counts as outdated, except if this call confirms an earlier call"
    )
    func oldAtSending() throws {
        for confirms in [false, true] {
            let nonces = ProofNonces()
            let place = ProofNonces.Place(
                provider: ProviderName(unchecked: "p"), client: Support.ios, origin: "https://as.example",
                role: .authorization)
            nonces.note("n-1", at: place, moment: .zero)
            let call = ProvenCall(maker, at: place, nonces, Support.clock, confirms: confirms)
            _ = try call.field("POST", try #require(EndpointURL("https://as.example/token")))
            nonces.note("n-2", at: place, moment: .zero)
            let answer = ProviderAnswer(status: 400, headers: [:], body: [], fault: nil)
            call.heard(answer)
            #expect(try !call.asksAgain(answer) && call.exchange.isOutdated == !confirms)
        }
    }

    @Test("A code is sent again with a new nonce → the second call has a new assertion and a new proof")
    func freshAssertion() async throws {
        let answers: @Sendable (Int) -> RawServer.Reply = {
            $0 == 1 ? .json(Self.challenge, status: 401, [("DPoP-Nonce", "n-1")]) : .json(Self.tokens)
        }
        let key = SigningKey(pem: Secret(TestKeys.rsaPEM), algorithm: .rs256)
        try await raw(answers, { $0.authentication = .privateKeyJWT(key) }) { client, server in
            let exchanger = try #require(client as? any CodeExchanging)
            _ = try await exchanger.redeem(grant(), by: Support.deadline)
            let bodies = try server.received.map { try FormPairs(parsing: $0.body) }
            #expect(bodies.count == 2 && bodies[0]["code"] == bodies[1]["code"])
            #expect(bodies[0]["client_assertion"] != nil)
            #expect(bodies[0]["client_assertion"] != bodies[1]["client_assertion"])
            #expect(server.received[0].header("DPoP") != server.received[1].header("DPoP"))
        }
    }

    /// Runs `body` with a server whose metadata lists only Basic, and a client whose settings put the secret in the body.
    ///
    /// So the client has two authentication methods.
    private func twoWays(
        of profile: ClientProfile = Support.profile(),
        _ answer: @escaping @Sendable (RawServer.Received, Int) -> RawServer.Reply,
        _ change: (inout WireSettings) -> Void, _ body: (any ProviderClient, RawServer) async throws -> Void
    ) async throws {
        let base = Mutex("")
        let count = Mutex(0)
        let server = try RawServer { request in
            let base = base.withLock { $0 }
            if request.method == "GET" {
                return .json(
                    #"{"issuer":"\#(base)","authorization_endpoint":"\#(base)/authorize","token_endpoint":"\#(base)/token","revocation_endpoint":"\#(base)/revoke","pushed_authorization_request_endpoint":"\#(base)/par","device_authorization_endpoint":"\#(base)/device","backchannel_authentication_endpoint":"\#(base)/ciba","registration_endpoint":"\#(base)/register","token_endpoint_auth_methods_supported":["client_secret_basic"]}"#
                )
            }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return answer(request, number)
        }
        base.withLock { $0 = server.base }
        var wire = WireSettings(identity: IdentitySettings(url: EndpointURL(server.base + "/me")))
        change(&wire)
        let settings = ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2, issuer: server.base,
            clients: [
                ClientSettings(
                    profile: profile, clientID: "cid-1", authentication: .clientSecretPost(Secret("s-1")),
                    wire: wire)
            ])
        try await Support.with(settings) { try await body($0, server) }
    }

    @Test("A nonce challenge with status 401 at PAR → repeated with the same client authentication and a new proof")
    func challengeIsNoRefusal() async throws {
        try await twoWays(
            { _, number in
                number == 1
                    ? .json(Self.challenge, status: 401, [("DPoP-Nonce", "n-1")])
                    : .json(#"{"request_uri":"urn:x","expires_in":60}"#, status: 201)
            }, { $0.pushedAuthorization = .required }
        ) { client, server in
            var flow = Flow(provider: try #require(client as? any CodeExchanging))
            flow.proof = maker
            _ = try await flow.start()
            let pushed = server.received.filter { $0.method == "POST" }
            #expect(pushed.count == 2 && pushed.allSatisfy { $0.header("Authorization") == nil })
            #expect(Set(pushed.compactMap { $0.header("DPoP") }).count == 2)
        }
    }

    /// Makes one refresh for each status in `refreshes`, at a server that answers with these statuses.
    ///
    /// Returns the numbers of pushed requests, which the server answers with the status `par`, and of refreshes.
    private func priming(
        par: Int, refreshes: [Int], _ change: (inout WireSettings) -> Void = { _ in }
    ) async throws -> (pushed: Int, refreshed: Int) {
        let count = Mutex(0)
        var result = (pushed: 0, refreshed: 0)
        try await twoWays(
            { request, _ in
                if request.target == "/par" { return .json("{}", status: par) }
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                let status = refreshes[min(number, refreshes.count) - 1]
                return .json(status == 200 ? Self.tokens : "{}", status: status)
            }, change
        ) { client, server in
            for _ in refreshes {
                var asked = Support.refresh()
                asked.proof = maker
                asked.isBound = true
                asked.usesNonces = true
                _ = await Support.failure { [asked] in try await refresh(client, asked) }
            }
            let targets = server.received.filter { $0.method == "POST" }.map(\.target)
            result = (targets.count { $0 == "/par" }, targets.count { $0 == "/token" })
        }
        return result
    }

    @Test(
        "The last calls to a provider failed → the refresh itself is the breaker's probe, without a pushed request for a nonce"
    )
    func primesNothingThatFails() async throws {
        #expect(try await priming(par: 201, refreshes: [200, 200]) == (2, 2))
        #expect(try await priming(par: 201, refreshes: [503, 503, 200, 200]) == (2, 4))
    }

    @Test(
        "A client with `dpop: {par: thumbprint}` refreshes → no pushed request before, because such a request brings no nonce"
    )
    func primesWithProofsAlone() async throws {
        #expect(try await priming(par: 201, refreshes: [200]) { $0.dpop.par = .thumbprint } == (0, 1))
    }

    @Test(
        "A pushed request that is sent only to get a nonce → has a code challenge only if the client uses PKCE",
        arguments: [(ClientProfile.PKCE.required, true), (.unsupported, false)])
    func primesAsSignIns(_ pkce: ClientProfile.PKCE, _ isChallenged: Bool) async throws {
        try await twoWays(
            of: Support.profile { $0.pkce = pkce },
            { request, _ in request.target == "/par" ? .json("{}", status: 201) : .json(Self.tokens) }, { _ in }
        ) { client, server in
            var asked = Support.refresh()
            asked.proof = maker
            asked.isBound = true
            asked.usesNonces = true
            _ = await Support.failure { [asked] in try await refresh(client, asked) }
            let pushed = server.received.filter { $0.target == "/par" }
            #expect(pushed.count == 1)
            #expect(pushed.allSatisfy { $0.body.contains("code_challenge=") == isChallenged })
        }
    }

    @Test(
        "A token, device, CIBA or registration endpoint, even with an extra slash → counts as the provider's; another path → not"
    )
    func owns() async throws {
        try await twoWays({ _, _ in .json("{}") }, { _ in }) { client, server in
            let owner = try #require(client as? any EndpointOwning)
            for (path, isOwn) in [
                ("/token", true), ("/token/", true), ("//token", true), ("/device", true), ("/ciba", true),
                ("/register", true), ("/register/", true), ("/tokens", false), ("/me", false), ("/", false),
            ] {
                let address = try #require(ProofAddress(server.base + path))
                #expect(try await owner.owns(address) == isOwn, "\(path)")
            }
        }
    }

    @Test("A revocation of a bound access token is refused → the token is never sent as Bearer")
    func noBearerFallback() async throws {
        // A token set in the outbox may lack its key. Then the client's setting `sender_constrained` shows whether the tokens
        // are bound.
        for (key, constraint, calls) in [
            (TokenKey(pair: maker.key), .off, 2), (nil, .dpop, 2), (nil, .off, 4),
        ] as [(TokenKey?, SenderConstraint, Int)] {
            try await raw(
                { _ in .json(#"{"error":"invalid_request"}"#, status: 403) },
                {
                    $0.wire.revocation = RevocationSettings(bearerFallback: true)
                    $0.profile.senderConstraint = constraint
                }, revocation: true
            ) { client, server in
                var tokens = TokenSet(accessToken: Secret("at"), refreshToken: Secret("rt"))
                tokens.key = key
                let revoker = try #require(client as? any TokenRevoking)
                _ = await Support.failure { [tokens] in
                    try await revoker.revoke(tokens, client: Support.ios, by: Support.deadline)
                }
                #expect(server.received.count == calls)
                #expect(server.received.contains { $0.header("Authorization") != nil } == (calls == 4))
                #expect(server.received.allSatisfy { $0.header("DPoP") == nil })
            }
        }
    }

    @Test("An answer with a nonce, and with status 200, 400, 429, 500 or 503 → the next proof has the nonce")
    func keeps() async throws {
        for status in [200, 400, 429, 500, 503] {
            try await raw({
                $0 == 1
                    ? .json(
                        status == 200 ? Self.tokens : #"{"error":"invalid_grant"}"#, status: status,
                        [("DPoP-Nonce", "n-1")])
                    : .json(Self.tokens)
            }) { client, server in
                let exchanger = try #require(client as? any CodeExchanging)
                _ = await Support.failure { try await exchanger.redeem(grant(), by: Support.deadline) }
                _ = try await exchanger.redeem(grant(), by: Support.deadline)
                let claims = try claims(try #require(server.received.last?.header("DPoP")))
                #expect(claims["nonce"]?.string == "n-1", "\(status)")
            }
        }
    }

    @Test(
        "A refresh without a nonce gets invalid_grant and the server's first nonce → the grant does not yet count as dead"
    )
    func firstNonce() async throws {
        let refused = #"{"error":"invalid_grant"}"#
        try await raw({ _ in .json(refused, status: 400, [("DPoP-Nonce", "n-1")]) }) { client, _ in
            var asked = Support.refresh()
            asked.proof = maker
            asked.isBound = true
            for isOld in [true, false] {
                guard case .rejected(let refusal) = await Support.failure({ try await refresh(client, asked) }) else {
                    return #expect(Bool(false))
                }
                #expect(refusal.isInvalidGrant && refusal.isOfOldProof == isOld)
            }
        }
    }
}
