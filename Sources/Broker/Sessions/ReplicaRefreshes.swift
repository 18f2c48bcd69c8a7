/// Polls the store for changes by other replicas: refreshes, presence keys and ends of sessions with subscribers or followers in
/// this process.
///
/// Only few sessions have a subscriber, so refreshes are polled. A notice of each refresh would cost work on every replica and a
/// lock in the database.
package struct ReplicaRefreshes: Sendable {
    private let notices: SessionNotices
    private let store: any SharedStore

    /// The number of sessions in one query.
    private static let batch = 1000

    package init(_ context: BrokerContext, _ store: any SharedStore) {
        notices = context.notices
        self.store = store
    }

    /// Reads all sessions with subscribers or followers, if there are any.
    package func look() async throws(StoreFailure) {
        var rest = notices.listenedTo[...]
        while !rest.isEmpty {
            let batch = Array(rest.prefix(Self.batch))
            rest = rest.dropFirst(Self.batch)
            var gone = Set(batch)
            for session in try await store.tokenVersions(of: batch) {
                gone.remove(session.tokenDigest)
                notices.refreshed(session.tokenDigest, version: session.version)
                if session.hasPresence { notices.presenceRegistered(session.tokenDigest) }
            }
            // The store has no living row of these sessions. Their notices were lost or are still on their way, so read the
            // sessions soon.
            for session in gone { notices.doubt(session) }
        }
    }
}
