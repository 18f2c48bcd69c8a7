package import Broker

/// Checks whether the session's sign-in meets the demands on a call.
package protocol SignInJudging: Sendable {
    /// Checks that the session's sign-in meets a demand; throws the refusal otherwise.
    ///
    /// Returns the checked state of the session, which may be newer than `session`.
    func require(_ demand: StepUpDemand, of session: LiveSession) async throws(BrokerProblem) -> LiveSession

    /// Handles an upstream's challenge to an access token of the session, which is a token for `target` or, without a target,
    /// for the session's own API.
    ///
    /// Returns the current session if the upstream may accept another of its tokens; throws the refusal for the app otherwise.
    /// Pass `isLast` if the call cannot be repeated with another token. The method then always throws.
    func judge(
        challenge: StepUpDemand, of session: LiveSession, target: TokenTarget?, isLast: Bool
    ) async throws(BrokerProblem) -> LiveSession
}

extension SignInCheck: SignInJudging {}
