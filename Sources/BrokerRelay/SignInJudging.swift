package import Broker

/// Judges whether the session's sign-in meets the needs of a call.
package protocol SignInJudging: Sendable {
    /// Returns the session whose sign-in meets a demand, in the state that was judged; throws the refusal otherwise.
    func require(_ demand: StepUpDemand, of session: LiveSession) async throws(BrokerProblem) -> LiveSession

    /// Judges an upstream's own challenge to a token, of the session's own API or of a `target`.
    ///
    /// Returns the current session if another token of it may be accepted, unless the challenged one `isLast`.
    func answer(
        challenge: StepUpDemand, of session: LiveSession, target: TokenTarget?, isLast: Bool
    ) async throws(BrokerProblem) -> LiveSession
}

extension SignInCheck: SignInJudging {}
