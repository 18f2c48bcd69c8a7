import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

@Suite("Tokens that are bound to a key of the broker", .timeLimit(.minutes(2)))
struct BoundTokensTests {
    private static func client(
        _ constraint: SenderConstraint = .dpop, _ change: (inout ClientProfile) -> Void = { _ in }
    ) -> ClientProfile {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [], scope: ["openid", "email"], nonce: true,
            revocationReach: .token)
        client.senderConstraint = constraint
        change(&client)
        return client
    }

    private func broker(
        _ script: ScriptedProvider.Script = .init(), after other: TestBroker? = nil,
        _ constraint: SenderConstraint = .dpop
    ) throws -> TestBroker {
        try TestBroker(
            store: other?.store, vault: other?.vault, clients: [Self.client(constraint)], script: script,
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

    // MARK: The sign-in

    @Test(
        "Another process finishes a login → this process uses the login's own key for the code and for the session's tokens"
    )
    func login() async throws {
        let first = try broker()
        let login = try await first.start()
        let other = try await first.start()
        let pushed = first.provider.script.withLock { $0.requests.compactMap(\.proof?.thumbprint) }
        #expect(pushed.count == 2 && Set(pushed).count == 2)
        // Another process continues the login. It knows the login only from the store.
        let second = try broker(after: first)
        let signedIn = try await second.forward(second.callback(login), login.loginToken)
        let grant = try #require(second.provider.script.withLock { $0.grants.first })
        #expect(grant.proof?.thumbprint == pushed.first)
        #expect(
            try second.provider.script.withLock { try #require($0.contexts.first).proof?.thumbprint } == pushed.first)
        let tokens = try await stored(second, signedIn).tokens
        #expect(tokens.credential == .dpop && tokens.key?.usesNonces == true)
        #expect(tokens.key?.pair.publicKey == grant.proof?.key.publicKey)
        #expect(try await access(second, signedIn).key?.publicKey == grant.proof?.key.publicKey)
        _ = other
    }

    @Test(
        "The client's tokens are not sender-constrained → provider calls have no proof, and the stored records are unchanged"
    )
    func unbound() async throws {
        let broker = try broker(.init(), .off)
        let signedIn = try await broker.signIn()
        let script = broker.provider.script.withLock { $0 }
        #expect(script.requests.allSatisfy { $0.proof == nil } && script.grants.allSatisfy { $0.proof == nil })
        let stored = try await stored(broker, signedIn)
        #expect(stored.tokens.key == nil && stored.record.first == 1)
    }

    @Test("A login began before DPoP was configured → all attempts to redeem its code use one key")
    func appLogin() async throws {
        let before = try broker(.init(), .off)
        let login = try await before.start()
        var script = ScriptedProvider.Script()
        script.redeem = [.retryable(status: 503, retryAfter: nil, detail: "")]
        let after = try broker(script, after: before)
        _ = await problem { try await after.forward(after.callback(login), login.loginToken) }
        _ = try await after.forward(after.callback(login), login.loginToken)
        let keys = after.provider.script.withLock { $0.grants.map { $0.proof?.thumbprint } }
        #expect(keys.count == 2 && keys[0] != nil && keys[0] == keys[1])
        #expect(after.provider.script.withLock { $0.requests.isEmpty })
    }

    @Test(
        "DPoP is no longer configured → a login that began with a key still uses it, and so do the refreshes of its session"
    )
    func settingGone() async throws {
        let before = try broker()
        let login = try await before.start()
        let after = try broker(.init(), after: before, .off)
        let signedIn = try await after.forward(after.callback(login), login.loginToken)
        let pushed = before.provider.script.withLock { $0.requests.first?.proof?.thumbprint }
        #expect(after.provider.script.withLock { $0.grants.first?.proof?.thumbprint } == pushed)
        _ = try await after.useCases.refreshTokens.refreshNow(
            try await after.useCases.resumeSession.resume(signedIn.token))
        #expect(after.provider.script.withLock { $0.refreshes.first?.proof?.thumbprint } == pushed)
    }

    @Test(
        "The token answer to a code is Bearer, not DPoP → 502; the code is spent, and its tokens go to the outbox without a key"
    )
    func bearerAtCode() async throws {
        var script = ScriptedProvider.Script()
        script.binds = false
        let broker = try broker(script)
        let login = try await broker.start()
        for _ in 0..<2 {
            let problem = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
            #expect(problem?.code == .providerError)
        }
        #expect(broker.provider.grants == 1)
        let outbox = try await broker.store.takeOutbox(
            now: broker.clock.now.advanced(by: .seconds(1)), until: broker.clock.now.advanced(by: .seconds(60)),
            limit: 9)
        let row = try #require(outbox.first)
        let record = try broker.vault.open(row.tokens, as: .tokens, row: row.boundTo)
        #expect(record.first == 1 && outbox.count == 1)
    }

    @Test(
        "A sign-in makes no session → its tokens go to the outbox without a key, so an older release can revoke them"
    )
    func outbox() async throws {
        var script = ScriptedProvider.Script()
        script.identify = [.identityRejected(detail: "")]
        let broker = try broker(script)
        let login = try await broker.start()
        _ = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        let rows = try await broker.store.takeOutbox(
            now: broker.clock.now.advanced(by: .seconds(1)), until: broker.clock.now.advanced(by: .seconds(60)),
            limit: 9)
        let row = try #require(rows.first)
        let record = try broker.vault.open(row.tokens, as: .tokens, row: row.boundTo)
        #expect(record.first == 1)
        #expect(try StoredTokens(record: record).tokens.refreshToken?.reveal() == "rt-1")
        #expect(try StoredTokens(record: record).tokens.key == nil)
        // Both this release and the former release can revoke the tokens of the row, because a revocation works without a
        // proof.
        try await broker.store.postponeOutbox(row.id, until: broker.clock.now, counting: false)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(broker.provider.script.withLock { $0.revoked } == 1)
        #expect(try await broker.store.outboxCount() == 0)
    }

    @Test(
        "The provider refuses the proof of the call that redeems a code → `provider_error`, and never `code_rejected`")
    func proofRefused() async throws {
        var script = ScriptedProvider.Script()
        script.redeem = [.rejected(OAuthError(status: 400, code: "invalid_dpop_proof"))]
        let broker = try broker(script)
        let login = try await broker.start()
        let problem = await problem { try await broker.forward(broker.callback(login), login.loginToken) }
        #expect(problem?.code == .providerError)
    }

    // MARK: Stored values

    @Test("A record of tokens or of a login has a key → an older release reports a newer format")
    func olderRelease() throws {
        let vault = try TestBroker().vault
        let pair = try vault.proofKeyPair(seed: try vault.random(32))
        var tokens = TokenSet(credential: .dpop, accessToken: Secret("at"), refreshToken: Secret("rt"))
        tokens.key = TokenKey(pair: pair, usesNonces: true)
        let stored = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), tokens: tokens,
            issuedAt: WallTime(seconds: 1))
        #expect(throws: RecordFailure.newerFormat) { _ = try RecordReader(stored.record, format: 1) }
        let back = try StoredTokens(record: stored.record)
        #expect(back.tokens.key?.pair.publicKey == pair.publicKey && back.tokens.key?.usesNonces == true)
        #expect(back.tokens.key?.pair.scalar.reveal() == pair.scalar.reveal())
        for thumbprint in [nil, vault.digest([1])] {
            let login = LoginSecrets(
                provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), redirectURI: "a:/",
                verifier: nil, appChallenge: nil, nonce: nil, scope: [],
                issuer: IssuerExpectation(issuer: nil, demanded: false), socialProvider: nil,
                demands: SignInDemands(), providerStarted: false, thumbprint: thumbprint, key: pair)
            #expect(throws: RecordFailure.newerFormat) { _ = try RecordReader.bindable(login.record) }
            let back = try LoginSecrets(record: login.record)
            #expect(back.key?.publicKey == pair.publicKey && back.thumbprint == thumbprint)
        }
    }

    @Test("The key in a record is damaged → the whole record counts as damaged, without a crash")
    func damaged() throws {
        let vault = try TestBroker().vault
        var tokens = TokenSet(credential: .dpop, accessToken: Secret("at"))
        tokens.key = TokenKey(pair: try vault.proofKeyPair(seed: try vault.random(32)))
        let record = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), tokens: tokens,
            issuedAt: WallTime(seconds: 1)
        ).record
        for length in 1..<record.count {
            #expect(throws: (any Error).self) { _ = try StoredTokens(record: Array(record.prefix(length))) }
        }
        var changed = record
        changed[9] = 0x21
        #expect(throws: RecordFailure.malformed) { _ = try StoredTokens(record: changed) }
    }

    @Test(
        "A process with a fast clock stored a withheld token → a process whose clock is up to 59 s slower also waits for 30 s"
    )
    func withheldBehind() throws {
        let vault = try TestBroker().vault
        var tokens = TokenSet(accessToken: Secret(""), refreshToken: Secret("rt"))
        tokens.key = TokenKey(pair: try vault.proofKeyPair(seed: try vault.random(32)))
        let asked = WallTime(seconds: 1000)
        let stored = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), tokens: tokens,
            issuedAt: asked)
        for (age, rest) in [(-61, nil), (-60, nil), (-59, 30), (-1, 30), (0, 30), (10, 20), (30, nil)] as [(Int, Int?)]
        {
            #expect(
                stored.withheldFor(at: asked.advanced(by: .seconds(age))) == rest.map { Duration.seconds($0) }, "\(age)"
            )
        }
    }

    // MARK: The refresh

    private func refresh(_ broker: TestBroker, _ signedIn: SignedIn) async -> BrokerProblem? {
        await problem {
            try await broker.useCases.refreshTokens.refreshNow(
                try await broker.useCases.resumeSession.resume(signedIn.token))
        }
    }

    @Test(
        "The answer to a refresh is Bearer, not DPoP → its refresh token is stored; after a pause, a new access token is fetched"
    )
    func bearerAtRefresh() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        broker.provider.script.withLock { $0.binds = false }
        let first = await refresh(broker, signedIn)
        #expect(first?.code == .providerUnavailable)
        let kept = try await stored(broker, signedIn).tokens
        #expect(kept.refreshToken?.reveal() == "rt-r1" && kept.accessToken.isEmpty && kept.isWithheld)
        #expect(kept.key != nil)
        #expect(broker.events.all.contains { if case .tokenNotBound = $0 { true } else { false } })
        // The access token is withheld. Each process waits for the end of the pause before it calls the provider.
        broker.provider.script.withLock { $0.binds = true }
        let replica = try self.broker(after: broker)
        broker.clock.advance(.seconds(29))
        for one in [broker, replica] {
            let refused = await problem { try await access(one, signedIn) }
            #expect(refused?.code == .providerUnavailable)
            #expect((refused?.retryAfter ?? .zero) <= .seconds(30))
        }
        #expect(broker.provider.refreshes == 1 && replica.provider.refreshes == 0)
        broker.clock.advance(.seconds(2))
        let token = try await access(replica, signedIn)
        #expect(!token.token.isEmpty && token.key != nil)
        #expect(replica.provider.script.withLock { $0.refreshes.last?.refreshToken.reveal() } == "rt-r1")
    }

    @Test(
        "DPoP is configured after a sign-in → all processes offer one key for its tokens; the provider ignores it → still unbound"
    )
    func olderSessions() async throws {
        let before = try broker(.init(), .off)
        let signedIn = try await before.signIn()
        var script = ScriptedProvider.Script()
        script.refresh = [.lost(detail: ""), .lost(detail: "")]
        let after = try broker(script, after: before)
        _ = await refresh(after, signedIn)
        before.clock.advance(.seconds(10))
        let replica = try broker(after: before)
        replica.provider.script.withLock { $0.binds = false }
        #expect(await refresh(replica, signedIn) == nil)
        let offered = [after, replica].flatMap {
            $0.provider.script.withLock { $0.refreshes.map { $0.proof?.thumbprint } }
        }
        #expect(offered.count == 3 && offered[0] != nil && Set(offered).count == 1)
        #expect(try await stored(replica, signedIn).tokens.key == nil)
        #expect(try await access(replica, signedIn).credential == .bearer)
        replica.provider.script.withLock { $0.binds = true }
        before.clock.advance(.seconds(60))
        #expect(await refresh(replica, signedIn) == nil)
        #expect(try await stored(replica, signedIn).tokens.key != nil)
    }

    /// Makes the provider refuse the refreshes of a bound session.
    ///
    /// Returns the number of calls, and the reason if the session ended.
    private func ending(
        _ failures: [ProviderFailure], _ arrange: @escaping @Sendable (RefreshSending) -> Void = { _ in }
    ) async throws -> (reason: EndReason?, calls: Int) {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        broker.provider.script.withLock { script in
            script.refresh = failures
            script.meetsSending = arrange
        }
        _ = await refresh(broker, signedIn)
        let row = try #require(try await broker.store.session(tokenDigest: broker.vault.digest(signedIn.token)))
        return (row.endReason, broker.provider.refreshes)
    }

    private func invalidGrant(old: Bool = false, doubt: OAuthError.Doubt? = nil) -> ProviderFailure {
        var error = OAuthError(status: 400, code: "invalid_grant")
        error.doubt = doubt
        error.isOfOldProof = old
        return .rejected(error)
    }

    @Test(
        "A refresh with a proof gets `invalid_grant` → the session is condemned only if the proof had the newest nonce")
    func condemnation() async throws {
        #expect(try await ending([invalidGrant()]) == (.grantRevoked, 1))
        #expect(try await ending([invalidGrant(old: true), invalidGrant(old: true)]) == (nil, 2))
        #expect(try await ending([invalidGrant(old: true), invalidGrant()]) == (.grantRevoked, 2))
        #expect(try await ending([invalidGrant(old: true)]) == (nil, 2))
    }

    @Test(
        "A server may spend the refresh token, then demand a nonce, and then answer `invalid_grant` → treated as a lost answer"
    )
    func spentFirst() async throws {
        let spends: @Sendable (RefreshSending) -> Void = { $0.markMayBeSpent() }
        #expect(try await ending([invalidGrant(), invalidGrant()], spends) == (.refreshLost, 2))
        #expect(try await ending([invalidGrant()], spends) == (nil, 2))
    }

    @Test("The provider refuses the proof of each refresh → the session stays, and the refusal is logged")
    func proofRefusedAtRefresh() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        for _ in 0..<5 {
            broker.provider.script.withLock {
                $0.refresh = [.rejected(OAuthError(status: 400, code: "invalid_dpop_proof"))]
            }
            let problem = await refresh(broker, signedIn)
            #expect(problem?.code == .providerUnavailable)
            broker.clock.advance(.seconds(400))
        }
        #expect(broker.provider.refreshes == 5)
        #expect(broker.events.all.contains { if case .proofRefused = $0 { true } else { false } })
        let row = try #require(try await broker.store.session(tokenDigest: broker.vault.digest(signedIn.token)))
        #expect(row.endReason == nil)
    }

    @Test("A refresh without a proof is refused → the session is not condemned at once, and operators get one event")
    func bare() async throws {
        for failures in [[invalidGrant(doubt: .noProof)], [.lost(detail: ""), invalidGrant(doubt: .noProof)]] {
            for spends in [false, true] {
                let (reason, calls) = try await ending(failures) {
                    $0.markBare()
                    if spends { $0.markMayBeSpent() }
                }
                #expect(reason == nil && calls == failures.count, "\(failures)")
            }
        }
        let broker = try broker()
        let signedIn = try await broker.signIn()
        broker.provider.script.withLock { $0.meetsSending = { $0.markBare() } }
        _ = await refresh(broker, signedIn)
        let told = broker.events.all.filter { if case .proofRefused = $0 { true } else { false } }
        #expect(told.count == 1 && broker.provider.refreshes == 1)
    }

    // MARK: The operator's view

    @Test(
        "Operators list sessions → each entry shows whether its tokens are bound; in the user's own list, no entry does"
    )
    func listed() async throws {
        func shown(_ broker: TestBroker, _ state: SessionState = .live) async throws -> [SenderConstraint?] {
            try await broker.useCases.adminSessions.list(.init(), state, cursor: nil).items.map(\.senderConstraint)
        }
        let broker = try broker()
        let signedIn = try await broker.signIn()
        let gone = try self.broker(after: broker, .off)
        #expect(try await shown(broker) == [.dpop])
        #expect(try await shown(gone) == [.dpop])
        let owner = try await broker.useCases.resumeSession.resume(signedIn.token)
        let own = try await ListSessions(broker.context).list(for: owner, cursor: nil)
        #expect(own.items.count == 1 && own.items.allSatisfy { $0.senderConstraint == nil })
        try await broker.useCases.endSession.logOut(signedIn.token)
        #expect(try await shown(broker, .ended) == [nil])
        let unbound = try self.broker(.init(), .off)
        _ = try await unbound.signIn()
        #expect(try await shown(unbound) == [nil])
    }

    // MARK: The ending

    @Test("A session with a withheld access token ends → its other tokens are revoked")
    func revoked() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        broker.provider.script.withLock { $0.binds = false }
        _ = await refresh(broker, signedIn)
        try await broker.useCases.endSession.logOut(signedIn.token)
        _ = try await Revocations(broker.context).work()
        #expect(broker.provider.script.withLock { $0.revoked } == 1)
    }

    @Test("A backend asks for a proof for one request → granted for any host, except for the provider's own endpoints")
    func backend() async throws {
        let broker = try broker()
        let signedIn = try await broker.signIn()
        let session = try await broker.useCases.resumeSession.resume(signedIn.token)
        let access = try await access(broker, signedIn)
        func proof(_ address: String) async throws -> String {
            try await broker.useCases.proveForBackend.proof(
                of: access, for: ProveForBackend.Target(method: "GET", address: address, nonce: "n-1"), session: session
            )
        }
        let made = try DPoPProof([try await proof("https://api.example.com/orders")])
        #expect(made.address == "https://api.example.com/orders" && made.nonce == "n-1" && made.method == "GET")
        #expect(made.tokenHash == Base64URL.encode(broker.vault.digest(access.token).bytes))
        #expect(made.key == access.key?.publicKey)
        for own in ["https://as.example/token", "HTTPS://AS.example:443/x/../token", "https://as.example/%74oken"] {
            let refused = await problem { try await proof(own) }
            #expect(refused?.code == .invalidRequest && refused?.errors.first?.code == .notAllowed, "\(own)")
        }
    }

    @Test("An app asks for its DPoP-bound token → `client_not_allowed`")
    func handedOut() async throws {
        let broker = try TestBroker(clients: [Self.client { $0.handsOutAccessToken = true }])
        let signedIn = try await broker.signIn()
        let session = try await broker.useCases.resumeSession.resume(signedIn.token)
        let refused = await problem { try await broker.useCases.handOutToken.handOut(from: session) }
        #expect(refused?.code == .clientNotAllowed)
    }
}
