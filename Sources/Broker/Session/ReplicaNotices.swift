/// Acts on what is heard of other replicas: the cache forgets, event streams end (guarantee 6).
package struct ReplicaNotices: Sendable {
    private let cache: SessionCache
    private let notices: SessionNotices

    package init(_ context: BrokerContext) {
        cache = context.cache
        notices = context.notices
    }

    /// Listens to a store that several processes share; until it tells something, nothing is cached.
    package func listen(to store: any SharedStore) {
        cache.reset(open: false)
        store.listen { hear($0) }
    }

    func hear(_ notice: EndingNotice) {
        switch notice {
        // What was cached before may have ended meanwhile.
        case .hearing: cache.reset(open: true)
        case .deaf: cache.reset(open: false)
        case .ended(let sessions):
            cache.remove(sessions.map(\.token))
            for session in sessions { notices.post(.ended(session.reason.shown), to: session.token) }
        }
    }
}
