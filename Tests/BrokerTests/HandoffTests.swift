import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The hosted callback's one-time handoff (flow C).
@Suite(.timeLimit(.minutes(2))) struct HandoffTests {
    private static let callback = "https://auth.example.com/callback/as"

    /// A broker with a client of flow C, and the handoff that its login's callback brought.
    private func handedOff() async throws -> (broker: TestBroker, login: StartedLogin, handoff: Secret) {
        let broker = try TestBroker(clients: [
            ClientProfile(
                name: ClientName(unchecked: "web"), redirectURIs: [RedirectURI(Self.callback)].compactMap { $0 },
                scope: ["openid"], hostedCallbackTo: "https://app.example.com/oauth")
        ])
        let login = try await broker.start("web")
        return (broker, login, try await receive(broker, login))
    }

    private func receive(_ broker: TestBroker, _ login: StartedLogin) async throws -> Secret {
        Secret(try #require(try await comeBack(broker, login)["handoff"]))
    }

    /// Sends the provider's callback to the broker, and returns the parameters of the link that leads back to the app.
    private func comeBack(
        _ broker: TestBroker, _ login: StartedLogin, code: String = "code-1", more: String = "",
        charge: Charge = .nobody
    ) async throws -> FormPairs {
        let parameters = try FormPairs(
            parsing: "code=\(code)&state=\(login.state.reveal())&iss=https%3A%2F%2Fas.example\(more)")
        let link = try await broker.useCases.hostedCallback.receive(
            provider: ProviderName(unchecked: "as"), parameters: parameters, charge: charge)
        return try FormPairs(parsing: String(try #require(link.reveal().split(separator: "?").last)))
    }

    @Test(
        "A hosted callback has an error but no state → the app gets the error, or `login_required` if its client demands `iss`"
    )
    func strayError() async throws {
        for demands in [false, true] {
            var client = ClientProfile(
                name: ClientName(unchecked: "web"), redirectURIs: [RedirectURI(Self.callback)].compactMap { $0 },
                scope: ["openid"], hostedCallbackTo: "https://app.example.com/oauth")
            client.demandsIssuer = demands
            let broker = try TestBroker(clients: [client])
            for query in ["error=access_denied", "error=access_denied&iss=https%3A%2F%2Fas.example"] {
                let link = try await broker.useCases.hostedCallback.receive(
                    provider: ProviderName(unchecked: "as"), parameters: try FormPairs(parsing: query))
                #expect(link.reveal().contains(demands ? "error=login_required" : "error=access_denied"))
            }
            let told = broker.events.all.contains { if case .loginRefused = $0 { true } else { false } }
            #expect(told == !demands)
        }
    }

    /// Returns the number of handoff rows that a sweep removes if it runs this many seconds later.
    private func swept(_ broker: TestBroker, after seconds: Int) async throws -> Int {
        try await broker.store.sweep(
            now: broker.clock.now.advanced(by: .seconds(seconds)), limit: 500, lapsedSince: nil
        ).touched
    }

    @Test(
        "A hosted callback comes again → the same handoff; it comes with another code → refused while the handoff lives (SEC-91)"
    )
    func oneHandoff() async throws {
        let (broker, login, handoff) = try await handedOff()
        for _ in 0..<20 { #expect(try await receive(broker, login).reveal() == handoff.reveal()) }
        #expect(try await receive(broker, login).reveal() == handoff.reveal(), "the same handoff again")
        #expect(try await comeBack(broker, login, more: "&junk=1")["handoff"] == handoff.reveal())
        for number in 0..<20 {
            #expect(try await comeBack(broker, login, code: "other-\(number)")["error"] == "state_mismatch")
        }
        #expect(try await swept(broker, after: 180) == 1, "all callbacks of the login made one row")
        let signedIn = try await redeem(broker, try await receive(broker, login), login.loginToken)
        #expect(signedIn.session.provider.text == "as" && broker.provider.grants == 1)
    }

    @Test("A handoff has lapsed, and another callback of its login comes → a new handoff replaces the lapsed one")
    func afterwards() async throws {
        let (broker, login, handoff) = try await handedOff()
        broker.clock.advance(.seconds(60))
        let other = try #require(try await comeBack(broker, login, code: "code-2")["handoff"])
        #expect(other != handoff.reveal())
        #expect(await problem { try await redeem(broker, handoff, login.loginToken) }?.code == .handoffExpired)
        _ = try await redeem(broker, Secret(other), login.loginToken)
        #expect(broker.provider.script.withLock { $0.grants.map { $0.code.reveal() } } == ["code-2"])
    }

    @Test(
        "An unused handoff → its row is swept after two minutes; a redeemed handoff → kept as long as its exchange"
    )
    func retention() async throws {
        let (broker, login, handoff) = try await handedOff()
        #expect(try await swept(broker, after: 119) == 0)
        _ = try await redeem(broker, handoff, login.loginToken)
        #expect(try await swept(broker, after: 300) == 0)
        broker.clock.advance(.seconds(300))
        let again = try await redeem(broker, handoff, login.loginToken)
        #expect(again.session.provider.text == "as" && broker.provider.grants == 1)

        let (other, _, _) = try await handedOff()
        #expect(try await swept(other, after: 120) == 1)
    }

    @Test(
        "A hosted callback has extra parameters → only those that the exchange needs are stored; a code over 4,096 bytes: refused"
    )
    func keptParameters() async throws {
        let (broker, _, _) = try await handedOff()
        let login = try await broker.start("web")
        let junk = String(repeating: "x", count: 3000)
        let handoff = try #require(
            try await comeBack(broker, login, more: "&session_state=s&scope=openid&junk=\(junk)&merchant_id=M1")[
                "handoff"])
        let key = broker.vault.index(.handoff, [handoff])
        let row = try #require(try await broker.store.handoff(key))
        let secrets = try HandoffSecrets(record: try broker.vault.open(row.sealed, as: .outcome, row: key))
        #expect(secrets.parameters.map(\.name) == ["code", "iss"])
        let long = String(repeating: "c", count: 4097)
        let third = try await broker.start("web")
        #expect(try await comeBack(broker, third, code: long)["error"] == "invalid_callback")
    }

    @Test(
        "A hosted callback comes → its address is charged before a write; an unknown state costs a wrong token (SEC-119, SEC-121)"
    )
    func charged() async throws {
        let (broker, first, _) = try await handedOff()
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 2, wrongTokensPerMinute: 3), monotonic: broker.clock.clock.monotonic)
        let one = Charge(IPAddress(high: 0, low: 0xFFFF_0A00_0001), in: ledger)
        let two = Charge(IPAddress(high: 0, low: 0xFFFF_0A00_0002), in: ledger)
        var logins: [StartedLogin] = []
        for _ in 0..<4 { logins.append(try await broker.start("web")) }
        for login in logins.prefix(2) {
            // If the user reloads the callback's page in the browser, the address is charged only once.
            for _ in 0..<3 { #expect(try await comeBack(broker, login, charge: one)["handoff"] != nil) }
        }
        #expect(try await comeBack(broker, logins[2], charge: one)["error"] == "rate_limited")
        #expect(try await comeBack(broker, logins[2], charge: two)["handoff"] != nil)
        let refused = broker.vault.digest(logins[3].state)
        #expect(try await broker.store.handoff(login: refused) == nil)
        // The session is made, so the charge for the handoff is refunded. Another address than the first may redeem a handoff.
        let handoff = try #require(try await comeBack(broker, logins[0], charge: one)["handoff"])
        var input = ForwardCodeInput()
        input.handoff = Secret(handoff)
        input.loginToken = logins[0].loginToken
        input.charge = two
        _ = try await broker.forward(input)
        #expect(try await comeBack(broker, logins[3], charge: one)["handoff"] != nil)

        var errors: [String?] = []
        for number in 0..<5 {
            let parameters = try FormPairs(parsing: "code=c&state=invented-\(number)")
            let link = try await broker.useCases.hostedCallback.receive(
                provider: ProviderName(unchecked: "as"), parameters: parameters, charge: one)
            errors.append(try FormPairs(parsing: String(link.reveal().split(separator: "?").last ?? ""))["error"])
        }
        #expect(errors == ["state_mismatch", "state_mismatch", "state_mismatch", "rate_limited", "rate_limited"])
        #expect(
            try await comeBack(broker, first, charge: one)["handoff"] != nil,
            "the callback of a known login is never limited")
    }

    private func redeem(_ broker: TestBroker, _ handoff: Secret, _ loginToken: Secret?) async throws -> SignedIn {
        var input = ForwardCodeInput()
        input.handoff = handoff
        input.loginToken = loginToken
        return try await broker.forward(input)
    }

    @Test(
        "A handoff is redeemed after 59 s → accepted; after 60 s → `handoff_expired` (SEC-91)",
        arguments: [(59, nil), (60, ProblemCode.handoffExpired)]
    )
    func lifetime(_ seconds: Int, _ expected: ProblemCode?) async throws {
        let (broker, login, handoff) = try await handedOff()
        broker.clock.advance(.seconds(seconds))
        #expect(await problem { try await redeem(broker, handoff, login.loginToken) }?.code == expected)
        #expect(broker.provider.grants == (expected == nil ? 1 : 0))
    }

    @Test(
        "The starter redeems a handoff twice → the same session; another party redeems it → the login is burned (SEC-91)"
    )
    func starter() async throws {
        let (broker, login, handoff) = try await handedOff()
        let first = try await redeem(broker, handoff, login.loginToken)
        broker.clock.advance(.seconds(120))
        let again = try await redeem(broker, handoff, login.loginToken)
        #expect(first.session.handle == again.session.handle && broker.provider.grants == 1)
        #expect(await problem { try await redeem(broker, handoff, Secret("another")) } != nil)

        let (other, otherLogin, stolen) = try await handedOff()
        let thief = try await other.start("web")
        #expect(await problem { try await redeem(other, stolen, thief.loginToken) }?.code == .loginNotYours)
        #expect(await problem { try await redeem(other, stolen, otherLogin.loginToken) } != nil)
        #expect(other.provider.grants == 0)
    }
}
