/// Gives an app the provider's access token if its client opted in (the pattern of a token-mediating backend).
///
/// For example, an SDK on the device may need the access token. The refresh token never leaves the broker.
package struct HandOutToken: Sendable {
    private let context: BrokerContext
    private let refreshTokens: RefreshTokens

    package init(_ context: BrokerContext, refreshTokens: RefreshTokens) {
        self.context = context
        self.refreshTokens = refreshTokens
    }

    /// Returns the access token of a session, refreshed if necessary; this counts as a use of the session.
    ///
    /// Throws `client_not_allowed` unless the client opted in and the session has an access token. Zephr sessions, and sessions
    /// from an id_token, have none.
    package func handOut(from session: LiveSession) async throws(BrokerProblem) -> AccessToken {
        let profile = context.providers[session.view.provider]?.profile
        guard let client = profile?.client(session.view.client), client.handsOutAccessToken, profile?.kind != .zephr
        else {
            throw BrokerProblem(
                .clientNotAllowed,
                privateDetail: "the client's `hand_out_access_token` is off, or the provider is Zephr")
        }
        guard session.hasTokens else {
            throw BrokerProblem(.clientNotAllowed, privateDetail: "the session has no access token")
        }
        ResumeSession(context: context).slide(session)
        let access = try await refreshTokens.accessToken(for: session)
        guard access.credential == .bearer else { throw BrokerProblem(.clientNotAllowed) }
        context.events.emit(
            .accessTokenHandedOut(
                provider: session.view.provider, client: session.view.client, session: session.view.handle))
        return access
    }
}
