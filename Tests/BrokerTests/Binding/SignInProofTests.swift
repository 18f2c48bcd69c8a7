import BrokerTestSupport
import Testing

@testable import Broker

/// The signature checks of proofs at a sign-in, and the address that is charged for each of them (guarantee 8).
@Suite(.timeLimit(.minutes(1))) struct SignInProofTests {
    private let phone = SigningPhone()
    private let loginToken = Secret(String(repeating: "l", count: 43))

    /// A broker whose client has the given binding mode, and the charge of one address.
    private struct Fixture {
        let broker: TestBroker
        let charge: Charge

        init(_ mode: BindingPolicy.Mode, perMinute: Int = 60, pending: Int = 100_000) throws {
            var client = ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both,
                redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
            client.binding.mode = mode
            var settings = BrokerSettings()
            settings.proofOrigins = ProofOrigins(publicURL: "https://broker.example.test")
            broker = try TestBroker(clients: [client], settings: settings)
            charge = Charge(
                IPAddress(high: 0, low: 0xFFFF_0A00_0001),
                in: ChargeLedger(
                    ChargeLimits(loginsPerMinute: perMinute, pending: pending), monotonic: broker.clock.clock.monotonic)
            )
        }

        /// The number of proofs whose signature was verified and right.
        var accepted: Int {
            broker.events.all.filter { if case .proofJudged(_, _, "accepted") = $0 { true } else { false } }.count
        }

        func evidence(_ phone: SigningPhone, _ path: String, _ identifier: String) throws -> PresentedEvidence {
            let nonce = ProofNonce.text(
                at: broker.clock.now, scope: broker.context.memory.nonceScope, by: broker.vault)
            let proof = try phone.proof(
                method: "POST", address: "https://broker.example.test" + path, identifier: identifier, nonce: nonce)
            return PresentedEvidence(proofs: [proof], target: ProofTarget(method: "POST", address: .own(path: path)))
        }
    }

    private func appLogin(
        _ fixture: Fixture, _ identifier: String, by phone: SigningPhone, code: String = "code-1"
    ) throws -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "ios")
        input.code = Secret(code)
        input.codeVerifier = Secret(String(repeating: "v", count: 43))
        input.loginToken = loginToken
        input.charge = fixture.charge
        input.evidence = try fixture.evidence(phone, "/v1/sessions", identifier)
        return input
    }

    @Test(
        "Binding mode `enforce`, and a sign-in's proof is missing or for another route → refused before the token call")
    func enforced() async throws {
        let fixture = try Fixture(.enforce)
        var input = try appLogin(fixture, "id", by: phone)
        input.evidence = PresentedEvidence(
            proofs: try fixture.evidence(phone, "/v1/logins", "id").proofs, target: input.evidence.target)
        let elsewhere = await problem { [input] in try await fixture.broker.forward(input) }
        #expect(elsewhere?.proof == .address)
        input.evidence = .none
        let missing = await problem { [input] in try await fixture.broker.forward(input) }
        #expect(missing?.code == .proofRequired)
        #expect(fixture.broker.provider.grants == 0)
    }

    @Test("Binding mode `off`, and a sign-in has a good proof → the proof is ignored, and the session is unbound")
    func off() async throws {
        let fixture = try Fixture(.off)
        let session = try await fixture.broker.forward(appLogin(fixture, "id", by: phone))
        let live = try await fixture.broker.useCases.resumeSession.resume(session.token)
        #expect(live.facts.thumbprint == nil && live.binding == nil)
        #expect(fixture.broker.context.memory.proofs.count == 0)
        let isJudged = fixture.broker.events.all.contains { if case .proofJudged = $0 { true } else { false } }
        #expect(!isJudged)
    }

    @Test(
        "Binding mode `observe`, and a code is forwarded forty times, each time with a new proof → only one signature is verified"
    )
    func observedOnce() async throws {
        let fixture = try Fixture(.observe)
        for number in 0..<40 {
            _ = try await fixture.broker.forward(appLogin(fixture, "id-\(number)", by: phone))
        }
        #expect(fixture.accepted == 1)
        #expect(fixture.broker.context.memory.proofs.count == 1)
    }

    @Test(
        "An app forwards its code repeatedly, each time with a new proof → from the 17th on, a signature costs a login start"
    )
    func repeats() async throws {
        let fixture = try Fixture(.enforce, perMinute: 4)
        var codes: [ProblemCode?] = []
        for number in 0..<30 {
            codes.append(
                await problem {
                    try await fixture.broker.forward(
                        appLogin(fixture, "id-\(number)", by: phone))
                }?.code)
        }
        #expect(codes.first == .some(nil))
        #expect(fixture.accepted <= ChargeLedger.paidSignatures + 4)
        #expect(codes.last == .rateLimited)
        // The real phone can sign in as soon as its address may start a login again.
        fixture.broker.clock.advance(.seconds(60))
        #expect(await problem { try await fixture.broker.forward(appLogin(fixture, "late", by: phone)) } == nil)
    }

    @Test(
        "Twenty phones sign in from an address that may start one login a minute → all succeed, as a completed sign-in is free"
    )
    func many() async throws {
        // At most two logins may be pending, and each address may start one login in a minute.
        let fixture = try Fixture(.enforce, perMinute: 1, pending: 2)
        for number in 0..<20 {
            let phone = SigningPhone()
            let input = try appLogin(fixture, "id", by: phone, code: "code-\(number)")
            #expect(await problem { try await fixture.broker.forward(input) } == nil, "\(number)")
        }
        #expect(fixture.accepted == 20)
    }

    @Test(
        "An app forwards a bound login's callback repeatedly with new proofs → from the 17th on, a signature costs a login start"
    )
    func boundLogin() async throws {
        let fixture = try Fixture(.enforce, perMinute: 4)
        var start = StartLoginInput(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), charge: fixture.charge)
        start.evidence = try fixture.evidence(phone, "/v1/logins", "start")
        let login = try await fixture.broker.useCases.startLogin.start(start)
        var input = ForwardCodeInput()
        input.callbackURL = fixture.broker.callback(login)
        input.loginToken = login.loginToken
        input.charge = fixture.charge
        var codes: [ProblemCode?] = []
        for number in 0..<30 {
            input.evidence = try fixture.evidence(phone, "/v1/sessions", "id-\(number)")
            codes.append(await problem { try await fixture.broker.forward(input) }?.code)
        }
        // The address pays for four signatures: three with the starts that it has left, and one with the start that was
        // refunded when the session was made. The charge for the second login includes one more.
        #expect(fixture.accepted <= ChargeLedger.paidSignatures + 4 + 1)
        #expect(codes.first == .some(nil) && codes.last == .rateLimited)
        fixture.broker.clock.advance(.seconds(60))
        input.evidence = try fixture.evidence(phone, "/v1/sessions", "late")
        #expect(await problem { try await fixture.broker.forward(input) } == nil)
    }
}
