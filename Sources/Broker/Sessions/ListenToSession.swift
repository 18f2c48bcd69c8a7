/// Subscribes to the notices of a session (`GET /v1/session/events`).
package struct ListenToSession: Sendable {
    /// The number of subscribers for each allowed session of a user at one client.
    ///
    /// For example, if a user may have 50 sessions, the user may have 100 subscribers.
    private static let perSession = 2
    /// The number of subscribers that a child may have in addition to the subscribers of its family, because a page may be open
    /// in several tabs.
    package static let perChild = 4

    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Calls `listener` for each notice from now on, until the returned subscription is released.
    package func listen(
        _ live: LiveSession, _ listener: @escaping @Sendable (SessionNotice) -> Void
    ) -> Subscription {
        let settings = context.settings
        let sessions =
            live.ownsItselfAlone(context) ? settings.sessionsPerShopAndClient : settings.sessionsPerSubjectAndClient
        // A child's subscribers are counted separately. So they stay if a sibling or the parent gets a new subscriber.
        let isChild = live.family != nil
        return context.notices.subscribe(
            live.tokenDigest, of: isChild ? live.tokenDigest : live.row.subjectAndClient,
            limit: isChild ? Self.perChild : Self.perSession * sessions,
            version: live.tokenHolder.row.tokenVersion, hasPresence: live.row.presence != nil,
            parent: live.row.lineage?.parent, lapsesAt: live.lapsesAt, listener)
    }

    /// Adds a follower of a session to `SessionNotices`, until `forget` removes the follower.
    package func follow(_ live: LiveSession, _ follower: any SessionFollower) -> SessionNotices.Place {
        context.notices.follow(live, follower)
    }

    /// Removes a follower.
    package func forget(_ place: SessionNotices.Place) { context.notices.forget(place) }
}
