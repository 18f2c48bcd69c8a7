package import Broker

/// Judges whether the session of a call was signed in as the call needs.
package protocol SignInJudging: Sendable {
    /// Returns where the session's sign-in meets a demand; throws the refusal where it does not.
    func require(_ demand: StepUpDemand, of session: LiveSession) async throws(BrokerProblem)

    /// Judges an upstream's own challenge of an access token: returns where another token of the session's may do, unless it
    /// `isLast`.
    func answer(
        challenge: StepUpDemand, of session: LiveSession, to access: AccessToken, isLast: Bool
    ) async throws(BrokerProblem)
}

extension SignInCheck: SignInJudging {}
