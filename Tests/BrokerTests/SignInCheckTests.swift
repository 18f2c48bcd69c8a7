import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// A step-up challenge that an upstream sends, compared with the session's sign-in.
@Suite(.timeLimit(.minutes(1))) struct SignInCheckTests {
    @Test("An upstream demands an `acr` that the sign-in lacks → `step_up_required` with this demand")
    func unmet() async throws {
        let broker = try TestBroker()
        broker.provider.script.withLock { $0.signIn = SignInFacts(contextClass: "pwd") }
        let live = try await broker.useCases.resumeSession.resume(broker.signIn().token)
        let challenge = StepUpDemand(contextClasses: ["mfa"])
        for isLast in [false, true] {
            let refusal = await problem {
                try await broker.useCases.signInCheck.judge(
                    challenge: challenge, of: live, target: nil, isLast: isLast)
            }
            #expect(refusal?.code == .stepUpRequired && refusal?.wanted?.demand == challenge)
        }
    }

    /// A broker with a session whose sign-in has the given `acr`.
    ///
    /// The broker's store counts the reads.
    private func counted(
        _ contextClass: String, children: [ChildKind: ChildPolicy] = [:]
    ) async throws -> (broker: TestBroker, store: ScriptedStore, live: LiveSession) {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 })
        client.children = children
        let clock = TestClock()
        let store = ScriptedStore(InMemoryStore(monotonic: clock.clock.monotonic))
        let broker = try TestBroker(store: store, clients: [client], clock: clock)
        broker.signsIn(contextClass)
        let live = try await broker.useCases.resumeSession.resume(broker.signIn().token)
        return (broker, store, live)
    }

    @Test("The cached sign-in meets a demand → accepted, without a read of the store")
    func met() async throws {
        let (broker, store, live) = try await counted("mfa")
        let reads = store.count(.session)
        #expect(try await broker.useCases.signInCheck.require(.mfa, of: live) === live)
        #expect(store.count(.session) == reads)
    }

    @Test("A child's sign-in is too weak for a demand → refused at once, because a child's sign-in never changes")
    func child() async throws {
        let widget = ChildKind(unchecked: "widget")
        let (broker, store, parent) = try await counted("pwd", children: [widget: ChildPolicy()])
        let made = try await broker.useCases.makeChild.make(ChildOrder(kind: widget, name: "home"), of: parent)
        let child = try await broker.useCases.resumeSession.resume(made.token)
        let (reads, check) = (store.count(.session), broker.useCases.signInCheck)
        let refusal = await problem { try await check.require(.mfa, of: child) }
        #expect(refusal?.code == .stepUpRequired && refusal?.wanted?.isOfParent == true)
        let challenged = await problem {
            try await check.judge(challenge: .mfa, of: child, target: nil, isLast: true)
        }
        #expect(challenged?.code == .stepUpRequired && challenged?.wanted?.isOfParent == true)
        #expect(store.count(.session) == reads)
    }

    @Test(
        "An upstream demands a sign-in of the last ten seconds → with the leeway, a sign-in up to two minutes old is enough"
    )
    func shortestAge() async throws {
        let (broker, _, live) = try await counted("mfa")
        let check = broker.useCases.signInCheck
        func answer() async -> BrokerProblem? {
            await problem {
                try await check.judge(
                    challenge: StepUpDemand(maximumAge: 10), of: live, target: nil, isLast: false)
            }
        }
        broker.clock.advance(.seconds(120))
        #expect(await answer() == nil)
        broker.clock.advance(.seconds(1))
        let refusal = await answer()
        #expect(refusal?.code == .stepUpRequired && refusal?.wanted?.demand.maximumAge == 10)
    }

    @Test(
        "An upstream demands an age of the sign-in while the clock is in doubt → 503; a demanded `acr` can still be judged"
    )
    func doubted() async throws {
        let (broker, _, live) = try await counted("mfa")
        let check = broker.useCases.signInCheck
        broker.clock.jump(.seconds(3600))
        func answer(_ challenge: StepUpDemand) async -> BrokerProblem? {
            await problem { try await check.judge(challenge: challenge, of: live, target: nil, isLast: false) }
        }
        #expect(await answer(StepUpDemand(maximumAge: 300))?.code == .storeUnavailable)
        #expect(await answer(.mfa) == nil)
    }
}
