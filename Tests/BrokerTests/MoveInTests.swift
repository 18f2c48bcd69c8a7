import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Sessions that are moved from an old system.
@Suite(.timeLimit(.minutes(2))) struct MoveInTests {
    private let loginToken = Secret(String(repeating: "l", count: 43))
    private let other = Secret(String(repeating: "m", count: 43))
    private let lost = ProviderFailure.lost(detail: "")
    private let away = ProviderFailure.retryable(status: 503, retryAfter: .seconds(7), detail: "")

    private func broker(
        _ script: ScriptedProvider.Script = .init(), store: (any BrokerStore)? = nil, vault: OpenSSLVault? = nil,
        clock: TestClock = TestClock(), isBelieved: Bool = false, settings: BrokerSettings = .init(),
        _ change: (inout ClientProfile) -> Void = { _ in }
    ) throws -> TestBroker {
        let clients = ["ios", "android"].map { name in
            var client = ClientProfile(
                name: ClientName(unchecked: name), redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [],
                importTokens: true)
            client.moveIn = MoveInPolicy(until: clock.now.advanced(by: .seconds(3600)), isBelieved: isBelieved)
            change(&client)
            return client
        }
        return try TestBroker(
            store: store, vault: vault, clients: clients, script: script, settings: settings, clock: clock)
    }

    private func input(
        _ token: String? = "old-session", _ change: (inout ForwardCodeInput) -> Void = { _ in }
    ) -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "ios")
        input.legacy = LegacyToken(token.map { Secret($0) })
        input.loginToken = loginToken
        change(&input)
        return input
    }

    private func claims(_ broker: TestBroker) -> [LegacyClaim] { broker.provider.script.withLock { $0.claims } }
    private func calls(_ broker: TestBroker) -> Int { broker.provider.script.withLock { $0.imports.count } }

    private func script(_ answers: Result<LegacyAnswer, ProviderFailure>...) -> ScriptedProvider.Script {
        .init(legacy: answers)
    }

    private func end(_ problem: BrokerProblem?) -> ImportEnd? {
        guard problem?.code == .loginRequired, case .importFailed(let end) = problem?.payload else { return nil }
        return end
    }

    private func fields(_ problem: BrokerProblem?) -> [FieldFault]? {
        if case .fields(let faults) = problem?.payload { faults } else { nil }
    }

    private func reason(_ problem: BrokerProblem?) -> ImportRefusal? {
        guard problem?.code == .clientNotAllowed, case .importRefused(let reason) = problem?.payload else { return nil }
        return reason
    }

    private func row(_ broker: TestBroker, _ token: String = "old-session") async throws -> ExchangeRow? {
        try await broker.store.exchange(broker.vault.index(.legacyToken, ["as", token]))
    }

    private func counted(_ broker: TestBroker) -> [String] {
        broker.events.all.compactMap {
            if case .imported(_, _, let way, let result) = $0 { "\(way.rawValue) \(result.rawValue)" } else { nil }
        }
    }

    private func answers(_ broker: TestBroker) -> [OldSystemResult] {
        broker.events.all.compactMap {
            if case .oldSystemAnswered(_, _, let result, _) = $0 { result } else { nil }
        }
    }

    // MARK: Refused posts

    @Test("`legacy` together with `tokens` → 400 at `/legacy`, before any question")
    func together() async throws {
        let broker = try broker()
        let both = input { $0.tokens = ImportedTokens(accessToken: nil, refreshToken: Secret("rt"), merchantID: nil) }
        #expect(fields(await problem { try await broker.forward(both) }) == [FieldFault("/legacy", .conflict)])
        #expect(claims(broker).isEmpty)
    }

    @Test("A legacy post lacks the token, or has a scope → 400 that names the member, before any question")
    func members() async throws {
        let broker = try broker()
        #expect(
            fields(await problem { try await broker.forward(input(nil)) })
                == [FieldFault("/legacy/token", .required)])
        let scoped = input { $0.scope = ["openid"] }
        #expect(fields(await problem { try await broker.forward(scoped) }) == [FieldFault("/scope", .notAllowed)])
        #expect(claims(broker).isEmpty)
    }

    @Test("The client lacks `move_in` → 403 `not_open`; `until` is over → 403 `closed`; both before any question")
    func window() async throws {
        let none = try broker { $0.moveIn = nil }
        #expect(reason(await problem { try await none.forward(input()) }) == .notOpen)
        let broker = try broker()
        broker.clock.advance(.seconds(3601))
        #expect(reason(await problem { try await broker.forward(input()) }) == .closed)
        #expect(claims(broker).isEmpty && claims(none).isEmpty)
        #expect(counted(broker) == ["legacy closed"])
    }

    @Test("The clock is in doubt → 503 for a new legacy token, before any question")
    func doubtedClock() async throws {
        let broker = try broker()
        _ = try await broker.forward(input())
        broker.clock.jump(.seconds(-86_400 * 365))
        #expect(await problem { try await broker.forward(input("another")) }?.code == .storeUnavailable)
        #expect(claims(broker).count == 1)
    }

    // MARK: Refused by the old system

    @Test("The old system refuses a legacy token → `unknown_session` for ten minutes, after one question")
    func refused() async throws {
        let broker = try broker(script(.success(.refused)))
        for token in [loginToken, other] {
            let problem = await problem { try await broker.forward(input { $0.loginToken = token }) }
            #expect(end(problem) == .unknownSession && problem?.login == nil)
        }
        #expect(claims(broker).count == 1 && calls(broker) == 0)
        let kept = try #require(try await row(broker))
        #expect(kept.imported?.keptUntil == kept.createdAt.advanced(by: .seconds(600)))
        broker.clock.advance(.seconds(601))
        _ = try await Sweeper(broker.context, owner: "a").sweep()
        _ = try await broker.forward(input())
        #expect(claims(broker).count == 2)
        #expect(counted(broker) == ["legacy unknown_session", "legacy unknown_session", "legacy moved"])
    }

    @Test("An address presents thirty refused legacy tokens in a minute → 429 before any question; others go on")
    func charged() async throws {
        let broker = try broker(.init(legacy: Array(repeating: .success(.refused), count: 30)))
        let ledger = ChargeLedger(ChargeLimits(), monotonic: broker.clock.clock.monotonic)
        let (address, neighbour) = (try #require(IPAddress("192.0.2.1")), try #require(IPAddress("192.0.2.2")))
        func post(_ token: String, from address: IPAddress) -> ForwardCodeInput {
            input(token) { $0.charge = Charge(address, in: ledger) }
        }
        for number in 0..<30 {
            #expect(
                end(await problem { try await broker.forward(post("made-up-\(number)", from: address)) })
                    == .unknownSession)
        }
        let limited = await problem { try await broker.forward(post("made-up-30", from: address)) }
        #expect(limited?.code == .rateLimited && limited?.retryAfter != nil)
        // A repeat of an existing row is free.
        #expect(
            end(await problem { try await broker.forward(post("made-up-0", from: address)) }) == .unknownSession)
        #expect(claims(broker).count == 30)
        _ = try await broker.forward(post("old-session", from: neighbour))
        #expect(counted(broker).suffix(3) == ["legacy limited", "legacy unknown_session", "legacy moved"])
    }

    @Test("A school's phones move from one address → all of them get sessions")
    func school() async throws {
        let broker = try broker()
        let ledger = ChargeLedger(ChargeLimits(), monotonic: broker.clock.clock.monotonic)
        let address = try #require(IPAddress("192.0.2.1"))
        for number in 0..<200 {
            broker.provider.script.withLock {
                $0.legacy = [.success(.session(LegacySession(refreshToken: Secret("rt-\(number)"))))]
            }
            _ = try await broker.forward(input("s-\(number)") { $0.charge = Charge(address, in: ledger) })
        }
    }

    @Test("The old system's decision is missing → 503 with its `Retry-After`, and the same post asks again")
    func unavailable() async throws {
        for (failure, pause) in [(away, 7), (lost, 5), (.notSent(detail: ""), 5)] as [(ProviderFailure, Int64)] {
            let broker = try broker(.init(legacy: Array(repeating: .failure(failure), count: 12)))
            for _ in 0..<12 {
                let problem = await problem { try await broker.forward(input()) }
                #expect(problem?.code == .providerUnavailable && problem?.retry == nil)
                #expect(problem?.retryAfter == .seconds(pause))
                broker.clock.advance(.seconds(120))
            }
            _ = try await broker.forward(input())
            #expect(claims(broker).count == 13 && calls(broker) == 1)
            #expect(Set(claims(broker).map(\.id)).count == 1)
            #expect(answers(broker) == Array(repeating: .unavailable, count: 12) + [.found])
        }
    }

    @Test("Five owners of a legacy token have died → the next owner gets the session, also after `until`")
    func ownersDied() async throws {
        let broker = try broker()
        for _ in 0..<5 {
            let dead = ExchangeRow(
                key: broker.vault.index(.legacyToken, ["as", "old-session"]), proof: nil,
                salt: try broker.vault.random(32), keyID: broker.vault.currentKeyID,
                claim: ClaimID(random: try broker.vault.random(16)), claimFor: .seconds(25),
                createdAt: broker.clock.now,
                imported: ImportMarks(
                    keptUntil: broker.clock.now.advanced(by: ImportMarks.period), mostCalls: ImportMarks.anyNumber))
            let answer = try await broker.store.claimImport(dead, sparing: .none)
            guard case .claimed = answer else {
                Issue.record("the claim was refused")
                return
            }
            broker.clock.advance(.seconds(1000))
        }
        _ = try await broker.forward(input())
        #expect(claims(broker).count == 1 && calls(broker) == 1)
    }

    @Test("Sixty-four questions are in flight → 503 with `Retry-After: 1`, before a further question")
    func room() async throws {
        let broker = try broker()
        for _ in 0..<LegacyRoom.limit { #expect(broker.context.memory.legacy.enter()) }
        let problem = await problem { try await broker.forward(input()) }
        #expect(problem?.code == .providerUnavailable && problem?.retryAfter == .seconds(1))
        #expect(claims(broker).isEmpty)
        broker.context.memory.legacy.leave()
        _ = try await broker.forward(input())
    }

    // MARK: A session with a refresh token

    @Test("The old system has a session with a refresh token → one question, one refresh, and the same session again")
    func moved() async throws {
        let created = WallTime(seconds: 1_600_000_000)
        let broker = try broker()
        let old = LegacySession(
            subject: "user-1", refreshToken: Secret("old-rt"), scope: ["mail"], createdAt: created,
            expiresAt: broker.clock.now.advanced(by: .seconds(86_400)), device: "Ana's phone")
        broker.provider.script.withLock { $0.legacy = [.success(.session(old))] }
        let first = try await broker.forward(input())
        #expect(first.session.subject == "user-1" && first.session.device == "Ana's phone")
        #expect(first.session.scope == ["mail"] && first.session.createdAt == created)
        #expect(first.endsAtLatest == broker.clock.now.advanced(by: .seconds(86_400)))
        let again = try await broker.forward(input())
        #expect(again.session.handle == first.session.handle && again.token.reveal() == first.token.reveal())
        #expect(claims(broker).count == 1 && calls(broker) == 1)
        #expect(counted(broker) == ["legacy moved", "legacy repeated"])
        #expect(await problem { try await broker.forward(input { $0.loginToken = other }) }?.code == .codeAlreadyUsed)
        let claim = try #require(claims(broker).first)
        #expect(claim.id.utf8.count == 43 && claim.token.reveal() == "old-session")
        // A refresh keeps the end of the old session, and its beginning.
        let live = try await broker.useCases.resumeSession.resume(first.token)
        #expect(live.row.expiresAt <= broker.clock.now.advanced(by: .seconds(86_400)))
        #expect(live.view.createdAt == created)
    }

    @Test("The same legacy token at another replica → the same session, after one question in all")
    func replicas() async throws {
        let broker = try broker()
        let first = try await broker.forward(input())
        let second = try self.broker(store: broker.store, vault: broker.vault, clock: broker.clock)
        let again = try await second.forward(input())
        #expect(again.session.handle == first.session.handle && claims(second).isEmpty)
    }

    @Test("Fifty identical legacy posts at the same time → one question, one refresh and one session")
    func many() async throws {
        let broker = try broker()
        broker.provider.claiming.close()
        let posts = (0..<50).map { _ in Task { try await broker.forward(input()) } }
        try await eventually("the question is at the old system") { broker.provider.claiming.waiting > 0 }
        broker.provider.claiming.open()
        var handles: Set<String> = []
        for post in posts { handles.insert(try await post.value.session.handle.text) }
        #expect(handles.count == 1 && claims(broker).count == 1 && calls(broker) == 1)
    }

    @Test("The provider is away → 503, and the next post asks again, with the same `id`")
    func providerAway() async throws {
        let broker = try broker(.init(refresh: [away, lost, .notSent(detail: "")]))
        for _ in 0..<2 {
            #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        }
        // The import has begun, so it goes on after `until`.
        broker.clock.advance(.seconds(3601))
        _ = try await broker.forward(input())
        #expect(Set(claims(broker).map(\.id)).count == 1)
    }

    @Test("A move has begun, and the old system is away before and after `until` → the move goes on")
    func awayAfterBegin() async throws {
        let found = LegacyAnswer.session(LegacySession(refreshToken: Secret("old-rt")))
        var script = script(.success(found), .failure(away), .failure(lost))
        script.refresh = [lost, .notSent(detail: "")]
        let broker = try broker(script)
        for wait in [0, 3601, 0] {
            broker.clock.advance(.seconds(wait))
            #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        }
        _ = try await broker.forward(input())
        #expect(calls(broker) == 3)
    }

    @Test("A move has begun, and the setting is gone → 403 `not_open` before any question; a finished move is repeated")
    func settingGone() async throws {
        let broker = try broker(.init(refresh: [lost, .notSent(detail: "")]))
        let gone = try self.broker(store: broker.store, vault: broker.vault, clock: broker.clock) { $0.moveIn = nil }
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        #expect(reason(await problem { try await gone.forward(input()) }) == .notOpen)
        let moved = try await broker.forward(input())
        #expect(try await gone.forward(input()).session.handle == moved.session.handle)
        #expect(claims(gone).isEmpty && calls(gone) == 0)
    }

    @Test("The provider refuses the old system's refresh token → `grant_revoked`, after one question in all")
    func revoked() async throws {
        let broker = try broker(.init(refresh: [.rejected(OAuthError(status: 400, code: "invalid_grant"))]))
        try await broker.store.noteImportGrant(
            broker.vault.index(.importGrant, ["as", "client-1"]), at: broker.clock.now)
        for token in [loginToken, other] {
            #expect(
                end(await problem { try await broker.forward(input { $0.loginToken = token }) }) == .grantRevoked)
        }
        #expect(claims(broker).count == 1 && calls(broker) == 1)
    }

    @Test("The old system names another user than the provider → `identity_rejected`, and the tokens are revoked")
    func anotherUser() async throws {
        let broker = try broker(
            script(.success(.session(LegacySession(subject: "user-2", refreshToken: Secret("old-rt"))))))
        for _ in 0..<2 {
            #expect(await problem { try await broker.forward(input()) }?.code == .identityRejected)
        }
        #expect(try await broker.store.outboxCount() == 1)
        #expect(claims(broker).count == 1 && calls(broker) == 1)
    }

    @Test("The old system names another user while the clock is in doubt → `identity_rejected`, as at any time")
    func anotherUserInDoubt() async throws {
        let broker = try broker(
            script(.success(.session(LegacySession(subject: "user-2", refreshToken: Secret("old-rt"))))))
        broker.provider.gate.close()
        let post = Task { await problem { try await broker.forward(input()) } }
        try await eventually("the refresh is at the provider") { broker.provider.gate.waiting > 0 }
        broker.clock.jump(.seconds(-86_400 * 365))
        broker.provider.gate.open()
        #expect(await post.value?.code == .identityRejected)
        #expect(!broker.context.may(.refuse))
    }

    @Test("The old system's id_token contradicts the client → 503, before any refresh")
    func unfitting() async throws {
        let broker = try broker(.init(importFault: FieldFault("/tokens/id_token", .malformed)))
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        #expect(calls(broker) == 0 && answers(broker) == [.unavailable])
    }

    @Test("The provider refuses any id_token → the old system's id_token is left out")
    func withoutIDToken() async throws {
        let old = LegacySession(refreshToken: Secret("old-rt"), idToken: Secret("a.b.c"))
        let broker = try broker(
            .init(
                importFault: FieldFault("/tokens/id_token", .notAllowed), faultsOnlyIDTokens: true,
                legacy: [.success(.session(old))]))
        _ = try await broker.forward(input())
        #expect(broker.provider.script.withLock { $0.imports.first?.tokens.idToken } == nil)
    }

    @Test("The refresh token came as `tokens` from another starter → `code_already_used`, and one refresh in all")
    func bothWays() async throws {
        let broker = try broker()
        var tokens = input { $0.legacy = nil }
        tokens.tokens = ImportedTokens(accessToken: nil, refreshToken: Secret("old-rt"), merchantID: nil)
        tokens.loginToken = other
        _ = try await broker.forward(tokens)
        for _ in 0..<2 {
            #expect(await problem { try await broker.forward(input()) }?.code == .codeAlreadyUsed)
        }
        #expect(calls(broker) == 1 && claims(broker).count == 1)
    }

    @Test("A bound session lacks a `login_token` → the legacy token and a proof by the same key get the session again")
    func bound() async throws {
        var settings = BrokerSettings()
        settings.proofOrigins = ProofOrigins(publicURL: "https://broker.example.test")
        let broker = try broker(settings: settings) { $0.binding.mode = .enforce }
        func post(_ phone: SigningPhone, _ identifier: String) throws -> ForwardCodeInput {
            let nonce = ProofNonce.text(
                at: broker.clock.now, scope: broker.context.memory.nonceScope, by: broker.vault)
            let path = "/v1/sessions"
            let proof = try phone.proof(
                method: "POST", address: "https://broker.example.test" + path, identifier: identifier, nonce: nonce)
            return input {
                $0.loginToken = nil
                $0.evidence = PresentedEvidence(
                    proofs: [proof], target: ProofTarget(method: "POST", address: .own(path: path)))
            }
        }
        let (phone, thief) = (SigningPhone(), SigningPhone())
        #expect(await problem { try await broker.forward(input()) }?.code == .proofRequired)
        let first = try await broker.forward(post(phone, "a"))
        #expect(try await broker.forward(post(phone, "b")).session.handle == first.session.handle)
        #expect(await problem { try await broker.forward(post(thief, "c")) }?.code == .codeAlreadyUsed)
        #expect(claims(broker).count == 1 && calls(broker) == 1)
    }

    @Test("Two clients post one legacy token → the second gets `code_already_used`, before any question")
    func twoClients() async throws {
        let broker = try broker()
        _ = try await broker.forward(input())
        let second = input {
            $0.client = ClientName(unchecked: "android")
            $0.loginToken = other
        }
        #expect(await problem { try await broker.forward(second) }?.code == .codeAlreadyUsed)
        #expect(claims(broker).count == 1)
    }

    @Test("The old system answers differently the second time → one session")
    func differently() async throws {
        let broker = try broker(.init(refresh: [away]))
        broker.provider.script.withLock {
            $0.legacy = ["one", "two"].map { .success(.session(LegacySession(refreshToken: Secret($0)))) }
        }
        #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        let moved = try await broker.forward(input())
        #expect(try await broker.forward(input()).session.handle == moved.session.handle)
        #expect(claims(broker).count == 2 && calls(broker) == 2)
    }

    @Test("The question, the refresh and the confirming call → share twenty seconds")
    func budget() async throws {
        let broker = try broker(.init(refresh: [lost, lost]))
        broker.provider.claiming.close()
        let request = Task { try await broker.forward(input()) }
        try await eventually("the question is at the old system") { broker.provider.claiming.waiting > 0 }
        broker.clock.advance(.seconds(9))
        broker.provider.gate.close()
        broker.provider.claiming.open()
        try await eventually("the refresh is at the provider") { broker.provider.gate.waiting > 0 }
        broker.clock.advance(.seconds(7))
        broker.provider.gate.open()
        // Four seconds are left, so the next post makes the confirming call.
        #expect(await problem { try await request.value }?.code == .providerUnavailable)
        #expect(calls(broker) == 1)
    }

    // MARK: A session that lacks a refresh token

    @Test("A session lacks a refresh token, and the client has `subject: confirmed` → `unknown_session`, logged")
    func confirmedOnly() async throws {
        let session = LegacySession(subject: "user-1", expiresAt: WallTime(seconds: 4_000_000_000))
        let broker = try broker(script(.success(.session(session))))
        #expect(end(await problem { try await broker.forward(input()) }) == .unknownSession)
        let details = broker.events.all.compactMap { event -> String? in
            if case .oldSystemAnswered(_, _, .refused, let detail) = event { detail } else { nil }
        }
        #expect(details.count == 1 && details.allSatisfy { $0.contains("refresh token") })
    }

    @Test("A session lacks a refresh token, and the client has `believed` → a session that lacks provider tokens")
    func believed() async throws {
        let broker = try broker(isBelieved: true)
        let end = broker.clock.now.advanced(by: .seconds(7200))
        broker.provider.script.withLock {
            $0.legacy = [.success(.session(LegacySession(subject: "user-7", expiresAt: end)))]
        }
        let first = try await broker.forward(input())
        #expect(first.session.subject == "user-7" && first.session.expiresAt == end)
        #expect(try await broker.forward(input()).session.handle == first.session.handle)
        #expect(calls(broker) == 0 && claims(broker).count == 1)
        let row = try await broker.store.session(tokenDigest: broker.vault.digest(first.token))
        #expect(row?.tokens == nil && row?.refreshable == false)
    }

    @Test("With `believed`, the answer lacks `subject` or `expires_at` → 503, and the token stays good")
    func incomplete() async throws {
        let broker = try broker(isBelieved: true)
        for session in [
            LegacySession(subject: "user-7"), LegacySession(expiresAt: WallTime(seconds: 4_000_000_000)),
        ] {
            broker.provider.script.withLock { $0.legacy = [.success(.session(session))] }
            #expect(await problem { try await broker.forward(input()) }?.code == .providerUnavailable)
        }
        #expect(answers(broker) == [.unavailable, .unavailable])
        #expect(try await row(broker)?.outcome == .released)
    }

    @Test("With `believed`, a session has a refresh token → it is confirmed by the provider")
    func confirmedNonetheless() async throws {
        let broker = try broker(isBelieved: true)
        _ = try await broker.forward(input())
        #expect(calls(broker) == 1)
    }

    @Test("The old session is over → `expired`; one second later than now → the session")
    func over() async throws {
        let broker = try broker()
        func answer(_ end: Int64) -> Result<LegacyAnswer, ProviderFailure> {
            .success(
                .session(
                    LegacySession(
                        refreshToken: Secret("rt\(end)"), expiresAt: broker.clock.now.advanced(by: .seconds(end)))))
        }
        broker.provider.script.withLock { $0.legacy = [answer(0), answer(1)] }
        #expect(end(await problem { try await broker.forward(input("a")) }) == .expired)
        _ = try await broker.forward(input("b"))
        #expect(calls(broker) == 1)
    }

    @Test("A beginning in the future → the session shows the time of the move")
    func future() async throws {
        let broker = try broker()
        broker.provider.script.withLock {
            $0.legacy = [
                .success(
                    .session(
                        LegacySession(
                            refreshToken: Secret("old-rt"), createdAt: broker.clock.now.advanced(by: .seconds(60)))))
            ]
        }
        #expect(try await broker.forward(input()).session.createdAt == broker.clock.now)
    }
}
