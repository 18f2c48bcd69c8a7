/// Listens to what happens to a session (`GET /v1/session/events`).
package struct ListenToSession: Sendable {
    /// How many listeners a subject and client may have for each session that they may have: the most that are live can
    /// be listened to from two places each.
    private static let perSession = 2

    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Calls `listener` for each notice from now on, as long as the returned subscription is held.
    package func listen(
        _ live: LiveSession, _ listener: @escaping @Sendable (SessionNotice) -> Void
    ) -> Subscription {
        let settings = context.settings
        let sessions =
            live.ownsItselfAlone(context) ? settings.sessionsPerShopAndClient : settings.sessionsPerSubjectAndClient
        return context.notices.subscribe(
            live.token, of: live.row.subjectAndClient, limit: Self.perSession * sessions,
            version: live.row.tokenVersion, listener)
    }
}
