import BrokerTestSupport
import Testing

@testable import Broker

/// Evidence of bound sessions: the early check before a body is read, passes, and proofs at several replicas.
@Suite("Evidence of bound sessions", .timeLimit(.minutes(1)))
struct EvidenceCheckTests {
    private let phone = SigningPhone()

    private func broker(
        _ evidence: BindingPolicy.Evidence = .pass, clock: TestClock = TestClock(), sharing: TestSharedStore? = nil
    ) throws -> TestBroker {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), login: .both,
            redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
        client.binding.mode = .enforce
        client.binding.evidence = evidence
        client.children = [ChildKind(unchecked: "widget"): ChildPolicy()]
        var settings = BrokerSettings()
        settings.proofOrigins = ProofOrigins(publicURL: "https://broker.example.test")
        return try TestBroker(clients: [client], settings: settings, clock: clock, sharing: sharing)
    }

    private func evidence(
        _ broker: TestBroker, _ identifier: String, by phone: SigningPhone, method: String = "POST",
        path: String = "/v1/session", token: Secret? = nil, passes: [Secret] = []
    ) throws -> PresentedEvidence {
        let proof = try phone.proof(
            method: method, address: "https://broker.example.test" + path, identifier: identifier,
            nonce: ProofCheck(context: broker.context).nonce, token: token)
        return PresentedEvidence(
            proofs: [proof], passes: passes, target: ProofTarget(method: method, address: .own(path: path)))
    }

    /// The proof check of a second replica, which remembers used proofs in a memory of its own.
    private func secondReplica(of broker: TestBroker, _ store: TestSharedStore) -> ProofCheck {
        let context = broker.context
        return ProofCheck(
            context: BrokerContext(
                clock: context.clock, spawner: context.spawner, events: context.events, vault: context.vault,
                store: context.store, providers: context.providers, cache: SessionCache(), notices: SessionNotices(),
                settings: context.settings, shared: store))
    }

    /// Signs in, and returns the token of a session that is bound to the phone's key.
    private func bound(_ broker: TestBroker) async throws -> Secret {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "ios")
        input.code = Secret("code-1")
        input.codeVerifier = Secret(String(repeating: "v", count: 43))
        input.loginToken = Secret(String(repeating: "l", count: 43))
        input.evidence = try evidence(broker, "sign-in", by: phone, path: "/v1/sessions")
        return try await broker.forward(input).token
    }

    @Test(
        "A proof is checked before the body is read → a missing or wrong proof is refused; a right one passes, but stays unused"
    )
    func looks() async throws {
        let broker = try broker()
        let token = try await bound(broker)
        let resume = broker.useCases.resumeSession
        func look(_ evidence: PresentedEvidence) async throws -> Bool {
            try await resume.look(token, { evidence }).isProven
        }
        #expect(await problem { try await look(.none) }?.code == .proofRequired)
        let foreign = try evidence(broker, "foreign", by: SigningPhone(), token: token)
        let refusal = await problem { try await look(foreign) }
        #expect(refusal?.code == .proofInvalid && refusal?.proof == .key)
        let own = try evidence(broker, "own", by: phone, token: token)
        // `look` leaves the signature unverified and the proof unused. So a second call of `look` has the same result.
        for _ in 0..<2 { #expect(try await !look(own)) }
        _ = try await resume.resume(token, { own })
        #expect(await problem { try await look(own) }?.proof == .replayed)
    }

    @Test(
        "A bound session sends a good pass → accepted if its client allows passes, refused if its client demands proofs"
    )
    func passes() async throws {
        for (policy, code) in [(BindingPolicy.Evidence.proof, ProblemCode.proofRequired), (.pass, nil)]
            as [(BindingPolicy.Evidence, ProblemCode?)]
        {
            let broker = try broker(policy)
            let token = try await bound(broker)
            let pass = SessionPass(expiresAt: broker.clock.now.advanced(by: .seconds(60)))
                .text(of: broker.vault.digest(token), by: broker.vault)
            let shown = PresentedEvidence(
                proofs: [], passes: [pass], target: ProofTarget(method: "GET", address: .own(path: "/v1/session")))
            let resume = broker.useCases.resumeSession
            #expect(await problem { try await resume.resume(token, { shown }) }?.code == code)
            #expect(await problem { try await resume.look(token, { shown }) }?.code == code)
        }
    }

    @Test(
        "A pass is requested for an unbound session, or from a client that demands proofs → refused, with the reason in the log"
    )
    func noPass() async throws {
        let broker = try broker(.proof)
        let token = try await bound(broker)
        let proof = try evidence(broker, "pass", by: phone, token: token)
        let live = try await broker.useCases.resumeSession.resume(token, { proof })
        let grant = broker.useCases.grantPass
        let refusal = await problem { try grant.grant(to: live) }
        #expect(refusal?.code == .clientNotAllowed && refusal?.privateDetail == "the client's evidence is a proof")
        let unbound = await problem { try grant.grant(to: live.with(nil)) }
        #expect(unbound?.code == .clientNotAllowed && unbound?.privateDetail == "the session is not bound")
    }

    @Test("A bound session gets a pass → the app's own session gets it in a cookie, a child session in the body")
    func transport() async throws {
        let broker = try broker()
        let token = try await bound(broker)
        let proof = try evidence(broker, "parent", by: phone, token: token)
        let parent = try await broker.useCases.resumeSession.resume(token, { proof })
        #expect(try broker.useCases.grantPass.grant(to: parent).transport == .cookie)
        let watch = SigningPhone()
        let order = ChildOrder(
            kind: ChildKind(unchecked: "widget"), name: "home",
            thumbprint: Digest(try #require(Base64URL.decode(watch.thumbprint))))
        let made = try await broker.useCases.makeChild.make(order, of: parent)
        let own = try evidence(broker, "child", by: watch, token: made.token)
        let child = try await broker.useCases.resumeSession.resume(made.token, { own })
        #expect(try broker.useCases.grantPass.grant(to: child).transport == .bearer)
    }

    @Test(
        "A replica receives a proof that another replica has accepted → the proof is refused for POST, but accepted for GET",
        arguments: [("POST", ProofRefusal.replayed), ("GET", nil)] as [(String, ProofRefusal?)])
    func replicas(_ method: String, _ refusal: ProofRefusal?) async throws {
        let store = TestSharedStore()
        let broker = try broker(sharing: store)
        let (here, there) = (ProofCheck(context: broker.context), secondReplica(of: broker, store))
        let shown = try evidence(broker, "1", by: phone, method: method)
        let (first, second) = (try here.candidate(shown), try there.candidate(shown))
        #expect(await problem { try await here.take(first) } == nil)
        #expect(await problem { try await here.take(first) }?.proof == .replayed)
        #expect(await problem { try await there.take(second) }?.proof == refusal)
    }

    @Test("A second replica receives a used proof of a POST in the last second of its nonce → refused as replayed (W3)")
    func lateReplica() async throws {
        // The test's clock starts at the first second of a nonce's period. So the nonce in the proof is accepted for 600
        // seconds.
        let clock = TestClock()
        let store = TestSharedStore(clock: clock)
        let broker = try broker(clock: clock, sharing: store)
        let (here, there) = (ProofCheck(context: broker.context), secondReplica(of: broker, store))
        let caught = try evidence(broker, "1", by: phone)
        #expect(await problem { try await here.take(here.candidate(caught)) } == nil)
        clock.advance(.seconds(599))
        #expect(await problem { try await there.take(there.candidate(caught)) }?.proof == .replayed)
    }
}
