/// Access tokens of a session for other APIs than its own: fetched on demand, under the session's one refresh claim.
package struct AudienceTokens: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns an access token for a target, fetched or renewed where the one that is kept has no time left.
    ///
    /// `refused` is the one that its upstream has refused: a newer one than that is given. A child's is its parent's. Throws
    /// `provider_error` where the provider refuses the target, which ends no session; `not_refreshable` where there is nothing
    /// to ask with.
    package func accessToken(
        for given: LiveSession, at target: TokenTarget, insteadOf refused: AccessToken? = nil
    ) async throws(BrokerProblem) -> AccessToken {
        throw BrokerProblem(.providerError)
    }
}
