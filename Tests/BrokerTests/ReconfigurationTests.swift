import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// Sessions, revocations and limits after a change of the configuration.
@Suite("Changes of the configuration", .timeLimit(.minutes(2))) struct ReconfigurationTests {
    private static func without(_ broker: TestBroker) -> BrokerContext {
        broker.context.with(ProviderDirectory([]), broker.context.settings)
    }

    @Test(
        "A session's provider leaves the configuration → 503 for each use; the provider is configured again → the session lives"
    )
    func provider() async throws {
        let broker = try TestBroker()
        let token = try await broker.signIn().token
        let without = BrokerUseCases(Self.without(broker), publicURL: "https://auth.example.com")
        for problem in [
            await problem { try await without.resumeSession.resume(token) },
            await problem { try await without.resumeSession.use(token) },
            await problem { try await without.handOut(token) },
        ] {
            #expect(problem?.code == .providerUnavailable && problem?.retryAfter != nil)
        }
        #expect(try await broker.useCases.resumeSession.resume(token).view.provider.text == "as")
    }

    @Test(
        "A session's client leaves the configuration → 503 for the session's calls and refreshes, but the session stays"
    )
    func client() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let other = ClientProfile(
            name: ClientName(unchecked: "other"), redirectURIs: [RedirectURI("com.example.other:/cb")].compactMap { $0 }
        )
        let rest = try TestBroker(clients: [other])
        let context = broker.context.with(rest.context.providers, broker.context.settings)
        let left = BrokerUseCases(context, publicURL: "https://auth.example.com")
        #expect(
            await problem { try await left.resumeSession.resume(signedIn.token) }?.code == .providerUnavailable)
        // The session was looked up under the former configuration, and is refreshed under the present one.
        let session = try await broker.useCases.resumeSession.resume(signedIn.token)
        #expect(await problem { try await left.refreshTokens.refreshNow(session) }?.code == .providerUnavailable)
        #expect(try await broker.useCases.refreshTokens.refreshNow(session).refreshable)
    }

    @Test("A session's provider leaves the configuration → the session's user can still log out")
    func logOut() async throws {
        let broker = try TestBroker()
        let token = try await broker.signIn().token
        try await EndSession(Self.without(broker)).logOut(token)
        #expect(await problem { try await broker.useCases.resumeSession.resume(token) }?.reason == .loggedOut)
    }

    @Test(
        "A revocation's provider leaves the configuration → the revocation waits until the provider is configured again (SEC-63)"
    )
    func revocation() async throws {
        let broker = try TestBroker()
        try await broker.useCases.endSession.logOut(broker.signIn().token)
        let revocations = Revocations(broker.context)
        #expect(try await revocations.with(Self.without(broker)).work() == 1)
        #expect(try await broker.store.outboxCount() == 1)
        broker.clock.advance(.seconds(120))
        #expect(try await revocations.work() == 1)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(broker.provider.script.withLock { $0.revoked } == 1)
    }

    @Test(
        "A client's setting `evidence` changes while a session is cached → the next look-up has the new setting (guarantee 9)"
    )
    func binding() async throws {
        func clients(_ evidence: BindingPolicy.Evidence) -> [ClientProfile] {
            var client = ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both,
                redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 }, scope: ["openid", "email"],
                nonce: true)
            client.binding.mode = .enforce
            client.binding.evidence = evidence
            return [client]
        }
        let broker = try TestBroker(clients: clients(.pass))
        let signedIn = try await TestBroker(store: broker.store, vault: broker.vault).signIn()
        let digest = broker.vault.digest(signedIn.token)
        // The session is bound here by hand, and put into the cache, as if a call before the reload had done so.
        let row = try #require(try await broker.store.session(tokenDigest: digest))
        var facts = try SessionFacts.open(row, broker.vault)
        facts.thumbprint = digest
        let bound = LiveSession(row: row, facts: facts, binding: broker.context.providers.binding(of: facts))
        let moment = broker.clock.monotonic
        let generation = broker.context.cache.lookUp(digest, at: moment).generation
        broker.context.cache.insert(bound, loadedAt: moment, generation: generation)
        for evidence in [BindingPolicy.Evidence.pass, .proof, .pass] {
            let other = try TestBroker(clients: clients(evidence))
            let context = broker.context.with(other.context.providers, broker.context.settings)
            let found = try await ResumeSession(context: context).resume(digest)
            #expect(found.binding?.policy.evidence == evidence)
            #expect(found.binding?.thumbprint == digest)
        }
    }

    @Test(
        "A provider leaves the configuration → open streams of this provider's sessions still notice when a session ends"
    )
    func waiting() async throws {
        let broker = try TestBroker()
        let token = try await broker.signIn().token
        let waiting = broker.useCases.resumeSession.waiting
        try await waiting.checkLives(broker.vault.digest(token))
        try await broker.useCases.endSession.logOut(token)
        #expect(
            await problem { try await waiting.checkLives(broker.vault.digest(token)) }?.reason == .loggedOut)
    }

    @Test(
        "New limits are adopted → they apply at once, and charges from before the change still count (SEC-119, SEC-121)"
    )
    func limits() throws {
        let clock = TestClock()
        let address = IPAddress(high: 0, low: 0xFFFF_0A00_0001)
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 2, wrongTokensPerMinute: 2, pending: 200), monotonic: clock.clock.monotonic)
        #expect(ledger.takeWrongToken(from: address) == nil)
        #expect(ledger.takeWrongToken(from: address) == nil)
        #expect(ledger.takeWrongToken(from: address) != nil)
        ledger.adopt(ChargeLimits(loginsPerMinute: 2, wrongTokensPerMinute: 600, pending: 200))
        // The tokens that were taken under the former limits stay taken. Only the buckets refill faster.
        #expect(ledger.takeWrongToken(from: address) != nil)
        clock.advance(.seconds(1))
        for _ in 0..<10 { #expect(ledger.takeWrongToken(from: address) == nil) }
        #expect(ledger.takeWrongToken(from: address) != nil)
        ledger.adopt(ChargeLimits(loginsPerMinute: 2, wrongTokensPerMinute: 1, pending: 200))
        clock.advance(.seconds(60))
        #expect(ledger.takeWrongToken(from: address) == nil)
        #expect(ledger.takeWrongToken(from: address) != nil)
    }

    @Test(
        "A new limit is below an address's number of pending logins → its next login is refused, and its pending logins stay"
    )
    func share() throws {
        let clock = TestClock()
        let address = IPAddress(high: 0, low: 0xFFFF_0A00_0001)
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1000, pending: 200), monotonic: clock.clock.monotonic)
        func take(_ number: UInt8) throws -> Duration? {
            let key = try #require(Digest([UInt8](repeating: number, count: 32)))
            return ledger.take(.login, key, from: address, lasting: .seconds(600), payer: nil, isGuess: false)
        }
        for number in 0..<10 { #expect(try take(UInt8(number)) == nil) }
        ledger.adopt(ChargeLimits(loginsPerMinute: 1000, pending: 8))
        #expect(try take(10) != nil)
        #expect(ledger.count(.login, of: address) == 10)
        ledger.adopt(ChargeLimits(loginsPerMinute: 1000, pending: 200))
        #expect(try take(10) == nil)
    }
}
