import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

extension StepUpDemand {
    static let mfa = StepUpDemand(contextClasses: ["mfa"])
}

extension TestBroker {
    /// Starts a step-up of a session.
    func startStepUp(_ session: SignedIn, _ demand: StepUpDemand = .mfa) async throws -> StartedLogin {
        var input = StartLoginInput(provider: nil)
        input.demand = demand
        input.steppingUp = try await useCases.resumeSession.resume(session.token)
        return try await useCases.startLogin.start(input)
    }

    /// Finishes the login of a step-up, with the token of a session.
    func finishStepUp(
        _ login: StartedLogin, presenting token: Secret?, code: String = "code-2"
    ) async throws -> SteppedUp {
        var input = ForwardCodeInput()
        input.callbackURL = callback(login, code: code)
        input.loginToken = login.loginToken
        input.presentedSession = token
        guard case .steppedUp(let stepped) = try await useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return stepped
    }

    /// Starts and finishes a step-up of a session, with this code.
    func stepUp(
        _ session: SignedIn, _ demand: StepUpDemand = .mfa, code: String = "code-2"
    ) async throws -> SteppedUp {
        try await finishStepUp(try await startStepUp(session, demand), presenting: session.token, code: code)
    }

    /// Sets the `acr` and the time of the sign-in in the provider's next answers.
    func signsIn(_ contextClass: String, secondsAgo: Int64 = 0) {
        let at = clock.now.since(WallTime(seconds: 0)).wholeSeconds - secondsAgo
        provider.script.withLock { $0.signIn = SignInFacts(contextClass: contextClass, authenticatedAt: at) }
    }

    func row(of session: SignedIn) async throws -> SessionRow {
        try #require(try await store.session(tokenDigest: vault.digest(session.token)))
    }
}
