import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// Costs that an unauthenticated caller causes are charged to its address before they arise (guarantee 8).
@Suite(.timeLimit(.minutes(2))) struct ChargeTests {
    private static let one = IPAddress(high: 0, low: 0xFFFF_0A00_0001)
    private static let two = IPAddress(high: 0, low: 0xFFFF_0A00_0002)
    private let verifier = Secret(String(repeating: "v", count: 43))
    private let loginToken = Secret(String(repeating: "l", count: 43))

    /// A broker, a ledger that uses its clock, and the charges of two addresses.
    private struct Fixture {
        let broker: TestBroker
        let registrar: ScriptedRegistrar
        let one: Charge
        let two: Charge

        init(
            _ limits: ChargeLimits, clients: [ClientProfile]? = nil, script: ScriptedProvider.Script = .init()
        ) throws {
            registrar = ScriptedRegistrar()
            broker = try TestBroker(clients: clients, script: script, also: [registrar])
            let ledger = ChargeLedger(limits, monotonic: broker.clock.clock.monotonic)
            one = Charge(ChargeTests.one, in: ledger)
            two = Charge(ChargeTests.two, in: ledger)
        }

        var requests: Int { broker.provider.script.withLock { $0.requests.count } }
    }

    private func appLogin(_ code: String, _ charge: Charge) -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "ios")
        input.code = Secret(code)
        input.codeVerifier = verifier
        input.loginToken = loginToken
        input.charge = charge
        return input
    }

    private func registration(_ stateKey: String, _ charge: Charge) -> FinishRegistrationInput {
        FinishRegistrationInput(
            provider: ProviderName(unchecked: "zephr"), client: nil, stateKey: Secret(stateKey), attributes: [],
            loginToken: loginToken, presentedSession: nil, charge: charge)
    }

    // MARK: Logins

    @Test(
        "An address starts a 61st login within a minute → 429 before a provider call; another address may start (SEC-119)"
    )
    func starts() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 60))
        for _ in 0..<60 { _ = try await fixture.broker.start(charge: fixture.one) }
        let refused = await problem { try await fixture.broker.start(charge: fixture.one) }
        #expect(refused?.code == .rateLimited && refused?.retryAfter == .seconds(1))
        #expect(fixture.requests == 60)
        _ = try await fixture.broker.start(charge: fixture.two)
    }

    @Test(
        "A login becomes a session → the address that started it gets its start back, even if another forwards it (SEC-119)"
    )
    func sessions() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 1))
        let broker = fixture.broker
        let rejected = try await broker.start(charge: fixture.one)
        broker.provider.script.withLock { $0.redeem = [.rejected(OAuthError(status: 400, code: "invalid_grant"))] }
        #expect(
            await problem {
                try await broker.forward(broker.callback(rejected), rejected.loginToken, charge: fixture.one)
            }?
            .code == .codeRejected)
        #expect(await problem { try await broker.start(charge: fixture.one) }?.code == .rateLimited)

        let login = try await broker.start(charge: fixture.two)
        // The other address has used up its starts. It may still forward a callback, because the login was charged when it
        // started.
        _ = try await broker.forward(broker.callback(login, code: "code-2"), login.loginToken, charge: fixture.one)
        _ = try await broker.start(charge: fixture.two)
        #expect(await problem { try await broker.start(charge: fixture.one) }?.code == .rateLimited)
    }

    @Test(
        "Sign-ins that the provider started arrive with different login tokens → each costs its address a login start (SEC-119)"
    )
    func providerStarted() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 3))
        var codes: [ProblemCode?] = []
        for number in 0..<6 {
            var input = ForwardCodeInput()
            input.callbackURL = "com.example.strict:/cb?code=x"
            input.loginToken = Secret(String(repeating: "\(number)", count: 43))
            input.charge = fixture.one
            codes.append(await problem { try await fixture.broker.forward(input) }?.code)
        }
        #expect(codes == [.loginRequired, .loginRequired, .loginRequired, .rateLimited, .rateLimited, .rateLimited])
        #expect(fixture.requests == 3)
        _ = try await fixture.broker.start(charge: fixture.two)
    }

    @Test(
        "One address starts logins without end → it gets only its share of the cap, and other addresses get the rest (SEC-119)"
    )
    func pendingShare() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 1_000_000, pending: 100))
        for _ in 0..<50 { _ = try await fixture.broker.start(charge: fixture.one) }
        #expect(await problem { try await fixture.broker.start(charge: fixture.one) }?.code == .rateLimited)
        #expect(fixture.requests == 50)
        for _ in 0..<50 { _ = try await fixture.broker.start(charge: fixture.two) }
        fixture.broker.clock.advance(.seconds(600))
        _ = try await fixture.broker.start(charge: fixture.one)
    }

    @Test("The start of a login fails at the provider → its place in the address's share of pending logins is released")
    func failedStart() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 1_000_000, pending: 2))
        fixture.broker.provider.script.withLock { $0.start = .lost(detail: "away") }
        for _ in 0..<3 {
            #expect(
                await problem { try await fixture.broker.start(charge: fixture.one) }?.code == .providerUnavailable)
        }
        fixture.broker.provider.script.withLock { $0.start = nil }
        _ = try await fixture.broker.start(charge: fixture.one)
        #expect(await problem { try await fixture.broker.start(charge: fixture.one) }?.code == .rateLimited)
    }

    @Test(
        "A login causes more than three token calls → from the fourth on, each call is charged to the caller's address")
    func furtherCalls() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 2))
        let broker = fixture.broker
        broker.provider.script.withLock { script in
            script.redeem = Array(repeating: .retryable(status: 503, retryAfter: nil, detail: "busy"), count: 20)
        }
        let login = try await broker.start(charge: fixture.one)
        var codes: [ProblemCode?] = []
        for number in 0..<6 {
            let url = broker.callback(login, code: "code-\(number)")
            codes.append(await problem { try await broker.forward(url, login.loginToken, charge: fixture.one) }?.code)
        }
        let calls: [ProblemCode?] = Array(repeating: .providerUnavailable, count: 4)
        #expect(codes == calls + [.rateLimited, .rateLimited])
        #expect(broker.provider.grants == 4)
    }

    // MARK: Exchanges of flow B

    @Test("Invented codes are forwarded → each is charged before a row is written or the provider is called (SEC-119)")
    func inventedCodes() async throws {
        var script = ScriptedProvider.Script()
        script.redeem = Array(repeating: .rejected(OAuthError(status: 400, code: "invalid_grant")), count: 20)
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 2), script: script)
        var codes: [ProblemCode?] = []
        for number in 0..<5 {
            let input = appLogin("invented-\(number)", fixture.one)
            codes.append(await problem { try await fixture.broker.forward(input) }?.code)
        }
        #expect(codes == [.codeRejected, .codeRejected, .rateLimited, .rateLimited, .rateLimited])
        #expect(fixture.broker.provider.grants == 2)
        // The exchange of this code already exists, so the broker only reads the exchange.
        let again = appLogin("invented-0", fixture.one)
        #expect(await problem { try await fixture.broker.forward(again) }?.code == .codeRejected)
        #expect(fixture.broker.provider.grants == 2)
    }

    @Test("Fifty identical forwards at once → one charge and one token call; the new session releases the charge")
    func fifty() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 1))
        let broker = fixture.broker
        let input = appLogin("code-1", fixture.one)
        let handles = try await withThrowingTaskGroup(of: SessionHandle.self) { group in
            for _ in 0..<50 { group.addTask { try await broker.forward(input).session.handle } }
            return try await group.reduce(into: Set<SessionHandle>()) { $0.insert($1) }
        }
        #expect(handles.count == 1 && broker.provider.grants == 1)
        _ = try await broker.forward(appLogin("code-2", fixture.one))
    }

    // MARK: Registrations

    @Test(
        "State keys are guessed → each guess is charged before a row is written and Zephr is called (SEC-119, SEC-121)")
    func guessedStateKeys() async throws {
        let fixture = try Fixture(ChargeLimits(wrongTokensPerMinute: 5))
        var codes: [ProblemCode?] = []
        for number in 0..<60 {
            let input = registration("guess-\(number)", fixture.one)
            codes.append(await problem { try await fixture.broker.useCases.finishRegistration.finish(input) }?.code)
        }
        #expect(codes.count { $0 == .stateKeyExpired } == 5 && codes.count { $0 == .rateLimited } == 55)
        #expect(fixture.registrar.registers == 5)
        let swept = try await fixture.broker.store.sweep(
            now: fixture.broker.clock.now.advanced(by: .seconds(200_000)), limit: 500, lapsedSince: nil)
        #expect(
            swept.touched == 5, "the sweep removes the 5 registrations, and keeps exchanges while the clock is in doubt"
        )
    }

    @Test("A state key was charged as a guess, and then leads to a session → the charge is released")
    func goodStateKey() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 1, wrongTokensPerMinute: 1))
        fixture.registrar.script.withLock { $0.outcome = .registered(session: Secret("zs"), expiresAt: nil) }
        for number in 0..<5 {
            let input = registration("good-\(number)", fixture.one)
            let first = try await fixture.broker.useCases.finishRegistration.finish(input)
            let again = try await fixture.broker.useCases.finishRegistration.finish(input)
            #expect(first.session.handle == again.session.handle)
        }
        #expect(fixture.registrar.registers == 5)
    }

    private func partial(_ stateKey: String, _ fixture: Fixture) async throws -> SignInOutcome {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "zephr")
        input.callbackURL = "\(ScriptedRegistrar.redirect)?status=partial&state_key=\(stateKey)"
        input.loginToken = loginToken
        input.charge = fixture.one
        return try await fixture.broker.useCases.forwardCode.forward(input)
    }

    @Test("An address's share of pending registrations is used up → 429, and the same callback can be forwarded later")
    func partialShare() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 1000, pending: 4))
        for number in 0..<2 { _ = try await partial("partial-\(number)", fixture) }
        #expect(await problem { try await partial("partial-3", fixture) }?.code == .rateLimited)
        #expect(fixture.registrar.script.withLock { $0.fieldsAsked } == 2)
        fixture.broker.clock.advance(.seconds(900))
        _ = try await partial("partial-3", fixture)
    }

    @Test(
        "The fields of a registration cannot be fetched → the registration's place in its address's share is released (SEC-119)"
    )
    func failedPartial() async throws {
        let fixture = try Fixture(ChargeLimits(loginsPerMinute: 1000, pending: 4))
        fixture.registrar.script.withLock { $0.fields = [.notSent(detail: ""), .notSent(detail: "")] }
        for number in 0..<2 {
            #expect(await problem { try await partial("failed-\(number)", fixture) }?.code == .providerUnavailable)
        }
        // The charges for the exchanges have expired. The charges for the registrations would last a quarter of an hour.
        fixture.broker.clock.advance(ChargeLedger.exchangeLifetime + .seconds(1))
        for number in 0..<2 { _ = try await partial("made-\(number)", fixture) }
        #expect(fixture.registrar.script.withLock { $0.fieldsAsked } == 4)
    }

    // MARK: Logout tokens

    @Test(
        "A logout token is forged → its address is charged, also for a fetch of keys; good tokens are not limited (SEC-121)"
    )
    func logoutTokens() async throws {
        let fixture = try Fixture(ChargeLimits(wrongTokensPerMinute: 2))
        let broker = fixture.broker
        func receive(_ token: String, _ charge: Charge) async -> ProblemCode? {
            await problem {
                try await broker.useCases.backchannelLogout.receive(
                    provider: ProviderName(unchecked: "as"), token: Secret(token), charge: charge)
            }?.code
        }
        #expect(await receive("bad", fixture.one) == .invalidRequest)
        #expect(await receive("new-key-forged", fixture.one) == .invalidRequest)
        #expect(await receive("bad", fixture.one) == .rateLimited)
        #expect(await receive("new-key-forged", fixture.one) == .rateLimited)
        #expect(broker.provider.script.withLock { $0.keyFetches } == 1)
        for number in 0..<20 { #expect(await receive("good-\(number)", fixture.one) == nil) }
        // The provider signs with a new key, so the broker fetches the provider's keys. The charge for this fetch is refunded
        // when the token proves right.
        for number in 0..<20 { #expect(await receive("new-key-\(number)", fixture.two) == nil) }
        #expect(broker.provider.script.withLock { $0.keyFetches } == 21)
    }
}
