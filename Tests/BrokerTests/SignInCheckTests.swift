import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// An upstream's own challenge, compared with the session's sign-in.
@Suite(.timeLimit(.minutes(1))) struct SignInCheckTests {
    @Test("An upstream demands a stronger sign-in, by its first or its last token → step_up_required")
    func unmet() async throws {
        let broker = try TestBroker()
        broker.provider.script.withLock { $0.signIn = SignInFacts(contextClass: "pwd") }
        let live = try await broker.useCases.resumeSession.resume(broker.signIn().token)
        let challenge = StepUpDemand(contextClasses: ["mfa"])
        for isLast in [false, true] {
            let refusal = await problem {
                try await broker.useCases.signInCheck.answer(
                    challenge: challenge, of: live, target: nil, isLast: isLast)
            }
            #expect(refusal?.code == .stepUpRequired && refusal?.wanted?.demand == challenge)
        }
    }
}
