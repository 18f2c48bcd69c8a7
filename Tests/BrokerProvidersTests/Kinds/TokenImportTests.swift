import Broker
import BrokerTestSupport
import BrokerVault
import Foundation
import Testing

@testable import BrokerProviders

/// Imports of an app's refresh token by one refresh, for the kinds `oidc` and `oauth2`.
@Suite("Imports by a refresh", .timeLimit(.minutes(2)))
struct TokenImportTests {
    private func imported(_ idToken: String? = nil, refresh: String? = "rt-of-the-app") -> ImportedTokens {
        ImportedTokens(
            accessToken: nil, refreshToken: refresh.map { Secret($0) }, merchantID: nil,
            idToken: idToken.map { Secret($0) })
    }

    private func request(_ proof: ProofMaker? = nil) -> ImportRequest {
        ImportRequest(
            client: Support.ios, tokens: imported(), idempotencyKey: String(repeating: "k", count: 43), proof: proof)
    }

    private func token(_ claims: String) throws -> String {
        try TestKeys.es256(claims, header: #"{"alg":"ES256","kid":"unknown"}"#)
    }

    private func oauth2(_ base: String) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/authorize"), token: EndpointURL(base + "/token")),
            clients: [
                ClientSettings(
                    profile: Support.profile(), clientID: "cid-1",
                    wire: WireSettings(identity: IdentitySettings(url: EndpointURL(base + "/me"))))
            ])
    }

    // MARK: The members

    @Test("An import lacks a refresh token, or has a merchant → the member is named, before any call")
    func members() async throws {
        let provider = try RawProvider()
        for settings in [provider.settings(), provider.settings(.oauth2)] {
            try await Support.with(settings) { client in
                let importer = try #require(client as? any TokenImporting)
                func fault(_ tokens: ImportedTokens) -> FieldFault? {
                    importer.importFault(tokens, client: Support.ios)
                }
                var other = imported()
                #expect(fault(other) == nil)
                #expect(importer.spendsImportedTokens && importer.clientID(of: Support.ios) == "cid-1")
                other.merchantID = "M1"
                #expect(fault(other) == FieldFault("/tokens/merchant_id", .notAllowed))
                other = ImportedTokens(accessToken: Secret("at"), refreshToken: nil, merchantID: nil)
                #expect(fault(other) == FieldFault("/tokens/refresh_token", .required))
            }
        }
        #expect(provider.server.received.isEmpty)
    }

    @Test("The app's id_token is malformed, or names another issuer or client → refused before any call")
    func idTokens() async throws {
        let provider = try RawProvider()
        let (base, sdk) = (provider.server.base, "https://sdk.example.com")
        var settings = provider.settings { $0.idToken.issuer = sdk }
        settings.clients[0].trustedAudiences = ["ipad"]
        let good = [
            #"{"iss":"\#(base)","aud":"cid-1","sub":"u1"}"#, #"{"iss":"\#(sdk)","aud":["x","cid-1"],"sub":"u1"}"#,
            // The signature and the times are left unchecked, because the token is only compared.
            #"{"iss":"\#(base)","aud":"ipad","sub":"u1","exp":1,"iat":1}"#,
        ]
        let bad = [
            #"{"iss":"\#(base)/","aud":"cid-1","sub":"u1"}"#, #"{"aud":"cid-1","sub":"u1"}"#,
            #"{"iss":"\#(base)","aud":"cid-10","sub":"u1"}"#, #"{"iss":"\#(base)","sub":"u1"}"#, "[]",
        ]
        try await Support.with(settings) { client in
            let importer = try #require(client as? any TokenImporting)
            func fault(_ text: String) -> FieldFault? { importer.importFault(imported(text), client: Support.ios) }
            let malformed = FieldFault("/tokens/id_token", .malformed)
            for claims in bad { #expect(fault(try token(claims)) == malformed, "\(claims)") }
            for text in ["x", "a.b.c", "a.b.c.d.e"] { #expect(fault(text) == malformed) }
            let long = String(repeating: "a", count: 16_384)
            #expect(fault(try token(#"{"iss":"\#(base)","aud":"cid-1","a":"\#(long)"}"#)) == malformed)
            for claims in good { #expect(fault(try token(claims)) == nil, "\(claims)") }
        }
        // With plain OAuth, only the id_tokens of an SDK with a configured issuer are accepted.
        try await Support.with(provider.settings(.oauth2)) { client in
            let importer = try #require(client as? any TokenImporting)
            let fault = importer.importFault(imported(try token(good[0])), client: Support.ios)
            #expect(fault == FieldFault("/tokens/id_token", .notAllowed))
        }
        #expect(provider.server.received.isEmpty)
    }

    // MARK: The probe

    /// Probes a provider with these further members of the metadata, and returns the texts about imports.
    private func findings(
        _ metadata: [String: String], _ change: @escaping (inout ClientProfile) -> Void
    ) async throws -> [ProbeResult] {
        let provider = try RawProvider(RawProvider.Answers(metadata: metadata))
        var settings = provider.settings()
        change(&settings.clients[0].profile)
        return try await Support.with(settings) { client in
            try await #require(client as? any ProviderInspection).probe().filter { $0.subject == "import" }
        }
    }

    @Test("Imports need bound tokens, and the metadata lacks DPoP → `check --online` reports a fault")
    func probeOfProofs() async throws {
        for (isOn, listed, isFault) in [
            (true, "null", true), (true, "[]", true), (true, #"["ES256"]"#, false), (false, "null", false),
        ] {
            let found = try await findings(["dpop_signing_alg_values_supported": listed]) {
                $0.importTokens = isOn
                $0.senderConstraint = .dpop
            }
            #expect(found.map(\.isGood) == (isFault ? [false] : []), "\(isOn) \(listed)")
        }
    }

    @Test("The metadata lacks userinfo → `check --online` warns of a client with imports")
    func probeOfUserinfo() async throws {
        for isOn in [true, false] {
            let found = try await findings(["userinfo_endpoint": "null"]) { $0.importTokens = isOn }
            #expect(found.map(\.isDoubtful) == (isOn ? [true] : []))
        }
        #expect(try await findings([:]) { $0.importTokens = true }.isEmpty)
    }

    // MARK: The call

    @Test("An import's refresh gets each kind of answer → the failure that the table of imports needs")
    func failures() async throws {
        let answers: [(RawServer.Reply, String)] = [
            (.json(#"{"error":"invalid_grant"}"#, status: 400), "rejected invalid_grant"),
            (.json(#"{"error":"invalid_client"}"#, status: 401), "rejected invalid_client"),
            (.http(400, [], []), "rejected "), (.http(400, [], Array("<html>".utf8)), "retryable"),
            (.http(302, [("Location", "/")], []), "retryable"), (.json("{}", status: 503), "retryable"),
            (.json(#"{"error":"slow_down"}"#, status: 400), "retryable"), (.json("{}"), "lost"),
            (.http(200, [], Array("<html>".utf8)), "lost"), (.json(#"{"access_token":7}"#), "lost"), (.close, "lost"),
        ]
        for (answer, expected) in answers {
            let server = try RawServer { _ in answer }
            try await Support.with(oauth2(server.base)) { client in
                let importer = try #require(client as? any TokenImporting)
                let failure = await Support.failure { try await importer.takeOver(request(), by: Support.deadline) }
                let told =
                    if case .rejected(let error) = failure { "rejected \(error.code)" } else {
                        failure?.shortDescription
                    }
                #expect(told == expected)
            }
            #expect(server.received.count == 1)
        }
    }

    @Test("The provider's keys are away → the app's token stays unsent")
    func keysAway() async throws {
        var answers = RawProvider.Answers()
        answers.metadata["jwks_uri"] = #""BASE/nowhere""#
        let provider = try RawProvider(answers)
        try await Support.with(provider.settings()) { client in
            let importer = try #require(client as? any TokenImporting)
            let failure = await Support.failure { try await importer.takeOver(request(), by: Support.deadline) }
            guard case .notSent = failure else { return #expect(Bool(false), "\(String(describing: failure))") }
        }
        #expect(!provider.server.received.contains { $0.target == "/token" })
    }

    @Test(
        "An import is granted → one refresh with the client's id alone; if the answer lacks a refresh token, the former one is kept"
    )
    func granted() async throws {
        for (answer, kept) in [(#""refresh_token":"rt-2","#, "rt-2"), ("", "rt-of-the-app")] {
            let server = try RawServer { _ in
                .json(#"{\#(answer)"access_token":"at-1","token_type":"Bearer"}"#)
            }
            try await Support.with(oauth2(server.base)) { client in
                let importer = try #require(client as? any TokenImporting)
                let tokens = try await importer.takeOver(request(), by: Support.deadline)
                #expect(tokens.refreshToken?.reveal() == kept && tokens.scope == nil)
                #expect(tokens.accessToken.reveal() == "at-1")
            }
            #expect(
                server.received.map(\.body)
                    == ["grant_type=refresh_token&refresh_token=rt-of-the-app&client_id=cid-1"])
        }
    }

    // MARK: Bound tokens

    private func proof() throws -> ProofMaker {
        let signer = try OpenSSLVault(ring: KeyRing.generate(now: Support.clock.now(), random: SystemRandom.bytes))
        return ProofMaker(try signer.proofKeyPair(seed: Array(repeating: 7, count: 32)), signer, Support.clock)
    }

    @Test("A client requires bound tokens → the refresh has a proof; the answer's `token_type` decides the binding")
    func bound() async throws {
        for (type, isBound) in [("DPoP", true), ("Bearer", false)] {
            let server = try RawServer { _ in
                .json(#"{"access_token":"at-1","token_type":"\#(type)","refresh_token":"rt-2"}"#)
            }
            try await Support.with(oauth2(server.base)) { client in
                let importer = try #require(client as? any TokenImporting)
                let tokens = try await importer.takeOver(request(try proof()), by: Support.deadline)
                #expect(tokens.credential.isBound == isBound && (tokens.key != nil) == isBound)
                // Unbound tokens are still needed, to revoke them.
                #expect(tokens.accessToken.reveal() == "at-1" && tokens.refreshToken?.reveal() == "rt-2")
            }
            #expect(server.received.count == 1 && server.received.first?.header("DPoP") != nil)
        }
    }

    @Test("An import's proof is refused → the refusal is the result, after one call")
    func proofRefused() async throws {
        let server = try RawServer { _ in .json(#"{"error":"invalid_dpop_proof"}"#, status: 400) }
        try await Support.with(oauth2(server.base)) { client in
            let importer = try #require(client as? any TokenImporting)
            let failure = await Support.failure {
                try await importer.takeOver(request(try proof()), by: Support.deadline)
            }
            guard case .rejected(let refusal) = failure else { return #expect(Bool(false)) }
            #expect(refusal.code == "invalid_dpop_proof")
        }
        #expect(server.received.count == 1)
    }

    @Test(
        "The server asks for a nonce, and then refuses the token → lost, because the first call may have spent the token"
    )
    func nonce() async throws {
        let server = try RawServer { request in
            request.header("DPoP").map { $0.count } ?? 0 > 0 && !Self.hasNonce(request)
                ? .http(
                    400, [("DPoP-Nonce", "n-1"), ("Content-Type", "application/json")],
                    Array(#"{"error":"use_dpop_nonce"}"#.utf8))
                : .json(#"{"error":"invalid_grant"}"#, status: 400)
        }
        try await Support.with(oauth2(server.base)) { client in
            let importer = try #require(client as? any TokenImporting)
            let failure = await Support.failure {
                try await importer.takeOver(request(try proof()), by: Support.deadline)
            }
            guard case .lost = failure else { return #expect(Bool(false), "\(String(describing: failure))") }
            // The confirming call knows the nonce, so its refusal is about the token.
            let second = await Support.failure {
                try await importer.takeOver(request(try proof()), by: Support.deadline)
            }
            guard case .rejected(let refusal) = second else { return #expect(Bool(false)) }
            #expect(refusal.isInvalidGrant)
        }
        #expect(server.received.count == 3)
    }

    private static func hasNonce(_ request: RawServer.Received) -> Bool {
        guard let parts = request.header("DPoP")?.split(separator: "."), parts.count == 3,
            let claims = Base64URL.decode(String(parts[1]))
        else { return false }
        return String(decoding: claims, as: UTF8.self).contains("\"nonce\"")
    }

    // MARK: The user

    private func identify(
        _ answers: RawProvider.Answers, _ imported: ImportedTokens, _ service: ProviderSettings.Service = .oidc,
        _ change: @escaping (inout WireSettings) -> Void = { _ in }
    ) async throws -> (Result<ProviderIdentity, ProviderFailure>, RawProvider) {
        let provider = try RawProvider(answers)
        let result = try await Support.with(provider.settings(service, change)) { client in
            let importer = try #require(client as? any TokenImporting)
            let tokens = try await importer.takeOver(request(), by: Support.deadline)
            do {
                return Result<ProviderIdentity, ProviderFailure>.success(
                    try await importer.identifyImported(
                        tokens, of: imported, Support.context(), by: Support.deadline))
            } catch let failure as ProviderFailure { return .failure(failure) }
        }
        return (result, provider)
    }

    private func isRejected(_ result: Result<ProviderIdentity, ProviderFailure>) -> Bool {
        if case .failure(.identityRejected) = result { true } else { false }
    }

    @Test("Both id_token and userinfo are missing → the identity is rejected")
    func neither() async throws {
        var answers = RawProvider.Answers(idToken: "")
        answers.metadata["userinfo_endpoint"] = "null"
        let (result, _) = try await identify(answers, imported())
        #expect(isRejected(result))
    }

    @Test("The answer's id_token is for another client, or its signature is wrong → the identity is rejected")
    func badAnswer() async throws {
        for answers in [
            RawProvider.Answers(claims: #""azp":"cid-2""#), RawProvider.Answers(idToken: "a.b.c"),
            RawProvider.Answers(keys: TestKeys.ed25519JWK),
        ] {
            #expect(isRejected(try await identify(answers, imported()).0))
        }
    }

    @Test("The app's id_token is another user's → the identity is rejected, whatever source names the user")
    func another() async throws {
        let (own, other) = (try token(#"{"sub":"u1"}"#), try token(#"{"sub":"u2"}"#))
        let userinfo: @Sendable (Int) -> RawServer.Reply = { _ in .json(#"{"sub":"u1","email":"ana@example.org"}"#) }
        let cases: [(RawProvider.Answers, ProviderSettings.Service)] = [
            (RawProvider.Answers(), .oidc), (RawProvider.Answers(idToken: "", userinfo: userinfo), .oidc),
            (RawProvider.Answers(userinfo: userinfo), .oauth2),
        ]
        for (answers, service) in cases {
            #expect(isRejected(try await identify(answers, imported(other), service).0))
            for tokens in [imported(own), imported()] {
                #expect(try await identify(answers, tokens, service).0.get().subject == "u1")
            }
        }
    }

    @Test(
        "The refreshed id_token names the user → its `acr`, `auth_time` and `sid` are the session's, and userinfo is left alone"
    )
    func signIn() async throws {
        // Some servers return the sign-in's id_token again, so the time of its issue is left unchecked.
        let answers = RawProvider.Answers(claims: #""email":"ana@example.org","acr":"mfa","auth_time":1,"sid":"s1""#)
        let (result, provider) = try await identify(answers, imported()) { $0.idToken.maximumAge = .seconds(-7200) }
        let identity = try result.get()
        #expect(identity.signIn.contextClass == "mfa" && identity.signIn.authenticatedAt == 1 && identity.sid == "s1")
        #expect(!provider.server.received.contains { $0.target == "/userinfo" })
    }

    @Test("Only userinfo names the user → the session has its claims; its `acr` and `sid` are ignored")
    func userinfo() async throws {
        let answers = RawProvider.Answers(
            idToken: "", userinfo: { _ in .json(#"{"sub":"u1","email":"ana@example.org","acr":"mfa","sid":"s1"}"#) })
        for source in [IdentitySettings.Source.idToken, .userinfo] {
            let (result, provider) = try await identify(answers, imported()) { $0.identity.source = source }
            let identity = try result.get()
            #expect(identity.subject == "u1" && identity.claims.contains { $0.name == "email" })
            #expect(identity.signIn.contextClass == nil && identity.sid == nil)
            #expect(provider.server.received.count { $0.target == "/userinfo" } == 1)
        }
    }

    @Test("Userinfo is away for a moment → the failure is passing, so the granted tokens are kept")
    func userinfoAway() async throws {
        let answers = RawProvider.Answers(idToken: "", userinfo: { _ in .json("{}", status: 503) })
        guard case .failure(.retryable) = try await identify(answers, imported()).0 else {
            return #expect(Bool(false))
        }
    }
}
