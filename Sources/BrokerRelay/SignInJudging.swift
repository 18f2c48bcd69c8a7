package import Broker

/// Judges whether the session of a call was signed in as the call needs.
package protocol SignInJudging: Sendable {
    /// Returns the session whose sign-in meets a demand, as it was judged; throws the refusal where it does not.
    func require(_ demand: StepUpDemand, of session: LiveSession) async throws(BrokerProblem) -> LiveSession

    /// Judges an upstream's own challenge to a token, of the session's own or of a `target`: returns the session as it stands where
    /// another token of it may do, unless the one that was challenged `isLast`.
    func answer(
        challenge: StepUpDemand, of session: LiveSession, target: TokenTarget?, isLast: Bool
    ) async throws(BrokerProblem) -> LiveSession
}

extension SignInCheck: SignInJudging {}
