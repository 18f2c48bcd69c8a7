import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The time for imports, and the proof that the client's id is right.
@Suite(.timeLimit(.minutes(2))) struct ImportWindowTests {
    private let loginToken = Secret(String(repeating: "l", count: 43))
    private let revoked = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_grant"))
    private let lost = ProviderFailure.lost(detail: "")
    /// A fault of the identity call that outlasts the exchange.
    private let gone = ProviderFailure.retryable(status: 503, retryAfter: .seconds(60), detail: "")

    private func broker(
        _ script: ScriptedProvider.Script = .init(), store: (any BrokerStore)? = nil, vault: OpenSSLVault? = nil,
        clock: TestClock = TestClock(), for lifetime: Duration? = .seconds(3600),
        _ change: (inout ClientProfile) -> Void = { _ in }
    ) throws -> TestBroker {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [],
            importTokens: true)
        client.importsUntil = lifetime.map { clock.now.advanced(by: $0) }
        change(&client)
        return try TestBroker(store: store, vault: vault, clients: [client], script: script, clock: clock)
    }

    private func input(_ refresh: String = "rt-of-the-app") -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "ios")
        input.tokens = ImportedTokens(accessToken: nil, refreshToken: Secret(refresh), merchantID: nil)
        input.loginToken = loginToken
        return input
    }

    private func refused(_ broker: TestBroker, _ refresh: String = "rt-of-the-app") async -> BrokerProblem? {
        await problem { try await broker.forward(input(refresh)) }
    }

    private func reason(_ problem: BrokerProblem?) -> ImportRefusal? {
        guard problem?.code == .clientNotAllowed, case .importRefused(let reason) = problem?.payload else { return nil }
        return reason
    }

    private func fields(_ problem: BrokerProblem?) -> [FieldFault]? {
        if case .fields(let faults) = problem?.payload { faults } else { nil }
    }

    private func calls(_ broker: TestBroker) -> Int { broker.provider.script.withLock { $0.imports.count } }

    /// Returns a broker with the same store and another configuration.
    private func again(
        _ broker: TestBroker, _ script: ScriptedProvider.Script = .init(), for lifetime: Duration? = .seconds(3600),
        _ change: (inout ClientProfile) -> Void = { _ in }
    ) throws -> TestBroker {
        try self.broker(
            script, store: broker.store, vault: broker.vault, clock: broker.clock, for: lifetime, change)
    }

    // MARK: Refused posts

    @Test("The client lacks `import_tokens` → 403 `not_open`, before the members are looked at")
    func notOpen() async throws {
        let broker = try broker(.init(importFault: FieldFault("/tokens/id_token", .malformed))) {
            $0.importTokens = false
        }
        #expect(reason(await refused(broker)) == .notOpen)
        var empty = input()
        empty.tokens = ImportedTokens(accessToken: nil, refreshToken: nil, merchantID: nil)
        #expect(reason(await problem { try await broker.forward(empty) }) == .notOpen)
        #expect(calls(broker) == 0)
    }

    @Test("`until` is over → 403 `closed`; one millisecond earlier → the session")
    func closed() async throws {
        let broker = try broker()
        broker.clock.advance(.seconds(3600))
        _ = try await broker.forward(input())
        broker.clock.advance(.milliseconds(1))
        #expect(reason(await refused(broker, "another")) == .closed)
        #expect(calls(broker) == 1)
        let results = broker.events.all.compactMap { event in
            if case .imported(_, _, _, let result) = event { result } else { nil }
        }
        #expect(results == [.moved, .closed])
    }

    @Test("Both tokens of an import are missing → 400 at `/tokens/refresh_token`")
    func withoutTokens() async throws {
        let broker = try broker()
        var empty = input()
        empty.tokens = ImportedTokens(accessToken: nil, refreshToken: nil, merchantID: nil)
        let problem = await problem { try await broker.forward(empty) }
        #expect(problem?.code == .invalidRequest)
        #expect(fields(problem) == [FieldFault("/tokens/refresh_token", .required)])
    }

    @Test("A member of the import is refused → 400 that names it, before any call")
    func members() async throws {
        let fault = FieldFault("/tokens/id_token", .malformed)
        let broker = try broker(.init(importFault: fault))
        let problem = await refused(broker)
        #expect(problem?.code == .invalidRequest && fields(problem) == [fault])
        #expect(calls(broker) == 0)
    }

    @Test("The clock is in doubt → 503 for a new import of a client with `until`; a session is repeated")
    func doubtedClock() async throws {
        let broker = try broker()
        let first = try await broker.forward(input())
        broker.clock.jump(.seconds(-86_400 * 365))
        let problem = await refused(broker, "another")
        #expect(problem?.code == .storeUnavailable && calls(broker) == 1)
        #expect(try await broker.forward(input()).session.handle == first.session.handle)
        // By the wrong clock, `until` is over.
        broker.clock.jump(.seconds(86_400 * 730))
        #expect(await refused(broker, "another")?.code == .storeUnavailable)
    }

    // MARK: Posts that have begun

    @Test(
        "An import has begun, and then `until` is over or the setting is gone → answered from the row; confirmed only after `until`"
    )
    func begun() async throws {
        for isGone in [false, true] {
            let broker = try broker(.init(refresh: [lost, ProviderFailure.notSent(detail: "")]))
            func later(_ script: ScriptedProvider.Script = .init()) throws -> TestBroker {
                try again(broker, script, for: .seconds(-1)) { $0.importTokens = !isGone }
            }
            // The answer was lost, and the confirming call failed before it was sent.
            #expect(await refused(broker)?.code == .providerUnavailable)
            if isGone {
                let removed = try later()
                #expect(reason(await refused(removed)) == .notOpen && calls(removed) == 0)
            }
            let confirmed = try isGone ? again(broker) : later()
            let session = try await confirmed.forward(input()).session.handle
            #expect(calls(confirmed) == 1)
            let repeated = try later()
            #expect(try await repeated.forward(input()).session.handle == session)
            #expect(calls(repeated) == 0)
            // Reading the user failed, so the tokens are kept.
            broker.provider.script.withLock { $0.identify = [gone] }
            #expect(await refused(broker, "kept")?.code == .providerUnavailable)
            let reader = try later()
            _ = try await reader.forward(input("kept"))
            #expect(calls(reader) == 0)
            // A dead token stays dead.
            broker.provider.script.withLock { $0.refresh = [revoked] }
            #expect(await refused(broker, "dead")?.code == .loginRequired)
            #expect(await refused(try later(), "dead")?.code == .loginRequired)
        }
    }

    @Test("An import failed in passing, and then `until` is over → 403 `closed`, because the app's token is unused")
    func released() async throws {
        let broker = try broker(.init(refresh: [.retryable(status: 503, retryAfter: nil, detail: "")]))
        #expect(await refused(broker)?.code == .providerUnavailable)
        #expect(reason(await refused(try again(broker, for: .seconds(-1)))) == .closed)
    }

    @Test("An import begins with an open client, and a closed client waits for it → the closed client is refused")
    func waiting() async throws {
        for isGone in [false, true] {
            let broker = try broker(.init(refresh: [.retryable(status: 503, retryAfter: nil, detail: "")]))
            let store = ScriptedStore(broker.store)
            let closed = try self.broker(
                store: store, vault: broker.vault, clock: broker.clock, for: .seconds(-1)
            ) { $0.importTokens = !isGone }
            broker.provider.gate.close()
            let begun = Task { await refused(broker) }
            try await eventually("the provider is called") { broker.provider.gate.waiting > 0 }
            let other = Task { await refused(closed) }
            try await eventually("the other post waits") { store.count(.claimImport) == 1 }
            broker.provider.gate.open()
            #expect(await begun.value?.code == .providerUnavailable)
            #expect(reason(await other.value) == (isGone ? .notOpen : .closed))
            #expect(calls(closed) == 0)
        }
    }

    // MARK: The client's id

    @Test(
        "The provider refuses every token before the first granted import → 502 and a log entry, as often as needed, until the id is repaired"
    )
    func unproven() async throws {
        let broker = try broker(.init(refresh: Array(repeating: revoked, count: 4)))
        for _ in 0..<4 { #expect(await refused(broker)?.code == .providerError) }
        #expect(calls(broker) == 4)
        let entries = broker.events.all.filter { if case .importUnproven = $0 { true } else { false } }
        #expect(entries.count == 4)
        // The operator repairs the client's id.
        _ = try await broker.forward(input())
        #expect(calls(broker) == 5)
    }

    @Test("The confirming call is refused before the first granted import → 502, and the next post confirms again")
    func unprovenConfirming() async throws {
        let broker = try broker(.init(refresh: [lost, revoked, revoked]))
        for _ in 0..<2 { #expect(await refused(broker)?.code == .providerError) }
        _ = try await broker.forward(input())
        #expect(calls(broker) == 4)
    }

    @Test("An import of the client was granted, on any replica → a refused token is `grant_revoked`")
    func proven() async throws {
        let broker = try broker()
        _ = try await broker.forward(input())
        let other = try again(broker, .init(refresh: [revoked]))
        #expect(await refused(other, "dead")?.code == .loginRequired)
        // A grant to the former client id leaves the new one unproven.
        let renamed = try again(broker, .init(refresh: [revoked], clientID: "client-2"))
        #expect(await refused(renamed, "of-client-1")?.code == .providerError)
    }

    @Test(
        "The store fails when the first granted import is recorded → the pair is kept, and the next grant is recorded")
    func recordFails() async throws {
        let store = ScriptedStore(InMemoryStore())
        let broker = try broker(.init(identify: [gone]), store: store)
        store.fails.withLock { $0 = { operation, number in operation == .noteImportGrant && number == 1 } }
        #expect(await refused(broker)?.code == .providerUnavailable)
        #expect(store.count(.keepPair) == 1 && store.count(.noteImportGrant) == 1)
        // The kept tokens become a session, and the record is still missing.
        _ = try await broker.forward(input())
        #expect(calls(broker) == 1)
        broker.provider.script.withLock { $0.refresh = [revoked] }
        #expect(await refused(broker, "dead")?.code == .providerError)
        _ = try await broker.forward(input("another"))
        broker.provider.script.withLock { $0.refresh = [revoked] }
        #expect(await refused(broker, "dead")?.code == .loginRequired)
    }

    @Test("The process ends while the first granted import is recorded → the granted tokens are in the store")
    func diesAtRecord() async throws {
        let inner = InMemoryStore()
        let store = ScriptedStore(inner)
        let broker = try broker(store: store)
        let kept = Mutex<Int?>(nil)
        // At this moment, the process may end.
        store.fails.withLock {
            $0 = { operation, _ in
                if operation == .noteImportGrant { kept.withLock { $0 = store.count(.keepPair) } }
                return false
            }
        }
        _ = try await broker.forward(input())
        #expect(kept.withLock { $0 } == 1)
    }

    @Test("The provider only reports a token's owner (Clever) → a refusal is final from the start")
    func asksOnly() async throws {
        let broker = try broker(.init(refresh: [revoked], spendsImportedTokens: false))
        #expect(await refused(broker)?.code == .loginRequired)
    }

    // MARK: Bound tokens

    @Test("The client requires bound tokens, and the provider grants others → `not_bound`, and the tokens are revoked")
    func notBound() async throws {
        for constraint in [SenderConstraint.dpop, .mtls] {
            let broker = try broker(.init(binds: false)) { $0.senderConstraint = constraint }
            for _ in 0..<2 {
                let problem = await refused(broker)
                guard case .importFailed(.notBound) = problem?.payload else {
                    Issue.record("\(String(describing: problem))")
                    continue
                }
            }
            #expect(calls(broker) == 1)
            #expect(try await broker.store.outboxCount() == 1)
        }
    }

    @Test("The confirming call of a bound import → has a proof by the same key, which belongs to the app's token")
    func sameKey() async throws {
        let broker = try broker(.init(refresh: [lost, lost])) { $0.senderConstraint = .dpop }
        _ = await refused(broker)
        _ = try await broker.forward(input("another"))
        let keys = broker.provider.script.withLock { $0.imports.map { $0.proof?.key.publicKey.canonical } }
        #expect(keys.count == 3 && keys[0] != nil && keys[0] == keys[1] && keys[0] != keys[2])
        let read = broker.provider.script.withLock { $0.contexts.last }
        #expect(read?.proof?.key.publicKey.canonical == keys[2])
    }
}
