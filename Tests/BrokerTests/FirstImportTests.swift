import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The import that an operator makes to test a client's settings.
@Suite(.timeLimit(.minutes(2))) struct FirstImportTests {
    private let revoked = ProviderFailure.rejected(OAuthError(status: 400, code: "invalid_grant"))
    private let lost = ProviderFailure.lost(detail: "")
    /// A fault of the identity call that outlasts the exchange.
    private let gone = ProviderFailure.retryable(status: 503, retryAfter: .seconds(60), detail: "userinfo answers 503")

    private func broker(
        _ script: ScriptedProvider.Script = .init(), store: (any BrokerStore)? = nil, vault: OpenSSLVault? = nil,
        clock: TestClock = TestClock(), _ change: (inout ClientProfile) -> Void = { _ in }
    ) throws -> TestBroker {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: RedirectURI(TestBroker.redirect).map { [$0] } ?? [],
            importTokens: true)
        client.importsUntil = clock.now.advanced(by: .seconds(3600))
        change(&client)
        return try TestBroker(store: store, vault: vault, clients: [client], script: script, clock: clock)
    }

    private func tokens(_ refresh: String) -> ImportedTokens {
        ImportedTokens(accessToken: nil, refreshToken: Secret(refresh), merchantID: nil)
    }

    private func first(
        _ broker: TestBroker, _ refresh: String = "rt-canary", provider: String = "as", client: String = "ios"
    ) async throws -> FirstImport.Result {
        try await FirstImport(broker.context).run(
            FirstImport.Order(
                provider: ProviderName(unchecked: provider), client: ClientName(unchecked: client),
                tokens: tokens(refresh)),
            actor: "olga")
    }

    /// Makes a first import that has to fail, and returns its sentence.
    private func refusal(_ broker: TestBroker, _ refresh: String = "rt-canary") async throws -> String {
        let result = try await first(broker, refresh)
        #expect(result.subject == nil)
        #expect(!result.detail.contains("rt-canary") && !result.detail.contains("at-"))
        return result.detail
    }

    private func app(_ broker: TestBroker, _ refresh: String) async -> BrokerProblem? {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "ios")
        input.tokens = tokens(refresh)
        input.loginToken = Secret(String(repeating: "l", count: 43))
        return await problem { try await broker.forward(input) }
    }

    private func end(_ problem: BrokerProblem?) -> ImportEnd? {
        guard case .importFailed(let end) = problem?.payload else { return nil }
        return end
    }

    private func calls(_ broker: TestBroker) -> Int { broker.provider.script.withLock { $0.imports.count } }

    private func sessions(_ broker: TestBroker) async throws -> Int {
        try await AdminSessions(broker.context).list(AdminSessions.Filter(), .live, cursor: nil).items.count
    }

    // MARK: Before any call

    @Test("The client lacks `import_tokens` and `move_in`, or `until` is over → refused before any call")
    func closed() async throws {
        let shut = try broker { $0.importTokens = false }
        #expect(try await refusal(shut).contains("lacks `import_tokens` and `move_in`"))
        let late = try broker()
        late.clock.advance(.seconds(3601))
        #expect(try await refusal(late).contains("`until` is over"))
        let old = try broker(clock: late.clock) {
            $0.importTokens = false
            $0.moveIn = MoveInPolicy(until: late.clock.now.advanced(by: .seconds(-1)))
        }
        #expect(try await refusal(old).contains("`until` is over"))
        #expect(calls(shut) + calls(late) + calls(old) == 0)
    }

    @Test("The provider or client is unknown, or a member is refused → the sentence names it, before any call")
    func members() async throws {
        let broker = try broker(.init(importFault: FieldFault("/tokens/id_token", .malformed)))
        #expect(try await first(broker, provider: "other").detail.contains("lacks the provider"))
        #expect(try await first(broker, client: "other").detail.contains("/client is unknown"))
        #expect(try await refusal(broker).contains("/tokens/id_token is malformed"))
        #expect(calls(broker) == 0)
    }

    @Test("The audit record fails → the import is refused, before any call")
    func audit() async throws {
        let store = ScriptedStore(InMemoryStore())
        let broker = try broker(store: store)
        store.fails.withLock { $0 = { operation, _ in operation == .appendAudit } }
        #expect(await problem { _ = try await first(broker) }?.code == .storeUnavailable)
        #expect(calls(broker) == 0)
    }

    @Test("An app has imported the token → refused, and the app's session lives")
    func used() async throws {
        let broker = try broker()
        #expect(await app(broker, "rt-canary") == nil)
        #expect(try await refusal(broker).contains("imported before"))
        #expect(try await sessions(broker) == 1)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(calls(broker) == 1)
    }

    // MARK: Refused by the provider

    @Test(
        "The provider refuses the token before the first grant → the sentence asks for the client id, as often as needed"
    )
    func wrongClient() async throws {
        let broker = try broker(.init(refresh: [revoked, revoked]))
        for _ in 0..<2 {
            #expect(try await refusal(broker).contains("is `client_id` the client that the token belongs to?"))
        }
        #expect(calls(broker) == 2)
    }

    @Test("The provider grants, and ends the grant before the user is read → the sentence says so, and asks who did it")
    func endedGrant() async throws {
        let refusesToken = ProviderFailure.identityRejected(detail: "", refusesToken: true)
        let broker = try broker(.init(identify: [refusesToken], laterImports: [revoked]))
        #expect(try await refusal(broker).contains("the provider ended the grant"))
        #expect(calls(broker) == 2)
    }

    @Test("The provider refuses the token after a grant → the sentence says that the token is spent")
    func deadToken() async throws {
        let broker = try broker()
        #expect(try await first(broker, "another").subject == "user-1")
        broker.provider.script.withLock { $0.refresh = [revoked] }
        #expect(try await refusal(broker).contains("the token itself is spent"))
    }

    @Test("The provider refuses the client, is away, or its answers are lost → a sentence for each")
    func failures() async throws {
        for (failures, words) in [
            ([.rejected(OAuthError(status: 401, code: "invalid_client"))], "refuses the client"),
            ([.retryable(status: 503, retryAfter: nil, detail: "token answers 503")], "token answers 503; try again"),
            ([lost, lost], "answer was lost"),
        ] as [([ProviderFailure], String)] {
            let broker = try broker(.init(refresh: failures))
            #expect(try await refusal(broker).contains(words))
            #expect(try await sessions(broker) == 0)
        }
    }

    // MARK: Granted

    @Test("The first import is granted → the subject, zero sessions, and the pair is in the revocation outbox")
    func granted() async throws {
        let broker = try broker()
        let result = try await first(broker)
        #expect(result == FirstImport.Result(subject: "user-1", detail: FirstImportWords.granted))
        #expect(try await sessions(broker) == 0)
        #expect(try await broker.store.outboxCount() == 1)
        // A post of the same token lets the user sign in.
        #expect(end(await app(broker, "rt-canary")) == .grantRevoked)
        #expect(try await refusal(broker).contains("tested before"))
        #expect(calls(broker) == 1)
        // Only posts of apps count as moves.
        let moved = broker.events.all.filter { if case .imported(_, _, _, .moved) = $0 { true } else { false } }
        #expect(moved.isEmpty)
    }

    @Test("The first import is granted → an app's `invalid_grant` counts, at every replica")
    func recorded() async throws {
        let broker = try broker()
        _ = try await first(broker)
        let replica = try self.broker(
            .init(refresh: [revoked]), store: broker.store, vault: broker.vault, clock: broker.clock)
        #expect(end(await app(replica, "dead")) == .grantRevoked)
    }

    @Test("The grant's record fails at first → it is repeated; it fails again → the import fails")
    func recordFails() async throws {
        for failing in [1, 2] {
            let store = ScriptedStore(InMemoryStore())
            let broker = try broker(store: store)
            store.fails.withLock { $0 = { operation, number in operation == .noteImportGrant && number <= failing } }
            let result = try await first(broker)
            #expect(failing == 1 ? result.subject == "user-1" : result.detail == FirstImportWords.unrecorded)
            #expect(try await broker.store.outboxCount() == 1)
        }
    }

    @Test("A client with `binding: enforce` or with `move_in` alone → its first import is granted")
    func otherClients() async throws {
        let clock = TestClock()
        let enforcing = try broker(clock: clock) { $0.binding.mode = .enforce }
        #expect(try await first(enforcing).subject == "user-1")
        let old = try broker(clock: clock) {
            $0.importTokens = false
            $0.moveIn = MoveInPolicy(until: clock.now.advanced(by: .seconds(60)))
        }
        #expect(try await first(old).subject == "user-1")
        // The client still refuses apps' tokens.
        #expect(await app(old, "another")?.code == .clientNotAllowed)
    }

    @Test("The user is unreadable in passing → the pair is kept, and the same file succeeds, after one refresh in all")
    func identityAway() async throws {
        let broker = try broker(.init(identify: [gone]))
        let words = try await refusal(broker)
        #expect(words.contains("userinfo answers 503") && words.contains("keeps the new tokens for an hour"))
        #expect(try await first(broker).subject == "user-1")
        #expect(calls(broker) == 1)
        #expect(try await sessions(broker) == 0)
        #expect(try await broker.store.outboxCount() == 1)
    }

    @Test("Userinfo refuses the new token, and the provider the client → the words say that the new tokens are kept")
    func clientRefused() async throws {
        let refusesToken = ProviderFailure.identityRejected(detail: "userinfo answers 401", refusesToken: true)
        let broker = try broker(.init(identify: [refusesToken]))
        broker.provider.script.withLock {
            $0.laterImports = [.rejected(OAuthError(status: 401, code: "invalid_client"))]
        }
        let words = try await refusal(broker)
        #expect(words.contains("refuses to refresh the new tokens") && words.contains("keeps them for an hour"))
        #expect(try await broker.store.outboxCount() == 0)
    }

    @Test("The user is refused, or the tokens are unbound → a sentence, and the pair is revoked")
    func identityRefused() async throws {
        let refused = try broker(.init(identify: [.identityRejected(detail: "another user")]))
        #expect(try await refusal(refused).contains("the user is refused: another user"))
        let unbound = try broker(.init(binds: false)) { $0.senderConstraint = .dpop }
        #expect(try await refusal(unbound).contains("are unbound"))
        for broker in [refused, unbound] {
            #expect(try await sessions(broker) == 0)
            #expect(try await broker.store.outboxCount() == 1)
        }
    }

    @Test("The provider only reports a token's owner (Clever) → the token stays valid, and its app moves later")
    func asksOnly() async throws {
        let broker = try broker(.init(spendsImportedTokens: false))
        #expect(
            try await first(broker) == FirstImport.Result(subject: "user-1", detail: FirstImportWords.confirmed))
        #expect(try await broker.store.outboxCount() == 0)
        #expect(await app(broker, "rt-canary") == nil)
    }
}
