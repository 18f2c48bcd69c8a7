/// Finds out which sessions that somebody here listens to were refreshed by other replicas, by asking now and then.
///
/// A notice of each refresh would cost every replica something for each, and the database a lock; most have no listener.
package struct ReplicaRefreshes: Sendable {
    private let notices: SessionNotices
    private let store: any SharedStore

    /// How many sessions one query asks for.
    private static let batch = 1000

    package init(_ context: BrokerContext, _ store: any SharedStore) {
        notices = context.notices
        self.store = store
    }

    /// Asks for all that somebody listens to; without a listener nothing is asked.
    package func look() async throws(StoreFailure) {
        var rest = notices.listenedTo[...]
        while !rest.isEmpty {
            let batch = Array(rest.prefix(Self.batch))
            rest = rest.dropFirst(Self.batch)
            for (token, version) in try await store.tokenVersions(of: batch) {
                notices.refreshed(token, version: version)
            }
        }
    }
}
