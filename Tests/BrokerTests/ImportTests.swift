import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Sessions that are made from tokens which an app already holds.
@Suite(.timeLimit(.minutes(2))) struct ImportTests {
    private let loginToken = Secret(String(repeating: "l", count: 43))
    private let lost = ProviderFailure.lost(detail: "")
    private let away = ProviderFailure.retryable(status: 503, retryAfter: .seconds(7), detail: "")

    /// A fault of the identity call that outlasts the exchange.
    private let gone = ProviderFailure.retryable(status: 503, retryAfter: .seconds(60), detail: "")

    private func refusal(_ code: String, status: Int = 400) -> ProviderFailure {
        .rejected(OAuthError(status: status, code: code))
    }

    private func broker(
        _ script: ScriptedProvider.Script = .init(), store: (any BrokerStore)? = nil, vault: OpenSSLVault? = nil,
        behind outerVault: (any Vault)? = nil, clock: TestClock = TestClock(),
        _ change: (inout ClientProfile) -> Void = { _ in }
    ) throws -> TestBroker {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [],
            importTokens: true)
        change(&client)
        return try TestBroker(
            store: store, vault: vault, clients: [client], script: script, clock: clock, behind: outerVault)
    }

    private func input(
        _ refresh: String = "rt-of-the-app", _ change: (inout ForwardCodeInput) -> Void = { _ in }
    ) -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "ios")
        input.tokens = ImportedTokens(accessToken: Secret("at"), refreshToken: Secret(refresh), merchantID: nil)
        input.loginToken = loginToken
        change(&input)
        return input
    }

    private func calls(_ broker: TestBroker) -> Int { broker.provider.script.withLock { $0.imports.count } }

    private func end(_ problem: BrokerProblem?) -> ImportEnd? {
        guard problem?.code == .loginRequired, case .importFailed(let end) = problem?.payload else { return nil }
        return end
    }

    /// Records a granted import of the client, so that refusals prove something.
    private func grant(_ broker: TestBroker) async throws {
        try await broker.store.noteImportGrant(
            broker.vault.index(.importGrant, ["as", "client-1"]), at: broker.clock.now)
    }

    private func row(_ broker: TestBroker) async throws -> ExchangeRow? {
        try await broker.store.exchange(broker.vault.index(.importedTokens, ["as", "rt-of-the-app"]))
    }

    /// Waits until the first use of a session, which is written in the background, is in the store.
    private func untilWritten(_ signedIn: SignedIn, _ broker: TestBroker) async throws {
        let digest = broker.vault.digest(signedIn.token)
        while try await broker.store.session(tokenDigest: digest)?.isUnused == true { await Task.yield() }
    }

    // MARK: Passing faults

    @Test("The provider is away for an hour → each import gets a 503 that lacks `retry`, and the next one succeeds")
    func awayForLong() async throws {
        for failure in [away, .notSent(detail: ""), .unusable(detail: ""), refusal("", status: 401)] {
            let broker = try broker(.init(refresh: Array(repeating: failure, count: 12)))
            for _ in 0..<12 {
                let problem = await problem { try await broker.forward(input()) }
                #expect(problem?.code == .providerUnavailable && problem?.retry == nil)
                #expect(problem?.retryAfter != nil)
                broker.clock.advance(.seconds(300))
            }
            #expect(await problem { try await broker.forward(input()) } == nil)
            #expect(calls(broker) == 13)
        }
    }

    @Test("An import gets 503 with the provider's `Retry-After`")
    func retryAfter() async throws {
        let broker = try broker(.init(refresh: [away]))
        #expect(await problem { try await broker.forward(input()) }?.retryAfter == .seconds(7))
    }

    @Test(
        "An import is refused because of the client → 502, and the same post succeeds after the repair",
        arguments: ["invalid_client", "unauthorized_client", "invalid_dpop_proof", "invalid_scope"])
    func clientRefused(_ code: String) async throws {
        let broker = try broker(.init(refresh: Array(repeating: refusal(code), count: 5)))
        for _ in 0..<5 { #expect(await problem { try await broker.forward(input()) }?.code == .providerError) }
        _ = try await broker.forward(input())
        #expect(calls(broker) == 6)
    }

    @Test(
        "An import that lacks a `login_token` gets 503 → the same post succeeds, and so does one with a new `login_token`"
    )
    func withoutLoginToken() async throws {
        let broker = try broker(.init(refresh: [away, away]))
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        let bare = input { $0.loginToken = nil }
        #expect(await problem { try await broker.forward(bare) }?.code == .providerUnavailable)
        _ = try await broker.forward(input { $0.loginToken = Secret(String(repeating: "m", count: 43)) })
        #expect(await problem { try await broker.forward(bare) }?.code == .codeAlreadyUsed)
    }

    // MARK: Refusals

    @Test(
        "The provider refuses an imported token with `invalid_grant` → `grant_revoked`, a null login, and one call in all"
    )
    func revoked() async throws {
        let broker = try broker(.init(refresh: [refusal("invalid_grant")]))
        try await grant(broker)
        for token in [loginToken, Secret(String(repeating: "m", count: 43))] {
            let problem = await problem { try await broker.forward(input { $0.loginToken = token }) }
            #expect(end(problem) == .grantRevoked && problem?.login == nil)
        }
        #expect(calls(broker) == 1)
        #expect(
            try await broker.store.pendingLogins(
                loginTokenDigest: broker.vault.digest(loginToken), now: broker.clock.now
            ).isEmpty)
    }

    @Test(
        "Counted refusals of an imported token span five minutes, with a grant to the client in between → `grant_revoked`"
    )
    func counted() async throws {
        for hasGrant in [false, true] {
            let broker = try broker(.init(refresh: [refusal("", status: 400), refusal("", status: 400)]))
            for _ in 0..<2 {
                #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
                broker.clock.advance(.seconds(200))
            }
            // The record of an earlier grant is enough to prove the client's id, but only a grant in between counts here.
            try await grant(broker)
            if hasGrant { _ = try await broker.forward(input("another")) }
            broker.clock.advance(.seconds(10))
            broker.provider.script.withLock { $0.refresh = [refusal("", status: 400)] }
            let last = await problem { try await broker.forward(input()) }
            #expect(hasGrant ? end(last) == .grantRevoked : last?.code == .providerUnavailable)
        }
    }

    // MARK: Lost answers

    @Test("An import's answer is lost → one confirming call after 2 s gets the session")
    func confirmed() async throws {
        let broker = try broker(.init(refresh: [lost]))
        _ = try await broker.forward(input())
        #expect(calls(broker) == 2)
        #expect(broker.clock.asked.contains(.seconds(2)))
    }

    @Test("The confirming call of an import is refused, or its answer is lost, too → `refresh_lost`, after two calls")
    func confirmingFails() async throws {
        for failure in [lost, refusal("invalid_grant")] {
            let broker = try broker(.init(refresh: [lost, failure]))
            try await grant(broker)
            for _ in 0..<2 { #expect(end(await problem { try await broker.forward(input()) }) == .refreshLost) }
            #expect(calls(broker) == 2)
        }
    }

    @Test(
        "The provider restarts: an answer is lost, then 503 for a while → the first call that arrives gets the session")
    func restarts() async throws {
        let broker = try broker(.init(refresh: [lost, away, .notSent(detail: ""), away]))
        for _ in 0..<3 {
            #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
            #expect(try await row(broker)?.attempts == 1)
        }
        _ = try await broker.forward(input())
        #expect(calls(broker) == 5)
    }

    @Test("An import's answer is lost too late for the confirming call → 503, and the next post makes the call")
    func confirmedLater() async throws {
        let broker = try broker(.init(refresh: [lost, lost]))
        broker.provider.gate.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the import's call is at the provider") { broker.provider.gate.waiting > 0 }
        broker.clock.advance(.seconds(16))
        broker.provider.gate.open()
        #expect(await problem { try await request.value }?.code == .providerUnavailable)
        #expect(calls(broker) == 1)
        #expect(try await row(broker)?.attempts == 1)
        #expect(end(await problem { try await broker.forward(input()) }) == .refreshLost)
        #expect(calls(broker) == 2)
    }

    @Test("An import's owner has died → another post takes the claim over after 25 s, and makes the confirming call")
    func ownerDied() async throws {
        let broker = try broker()
        let key = broker.vault.index(.importedTokens, ["as", "rt-of-the-app"])
        let dead = ExchangeRow(
            key: key, proof: broker.vault.digest(loginToken), salt: try broker.vault.random(32),
            keyID: broker.vault.currentKeyID, claim: ClaimID(random: try broker.vault.random(16)),
            claimFor: .seconds(25), createdAt: broker.clock.now,
            imported: ImportMarks(keptUntil: broker.clock.now.advanced(by: ImportMarks.period)))
        _ = try await broker.store.claimImport(dead, sparing: .none)
        broker.clock.advance(.seconds(24))
        broker.provider.script.withLock { $0.refresh = [lost] }
        broker.clock.advance(.seconds(2))
        #expect(end(await problem { try await broker.forward(input()) }) == .refreshLost)
        #expect(calls(broker) == 1)
    }

    @Test("Fifty identical imports at the same time → one call and one session", .timeLimit(.minutes(1)))
    func many() async throws {
        let broker = try broker()
        broker.provider.gate.close()
        let posts = (0..<50).map { _ in Task { try await broker.forward(input()) } }
        try await eventually("the import's call is at the provider") { broker.provider.gate.waiting > 0 }
        broker.provider.gate.open()
        var handles: Set<String> = []
        for post in posts { handles.insert(try await post.value.session.handle.text) }
        #expect(handles.count == 1)
        #expect(calls(broker) == 1)
    }

    // MARK: The user

    @Test("The tokens are granted, and reading the user fails for a while → 503; the next post only reads the user")
    func kept() async throws {
        let broker = try broker(.init(identify: [gone]))
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        let stranger = input { $0.loginToken = Secret(String(repeating: "m", count: 43)) }
        #expect(await problem { try await broker.forward(stranger) }?.code == .codeAlreadyUsed)
        broker.provider.script.withLock { $0.identify = [] }
        let signedIn = try await broker.forward(input())
        #expect(calls(broker) == 1)
        #expect(try await row(broker)?.imported?.pairKeptAt == nil)
        #expect(try await broker.store.keptPair(try #require(try await row(broker)).key) == nil)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(signedIn.session.subject == "user-1")
    }

    @Test("The process dies after the tokens are granted → the next post takes over, and only reads the user")
    func diesAfterGrant() async throws {
        let broker = try broker()
        broker.clock.stopRenewals()
        broker.provider.identifying.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the user is being read") { broker.provider.identifying.waiting > 0 }
        let row = try #require(try await row(broker))
        #expect(row.imported?.pairKeptAt != nil)
        let other = try TestBroker(
            store: broker.store, vault: broker.vault,
            provider: ScriptedProvider(
                profile: broker.provider.profile, clock: broker.clock), clients: broker.provider.profile.clients,
            clock: broker.clock)
        broker.clock.advance(.seconds(26))
        let signedIn = try await other.forward(input())
        #expect(calls(other) == 0 && calls(broker) == 1)
        broker.provider.identifying.open()
        #expect(await problem { try await request.value }?.code == .providerUnavailable)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(signedIn.session.subject == "user-1")
    }

    @Test("The tokens of an import are kept for an hour → revoked, and the next post gets `expired`")
    func expired() async throws {
        let broker = try broker(.init(identify: [gone]))
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        broker.clock.advance(.seconds(3590))
        _ = try await Sweeper(broker.context, owner: "a").sweep()
        #expect(try await broker.store.outboxCount() == 0)
        broker.clock.advance(.seconds(20))
        _ = try await Sweeper(broker.context, owner: "a").sweep()
        #expect(try await broker.store.outboxCount() == 1)
        #expect(end(await problem { try await broker.forward(input()) }) == .expired)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(broker.provider.script.withLock { $0.revoked } == 1)
    }

    @Test("The user's identity of an import is rejected → 502, and the tokens are revoked")
    func identityRejected() async throws {
        let broker = try broker(.init(identify: [.identityRejected(detail: "")]))
        for _ in 0..<2 {
            #expect(await problem { try await broker.forward(input()) }?.code == .identityRejected)
        }
        #expect(try await broker.store.outboxCount() == 1)
        #expect(calls(broker) == 1)
    }

    private let refusesToken = ProviderFailure.identityRejected(detail: "", refusesToken: true)

    @Test("Userinfo refuses a new access token, and the provider its refresh token → `grant_revoked`, after two calls")
    func grantEnded() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        broker.provider.script.withLock { $0.laterImports = [refusal("invalid_grant")] }
        for _ in 0..<2 {
            #expect(end(await problem { try await broker.forward(input()) }) == .grantRevoked)
        }
        let imports = broker.provider.script.withLock { $0.imports }
        #expect(imports.count == 2 && Set(imports.map(\.idempotencyKey)).count == 2)
        #expect(imports.first?.tokens.refreshToken?.reveal() == "rt-of-the-app")
        #expect(imports.last?.tokens.refreshToken?.reveal() != "rt-of-the-app")
        #expect(try await broker.store.keptPair(try #require(try await row(broker)).key) == nil)
        // If the provider is wrong about the grant, the older tokens may be alive.
        #expect(try await broker.store.outboxCount() == 1)
    }

    @Test("Userinfo refuses a new access token, and the provider grants its refresh token → the newer tokens' session")
    func grantLives() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        let signedIn = try await broker.forward(input())
        #expect(calls(broker) == 2)
        let digest = broker.vault.digest(signedIn.token)
        let session = try #require(try await broker.store.session(tokenDigest: digest))
        let stored = try StoredTokens.open(session, broker.context)
        #expect(stored.tokens.refreshToken?.reveal() == "rt-r2")
    }

    @Test("Userinfo refuses each new access token → 503, and the newest pair is kept for an hour from the first grant")
    func keepsRefusing() async throws {
        let broker = try broker(.init(identify: Array(repeating: refusesToken, count: 4)))
        for count in [2, 3] {
            #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
            #expect(calls(broker) == count)
            // The tokens were refreshed a moment ago, so the next post only reads the user.
            broker.provider.script.withLock { $0.identify.insert(refusesToken, at: 0) }
            #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
            #expect(calls(broker) == count)
            broker.clock.advance(.seconds(1700))
        }
        #expect(broker.provider.script.withLock { $0.imports.last?.tokens.refreshToken?.reveal() } == "rt-r2")
        broker.clock.advance(.seconds(300))
        _ = try await Sweeper(broker.context, owner: "a").sweep()
        #expect(end(await problem { try await broker.forward(input()) }) == .expired)
        #expect(try await broker.store.outboxCount() == 1)
    }

    private func sent(_ broker: TestBroker) -> [String?] {
        broker.provider.script.withLock { $0.imports.map { $0.tokens.refreshToken?.reveal() } }
    }

    @Test("The refresh of a new pair fails for a passing reason → 503; the next post reads the user with the same pair")
    func renewalIsRefused() async throws {
        for failure in [away, .notSent(detail: ""), refusal("invalid_client", status: 401), refusal("", status: 401)] {
            let broker = try broker(.init(identify: [refusesToken]))
            broker.provider.script.withLock { $0.laterImports = [failure] }
            let code = await problem { try await broker.forward(input()) }?.code
            #expect(code == .providerUnavailable || code == .providerError)
            _ = try await broker.forward(input())
            #expect(sent(broker) == ["rt-of-the-app", "rt-r1"])
        }
    }

    @Test("The answer to the refresh of a new pair is lost → one confirming call after 2 s, with the same key")
    func renewalIsLost() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        broker.provider.script.withLock { $0.laterImports = [lost] }
        _ = try await broker.forward(input())
        #expect(sent(broker) == ["rt-of-the-app", "rt-r1", "rt-r1"])
        #expect(broker.clock.asked.contains(.seconds(2)))
        let keys = broker.provider.script.withLock { $0.imports.map(\.idempotencyKey) }
        #expect(Set(keys).count == 2 && keys[1] == keys[2])
    }

    @Test("The confirming refresh of a new pair is refused, or its answer is lost, too → `refresh_lost`, and revoked")
    func renewalIsLostTwice() async throws {
        for failure in [lost, refusal("invalid_grant")] {
            let broker = try broker(.init(identify: [refusesToken]))
            broker.provider.script.withLock { $0.laterImports = [lost, failure] }
            for _ in 0..<2 { #expect(end(await problem { try await broker.forward(input()) }) == .refreshLost) }
            #expect(calls(broker) == 3)
            #expect(try await broker.store.outboxCount() == 1)
        }
    }

    @Test(
        "The answer to the refresh of a new pair is lost too late for a repeat → the next post begins with the repeat")
    func renewalIsConfirmedLater() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        broker.provider.script.withLock { $0.laterImports = [lost] }
        broker.provider.identifying.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the user is being read") { broker.provider.identifying.waiting > 0 }
        broker.provider.renewing.close()
        broker.provider.identifying.open()
        try await eventually("the pair is being refreshed") { broker.provider.renewing.waiting > 0 }
        broker.clock.advance(.seconds(16))
        broker.provider.renewing.open()
        #expect(await problem { try await request.value }?.code == .providerUnavailable)
        #expect(sent(broker) == ["rt-of-the-app", "rt-r1"])
        let reads = broker.provider.script.withLock { $0.contexts.count }
        _ = try await broker.forward(input())
        #expect(sent(broker) == ["rt-of-the-app", "rt-r1", "rt-r1"])
        #expect(broker.provider.script.withLock { $0.contexts.count } == reads + 1)
    }

    @Test("The owner dies during each of two refreshes of a new pair → `refresh_lost` after two calls, and revoked")
    func renewalDiesTwice() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        broker.clock.stopRenewals()
        var owners: [(TestBroker, Task<Void, Never>)] = []
        for count in [1, 2] {
            let owner = try TestBroker(
                store: broker.store, vault: broker.vault,
                provider: ScriptedProvider(
                    profile: broker.provider.profile, clock: broker.clock, script: .init(identify: [refusesToken])),
                clients: broker.provider.profile.clients, clock: broker.clock)
            if count == 1 { owner.provider.renewing.close() } else { owner.provider.gate.close() }
            owners.append((owner, Task { _ = await problem { try await owner.forward(input()) } }))
            try await eventually("the pair is being refreshed") {
                owner.provider.renewing.waiting + owner.provider.gate.waiting > 0
            }
            broker.clock.advance(.seconds(26))
        }
        #expect(end(await problem { try await broker.forward(input()) }) == .refreshLost)
        #expect(calls(broker) == 0)
        #expect(try await broker.store.outboxCount() == 1)
        for (owner, task) in owners {
            owner.provider.renewing.open()
            owner.provider.gate.open()
            await task.value
        }
    }

    @Test("The vault fails before the refresh of a kept pair → 503 before the call; the next post refreshes the pair")
    func renewalIsUnsealed() async throws {
        let inner = try OpenSSLVault(ring: KeyRing.generate(now: TestClock.start, random: SystemRandom.bytes))
        let vault = CountingVault(inner)
        let broker = try broker(.init(identify: [gone]), vault: inner, behind: vault)
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        broker.provider.script.withLock { $0.identify = [refusesToken] }
        broker.clock.advance(.seconds(61))
        vault.failsToSeal(.tokens)
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        #expect(sent(broker) == ["rt-of-the-app"])
        vault.failsToSeal(nil)
        broker.provider.script.withLock { $0.identify = [refusesToken] }
        _ = try await broker.forward(input())
        #expect(sent(broker) == ["rt-of-the-app", "rt-r1"])
    }

    @Test("Userinfo refuses a new access token at the end of the import's time → 503 before a refresh of the pair")
    func tooLateToRenew() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        broker.provider.identifying.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the user is being read") { broker.provider.identifying.waiting > 0 }
        broker.clock.advance(.seconds(16))
        broker.provider.identifying.open()
        #expect(await problem { try await request.value }?.code == .providerUnavailable)
        #expect(calls(broker) == 1)
        _ = try await broker.forward(input())
        #expect(calls(broker) == 1)
    }

    @Test("The provider answers the refresh of a new pair with 429 → all of its imports wait")
    func renewalIsLimited() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        broker.provider.script.withLock {
            $0.laterImports = [.retryable(status: 429, retryAfter: .seconds(90), detail: "")]
        }
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        #expect(await problem { try await broker.forward(input("rt-of-another-app")) }?.code == .providerUnavailable)
        #expect(calls(broker) == 2)
    }

    @Test("The refresh of a new pair shows another certificate than the pair's → a refusal keeps the pair")
    func renewalShowsAnother() async throws {
        let broker = try broker(.init(certificate: "first", tokenLifetime: .seconds(300))) {
            $0.senderConstraint = .mtls
        }
        broker.provider.script.withLock { script in
            script.identify = [gone]
            script.laterImports = [refusal("invalid_grant")]
        }
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        broker.clock.advance(.seconds(301))
        broker.provider.script.withLock { script in
            script.identify = []
            script.certificate = "second"
        }
        #expect(await problem { try await broker.forward(input()) }?.code == .providerError)
        #expect(sent(broker) == ["rt-of-the-app", "rt-r1"])
        _ = try await broker.forward(input())
    }

    @Test("The refresh of a new pair leaves out the id_token and the scope → those of the pair stay")
    func renewalIsSparse() async throws {
        let broker = try broker(.init(identify: [refusesToken], refreshedSubject: .subject("user-1")))
        broker.provider.script.withLock { $0.refreshedScope = ["email"] }
        broker.provider.identifying.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the user is being read") { broker.provider.identifying.waiting > 0 }
        broker.provider.script.withLock { script in
            script.refreshedScope = nil
            script.refreshedSubject = .absent
        }
        broker.provider.identifying.open()
        let digest = broker.vault.digest(try await request.value.token)
        let session = try #require(try await broker.store.session(tokenDigest: digest))
        let stored = try StoredTokens.open(session, broker.context)
        #expect(stored.tokens.idToken?.reveal() == "id" && stored.tokens.scope == ["email"])
    }

    @Test("A bound pair is refreshed → the call has proofs by the pair's key, and knows that the server uses nonces")
    func renewalIsProved() async throws {
        let broker = try broker(.init(identify: [refusesToken])) { $0.senderConstraint = .dpop }
        _ = try await broker.forward(input())
        let imports = broker.provider.script.withLock { $0.imports }
        #expect(imports.map(\.usesNonces) == [false, true])
        #expect(imports[0].proof?.key.publicKey.x == imports[1].proof?.key.publicKey.x)
    }

    @Test("A pair was kept a minute ago, or a little less → a refused access token lets it be refreshed, or rest")
    func rest() throws {
        let kept = WallTime(seconds: 1_000)
        let pair = GrantedPair(tokens: TokenSet(accessToken: Secret("at"), refreshToken: Secret("rt")), keptSince: kept)
        let imported = ImportedTokens(accessToken: nil, refreshToken: Secret("old"), merchantID: nil)
        for (seconds, token) in [(Int64(59), String?.none), (60, "rt")] {
            let now = kept.advanced(by: .seconds(seconds))
            #expect(pair.tokenToRefresh(after: refusesToken, imported, at: now)?.reveal() == token)
        }
    }

    @Test("A pair is marked → its access token counts as expired, even if the clock is at 1970")
    func marked() throws {
        let tokens = TokenSet(accessToken: Secret("at"), refreshToken: Secret("rt"))
        for calls in 0...2 {
            let pair = GrantedPair(
                tokens: GrantedPair(tokens: tokens).marked(calls: calls), keptSince: WallTime(seconds: 0))
            #expect(pair.calls == calls)
            #expect((try? pair.checkAge(at: WallTime(seconds: 0))) == nil ? calls > 0 : calls == 0)
        }
    }

    @Test("Another process spends an import while the pair is refreshed → the newer tokens are revoked")
    func spentDuringRenewal() async throws {
        let broker = try broker(.init(identify: [refusesToken]))
        broker.clock.stopRenewals()
        broker.provider.identifying.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the user is being read") { broker.provider.identifying.waiting > 0 }
        broker.provider.renewing.close()
        broker.provider.identifying.open()
        try await eventually("the pair is being refreshed") { broker.provider.renewing.waiting > 0 }
        let other = try TestBroker(
            store: broker.store, vault: broker.vault,
            provider: ScriptedProvider(
                profile: broker.provider.profile, clock: broker.clock,
                script: .init(refresh: [refusal("invalid_grant")])), clients: broker.provider.profile.clients,
            clock: broker.clock)
        broker.clock.advance(.seconds(26))
        #expect(end(await problem { try await other.forward(input()) }) == .refreshLost)
        #expect(try await broker.store.outboxCount() == 1)
        broker.provider.renewing.open()
        #expect(end(await problem { try await request.value }) == .refreshLost)
        #expect(try await broker.store.outboxCount() == 2)
    }

    @Test(
        "The tokens of an import expire while each read of the user fails → the next post refreshes them",
        arguments: [nil, "rt-of-the-app"])
    func keptTokensExpire(_ onlyRefreshToken: String?) async throws {
        let broker = try broker(
            .init(identify: [gone], tokenLifetime: .seconds(300), onlyRefreshToken: onlyRefreshToken))
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        broker.clock.advance(.seconds(301))
        broker.provider.script.withLock { $0.identify = [] }
        _ = try await broker.forward(input())
        #expect(calls(broker) == 2)
        // A server with idempotency keys would repeat its first answer.
        #expect(broker.provider.script.withLock { Set($0.imports.map(\.idempotencyKey)).count } == 2)
    }

    @Test("Userinfo refuses a new access token, and the provider kept the app's refresh token → 503, after one call")
    func tokenStays() async throws {
        let broker = try broker(.init(identify: [refusesToken], onlyRefreshToken: "rt-of-the-app"))
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        #expect(calls(broker) == 1)
        _ = try await broker.forward(input())
        #expect(calls(broker) == 1)
    }

    @Test("A provider only reports the token's owner, and refuses the access token → 502, after one call")
    func asksAndRefuses() async throws {
        let broker = try broker(.init(identify: [refusesToken], spendsImportedTokens: false))
        #expect(await problem { try await broker.forward(input()) }?.code == .identityRejected)
        #expect(calls(broker) == 1)
    }

    @Test("The provider only reports the token's owner → each call may be repeated, and the row stays small")
    func asksOnly() async throws {
        let broker = try broker(.init(spendsImportedTokens: false))
        for _ in 0..<4 {
            broker.provider.script.withLock { $0.identify = [gone] }
            #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
            #expect(try await row(broker)?.imported?.pairKeptAt == nil)
        }
        broker.provider.script.withLock { $0.identify = [] }
        _ = try await broker.forward(input())
        #expect(calls(broker) == 5)
    }

    @Test("Another client posts the token of a kept pair, with the same `login_token` → refused, and the pair stays")
    func anotherClient() async throws {
        let clients = ["ios", "android"].map { name in
            ClientProfile(
                name: ClientName(unchecked: name), redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [],
                importTokens: true)
        }
        let broker = try TestBroker(clients: clients, script: .init(identify: [gone]))
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        broker.provider.script.withLock { $0.identify = [] }
        let other = input { $0.client = ClientName(unchecked: "android") }
        #expect(await problem { try await broker.forward(other) }?.code == .codeAlreadyUsed)
        _ = try await broker.forward(input())
        #expect(calls(broker) == 1)
    }

    @Test("Another process takes an import over before the first answer arrives → 503, and the outbox stays empty")
    func lapsedDuringCall() async throws {
        let broker = try broker()
        broker.clock.stopRenewals()
        broker.provider.gate.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the import's call is at the provider") { broker.provider.gate.waiting > 0 }
        let other = try TestBroker(
            store: broker.store, vault: broker.vault,
            provider: ScriptedProvider(profile: broker.provider.profile, clock: broker.clock),
            clients: broker.provider.profile.clients, clock: broker.clock)
        broker.clock.advance(.seconds(26))
        _ = try await other.forward(input())
        broker.provider.gate.open()
        #expect(await problem { try await request.value }?.code == .providerUnavailable)
        #expect(try await broker.store.outboxCount() == 0)
    }

    // MARK: Many at once

    @Test("128 imports are in progress → a further one gets 503 before it is claimed, and a finished one is repeated")
    func full() async throws {
        let broker = try broker()
        _ = try await broker.forward(input())
        broker.provider.gate.close()
        let posts = (0..<ImportRoom.limit).map { number in
            Task { try await broker.forward(input("token \(number)")) }
        }
        try await eventually("all imports are at the provider") { broker.provider.gate.waiting == ImportRoom.limit }
        let problem = await problem { try await broker.forward(input("one more")) }
        #expect(problem?.code == .providerUnavailable && problem?.retry == nil)
        #expect(problem?.retryAfter.map { (1...30).contains($0.components.seconds) } == true)
        #expect(try await broker.store.exchange(broker.vault.index(.importedTokens, ["as", "one more"])) == nil)
        _ = try await broker.forward(input())
        broker.provider.gate.open()
        for post in posts { _ = try await post.value }
        _ = try await broker.forward(input("one more"))
        #expect(calls(broker) == ImportRoom.limit + 2)
    }

    @Test(
        "An address begins many imports that fail → limited by `per_minute` if the client has it, and else like sign-ins",
        arguments: [(nil, 2), (5, 5), (1, 2)])
    func paced(perMinute: Int?, allowed: Int) async throws {
        let broker = try broker(.init(refresh: Array(repeating: away, count: 20))) { $0.importsPerMinute = perMinute }
        var limits = ChargeLimits(loginsPerMinute: 2)
        limits.importsPerMinute = perMinute ?? 0
        let charge = Charge(
            IPAddress(high: 0, low: 0xFFFF_0A00_0001),
            in: ChargeLedger(limits, monotonic: broker.clock.clock.monotonic))
        var codes: [ProblemCode?] = []
        for number in 0...allowed {
            let post = input("rt-\(number)") { $0.charge = charge }
            codes.append(await problem { try await broker.forward(post) }?.code)
        }
        #expect(codes == Array(repeating: .providerUnavailable, count: allowed) + [.rateLimited])
        #expect(calls(broker) == allowed)
        // Imports with a limit of their own leave the limit of sign-ins alone.
        #expect((await problem { try charge.takeFurtherCall() } == nil) == (perMinute != nil))
    }

    @Test("The provider answers an import with 429 → all of its imports wait for the time that the answer names")
    func held() async throws {
        let broker = try broker(.init(refresh: [.retryable(status: 429, retryAfter: .seconds(7), detail: "")]))
        for token in ["a", "b"] {
            let problem = await problem { try await broker.forward(input(token)) }
            #expect(problem?.code == .providerUnavailable && problem?.retryAfter == .seconds(7))
        }
        #expect(calls(broker) == 1)
        broker.clock.advance(.seconds(8))
        for token in ["a", "b"] { _ = try await broker.forward(input(token)) }
        #expect(calls(broker) == 3)
    }

    @Test("An import's room is taken and left → the limit holds for each provider, and a pause is at most an hour")
    func room() {
        let (room, first, second) = (ImportRoom(), ProviderName(unchecked: "a"), ProviderName(unchecked: "b"))
        for _ in 0..<ImportRoom.limit { #expect(room.enter(first, at: .zero) == .open) }
        #expect(room.enter(first, at: .zero) == .full && room.entry(second, at: .zero) == .open)
        room.leave(first)
        #expect(room.enter(first, at: .zero) == .open && room.enter(first, at: .zero) == .full)
        room.hold(second, for: .seconds(9_000), at: .zero)
        room.hold(second, for: nil, at: .zero)
        #expect(room.enter(second, at: .seconds(1)) == .held(.seconds(3599)))
        #expect(room.enter(second, at: .seconds(3600)) == .open)
    }

    // MARK: Counting

    @Test("Posts of imported tokens have different results → each post is counted one time, with its result")
    func results() async throws {
        func results(_ broker: TestBroker) -> [ImportResult] {
            broker.events.all.compactMap { if case .imported(_, _, _, let result) = $0 { result } else { nil } }
        }
        let first = try broker(.init(refresh: [away, refusal("invalid_client")]))
        for _ in 0..<4 { _ = await problem { try await first.forward(input()) } }
        _ = await problem { try await first.forward(input { $0.loginToken = nil }) }
        _ = await problem { try await first.forward(input { $0.scope = [] }) }
        #expect(results(first) == [.unavailable, .wrongClient, .moved, .repeated, .repeated])
        let ends: [(ScriptedProvider.Script, ImportResult)] = [
            (.init(refresh: [refusal("invalid_grant")]), .grantRevoked), (.init(refresh: [lost, lost]), .refreshLost),
            (.init(identify: [.identityRejected(detail: "")]), .identity),
        ]
        for (script, result) in ends {
            let broker = try broker(script)
            try await grant(broker)
            for _ in 0..<2 { _ = await problem { try await broker.forward(input()) } }
            #expect(results(broker) == [result, result])
        }
    }

    // MARK: Repeats

    @Test(
        "An imported token is posted again after the repeat window, within 30 days → `code_already_used`, and one call in all"
    )
    func movedLongAgo() async throws {
        let broker = try broker()
        let first = try await broker.forward(input())
        let second = try await broker.forward(input())
        #expect(first.token.reveal() == second.token.reveal())
        _ = try await broker.useCases.resumeSession.use(first.token)
        try await untilWritten(first, broker)
        for days in [1, 13, 15] {
            broker.clock.advance(.seconds(86_400 * days))
            _ = try await Sweeper(broker.context, owner: "a").sweep()
            #expect(await problem { try await broker.forward(input()) }?.code == .codeAlreadyUsed)
        }
        #expect(calls(broker) == 1)
    }

    @Test("An import is repeated days later, and its session is unused → the same session each time")
    func unusedRepeat() async throws {
        let broker = try broker()
        let first = try await broker.forward(input())
        #expect(first.session.lastUsedAt == first.session.createdAt)
        for days in [1, 13, 14] {
            broker.clock.advance(.seconds(86_400 * days))
            _ = try await Sweeper(broker.context, owner: "a").sweep()
            #expect(try await broker.forward(input()).token.reveal() == first.token.reveal())
        }
        let other = input { $0.loginToken = Secret(String(repeating: "m", count: 43)) }
        #expect(await problem { try await broker.forward(other) }?.code == .codeAlreadyUsed)
        _ = try await broker.useCases.resumeSession.use(first.token)
        #expect(await problem { try await broker.forward(input()) }?.code == .codeAlreadyUsed)
        #expect(calls(broker) == 1)
    }

    @Test(
        "An import's session is used a minute after it was made → a repeat after ten minutes gets `code_already_used`")
    func usedEarly() async throws {
        let broker = try broker()
        let first = try await broker.forward(input())
        broker.clock.advance(.seconds(60))
        _ = try await broker.useCases.resumeSession.use(first.token)
        #expect(try await broker.forward(input()).token.reveal() == first.token.reveal())
        try await untilWritten(first, broker)
        broker.clock.advance(.seconds(600))
        #expect(await problem { try await broker.forward(input()) }?.code == .codeAlreadyUsed)
    }

    @Test("Another process records the first use of an import's session → a late repeat here gets `code_already_used`")
    func usedElsewhere() async throws {
        let broker = try broker()
        let other = try self.broker(store: broker.store, vault: broker.vault, clock: broker.clock)
        let first = try await broker.forward(input())
        broker.clock.advance(.seconds(700))
        #expect(try await broker.forward(input()).token.reveal() == first.token.reveal())
        _ = try await other.useCases.resumeSession.use(first.token)
        try await untilWritten(first, broker)
        #expect(await problem { try await broker.forward(input()) }?.code == .codeAlreadyUsed)
    }

    @Test("A post presents the very session that its token has become → this session, at any time")
    func presentedSession() async throws {
        let broker = try broker()
        let first = try await broker.forward(input { $0.loginToken = nil })
        let foreign = try await broker.forward(input("rt-of-another") { $0.loginToken = nil })
        _ = try await broker.useCases.resumeSession.use(first.token)
        broker.clock.advance(.seconds(20 * 86_400))
        let bare = input { $0.loginToken = nil }
        #expect(await problem { try await broker.forward(bare) }?.code == .codeAlreadyUsed)
        let wrong = input { ($0.loginToken, $0.presentedSession) = (nil, foreign.token) }
        #expect(await problem { try await broker.forward(wrong) }?.code == .codeAlreadyUsed)
        let right = input { ($0.loginToken, $0.presentedSession) = (nil, first.token) }
        #expect(try await broker.forward(right).token.reveal() == first.token.reveal())
        #expect(try await broker.useCases.resumeSession.resume(foreign.token).row.endedAt == nil)
        #expect(calls(broker) == 2)
    }

    @Test("A post presents the session of its token, but names another client → `code_already_used`")
    func presentedByAnotherClient() async throws {
        let clients = ["ios", "android"].map { name in
            ClientProfile(
                name: ClientName(unchecked: name), redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [],
                importTokens: true)
        }
        let broker = try TestBroker(clients: clients)
        let first = try await broker.forward(input { $0.loginToken = nil })
        let other = input {
            ($0.loginToken, $0.presentedSession) = (nil, first.token)
            $0.client = ClientName(unchecked: "android")
        }
        #expect(await problem { try await broker.forward(other) }?.code == .codeAlreadyUsed)
        #expect(calls(broker) == 1)
    }

    @Test(
        "A client's time for imports is longer than 30 days → a moved token stays away from the provider until its end",
        arguments: [100, 1000])
    func keptUntil(days: Int) async throws {
        let clock = TestClock()
        let end = clock.now.advanced(by: .seconds(86_400 * days))
        let broker = try broker(clock: clock) { client in
            client.importsUntil = end
            client.lifetimes = SessionLifetimes(idle: .seconds(86_400), absolute: .seconds(86_400))
        }
        _ = try await broker.forward(input())
        let kept = min(days, 367)
        broker.clock.advance(.seconds(86_400 * (kept - 1)))
        _ = try await Sweeper(broker.context, owner: "a").sweep()
        #expect(await problem { try await broker.forward(input()) }?.code == .codeAlreadyUsed)
        #expect(try await row(broker)?.imported?.keptUntil == clock.now.advanced(by: .seconds(86_400)))
        #expect(calls(broker) == 1)
    }

    @Test("An import that lacks a `login_token` is repeated → `code_already_used`")
    func bareRepeat() async throws {
        let broker = try broker()
        let bare = input { $0.loginToken = nil }
        _ = try await broker.forward(bare)
        #expect(await problem { try await broker.forward(bare) }?.code == .codeAlreadyUsed)
    }
}
