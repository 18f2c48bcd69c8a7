import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

@Suite("Tokens that are bound to a certificate of the broker", .timeLimit(.minutes(2)))
struct CertificateBoundTests {
    private func broker(
        _ certificate: String? = "first", _ constraint: SenderConstraint = .mtls, after other: TestBroker? = nil,
        _ change: (inout ScriptedProvider.Script) -> Void = { _ in }
    ) throws -> TestBroker {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [], scope: ["openid", "email"], nonce: true,
            revocationReach: .token)
        client.senderConstraint = constraint
        client.handsOutAccessToken = true
        var script = ScriptedProvider.Script()
        script.certificate = certificate
        change(&script)
        return try TestBroker(
            store: other?.store, vault: other?.vault, clients: [client], script: script,
            clock: other?.clock ?? TestClock())
    }

    private func stored(_ broker: TestBroker, _ signedIn: SignedIn) async throws -> StoredTokens {
        let row = try #require(try await broker.store.session(tokenDigest: broker.vault.digest(signedIn.token)))
        return try StoredTokens.open(row, broker.context)
    }

    private func access(_ broker: TestBroker, _ signedIn: SignedIn) async throws -> AccessToken {
        try await broker.useCases.refreshTokens.accessToken(
            for: try await broker.useCases.resumeSession.resume(signedIn.token))
    }

    private func show(_ broker: TestBroker, _ certificate: String?) {
        broker.provider.script.withLock { $0.certificate = certificate }
    }

    // MARK: Stored values

    @Test(
        "A record of certificate-bound tokens → this release reads it; a release that lacks such tokens sees a newer format"
    )
    func record() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        let stored = try await stored(broker, signedIn)
        #expect(stored.tokens.credential == .mtls && stored.tokens.certificate == "first")
        #expect(stored.record.first == 3)
        // An earlier release can read only the formats 1 and 2. It has to report a newer format.
        for format: UInt8 in [1, 2] {
            #expect(throws: RecordFailure.newerFormat) { _ = try RecordReader(stored.record, format: format) }
        }
        let again = try StoredTokens(record: stored.record)
        #expect(
            again.tokens.certificate == "first"
                && again.tokens.accessToken.reveal() == stored.tokens.accessToken.reveal())
        #expect(again.record == stored.record)
        #expect(throws: RecordFailure.self) { _ = try StoredTokens(record: Array(stored.record.prefix(6))) }
    }

    @Test(
        "The client's tokens are not sender-constrained → records are unchanged, and another certificate causes no refresh"
    )
    func unbound() async throws {
        let broker = try broker("first", .off)
        let signedIn = try await broker.signIn()
        let stored = try await stored(broker, signedIn)
        #expect(stored.record.first == 1 && stored.tokens.certificate == nil && stored.tokens.credential == .bearer)
        show(broker, "second")
        _ = try await access(broker, signedIn)
        #expect(broker.provider.refreshes == 0)
    }

    @Test(
        "An app asks for its certificate-bound token → `client_not_allowed`, because only the broker's connections can use it"
    )
    func handedOut() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        let session = try await broker.useCases.resumeSession.resume(signedIn.token)
        let problem = await problem { try await broker.useCases.handOutToken.handOut(from: session) }
        #expect(problem?.code == .clientNotAllowed)
    }

    // MARK: A renewed certificate

    @Test(
        "The client's certificate is replaced → the next use of a session causes one refresh under the new certificate")
    func renewed() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        let first = try await access(broker, signedIn)
        #expect(first.certificate == "first" && broker.provider.refreshes == 0)
        show(broker, "second")
        _ = try await broker.useCases.resumeSession.resume(signedIn.token)
        #expect(
            broker.provider.refreshes == 0, "a look at the session does not use its tokens, so it causes no refresh")
        let second = try await access(broker, signedIn)
        #expect(second.certificate == "second" && second.version == first.version + 1)
        #expect(second.token.reveal() != first.token.reveal())
        _ = try await access(broker, signedIn)
        #expect(broker.provider.refreshes == 1)
        #expect(broker.provider.script.withLock { $0.refreshes.first?.isCertified } == true)
    }

    @Test(
        "A target's token is requested → fetched with one refresh; the client's certificate changes → the token is fetched again"
    )
    func otherAPI() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        func ask() async throws -> AccessToken {
            try await broker.useCases.fetchTargetToken.accessToken(
                for: try await broker.useCases.resumeSession.resume(signedIn.token), at: TokenTarget(audience: "a"))
        }
        let first = try await ask()
        #expect(first.certificate == "first")
        // The session's own tokens are already bound to the certificate, so only the token for the other API is requested.
        #expect(broker.provider.script.withLock { $0.refreshes.map { $0.target?.audience } } == ["a"])
        show(broker, "second")
        let second = try await ask()
        #expect(second.certificate == "second" && second.token.reveal() != first.token.reveal())
    }

    @Test("A refresh under a new certificate fails → 503; the old token is not used, and the session stays")
    func failing() async throws {
        let broker = try broker {
            $0.refresh = [.notSent(detail: ""), .retryable(status: 401, retryAfter: nil, detail: "")]
        }
        let signedIn = try await broker.signIn()
        show(broker, "second")
        for _ in 0..<2 {
            let problem = await problem { try await access(broker, signedIn) }
            #expect(problem?.code == .providerUnavailable)
            broker.clock.advance(.seconds(5))
        }
        #expect(try await access(broker, signedIn).certificate == "second")
        #expect(broker.provider.refreshes == 3)
    }

    /// Forces four refreshes, one every two minutes.
    ///
    /// Another user signs in before the third refresh. Returns the problem codes, and the reason if the session ended.
    private func refused(
        _ code: String, after before: TestBroker, _ signedIn: SignedIn, _ certificate: String?
    ) async throws -> (codes: [ProblemCode?], reason: EndReason?) {
        let broker = try broker(certificate, after: before) {
            $0.refresh = Array(repeating: .rejected(OAuthError(status: 400, code: code)), count: 9)
        }
        let session = try await broker.useCases.resumeSession.resume(signedIn.token)
        var codes: [ProblemCode?] = []
        for number in 0..<4 {
            if number == 3 { _ = try await broker.signIn(code: "other") }
            broker.clock.advance(.seconds(120))
            codes.append(await problem { try await broker.useCases.refreshTokens.refreshNow(session) }?.code)
        }
        let row = try #require(try await broker.store.session(tokenDigest: broker.vault.digest(signedIn.token)))
        return (codes, row.endReason)
    }

    @Test(
        "A refresh shows another certificate than its tokens' → the refusals are counted, and one alone never ends the session",
        arguments: ["invalid_grant", "unauthorized_client"])
    func otherCertificate(_ code: String) async throws {
        for constraint in [SenderConstraint.mtls, .off] {
            let before = try broker("first", constraint)
            let signedIn = try await before.signIn()
            let (codes, reason) = try await refused(code, after: before, signedIn, "second")
            #expect(codes == [.providerUnavailable, .providerUnavailable, .providerUnavailable, .sessionEnded])
            #expect(reason == .grantRevoked)
        }
    }

    @Test(
        "A refresh with the tokens' own certificate is refused → `invalid_grant` ends the session, `unauthorized_client` does not"
    )
    func sameCertificate() async throws {
        for (code, first, reason) in [
            ("invalid_grant", ProblemCode.sessionEnded, EndReason.grantRevoked),
            ("unauthorized_client", .providerUnavailable, nil),
        ] as [(String, ProblemCode, EndReason?)] {
            let before = try broker()
            let signedIn = try await before.signIn()
            let end = try await refused(code, after: before, signedIn, "first")
            #expect(end.codes.first == first && end.reason == reason, "\(end)")
        }
    }

    @Test(
        "mTLS is configured → the next refresh binds the tokens; mTLS is removed, the certificate stays → they stay bound"
    )
    func setting() async throws {
        let before = try broker("first", .off)
        let signedIn = try await before.signIn()
        let bound = try broker("first", .mtls, after: before)
        #expect(try await access(bound, signedIn).certificate == nil)
        let session = try await bound.useCases.resumeSession.resume(signedIn.token)
        _ = try await bound.useCases.refreshTokens.refreshNow(session)
        #expect(try await access(bound, signedIn).certificate == "first")
        let gone = try broker("second", .off, after: bound)
        #expect(try await access(gone, signedIn).certificate == "second")
        let bare = try broker(nil, .off, after: gone)
        let last = try await access(bare, signedIn)
        #expect(last.certificate == nil && last.credential == .bearer)
        #expect(try await stored(bare, signedIn).record.first == 1)
    }

    @Test("Certificate-bound tokens go to the outbox → an older release can read them")
    func outbox() async throws {
        let broker = try broker { $0.refusal = "refused" }
        let login = try await broker.start()
        _ = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        let rows = try await broker.store.takeOutbox(
            now: broker.clock.now.advanced(by: .seconds(1)), until: broker.clock.now.advanced(by: .seconds(60)),
            limit: 9)
        let row = try #require(rows.first)
        #expect(try broker.vault.open(row.tokens, as: .tokens, row: row.boundTo).first == 1)
    }
}
