/// Handles notices from other replicas (guarantee 6).
///
/// A notice removes its sessions from the cache. If the sessions have ended, their event streams end too.
package struct ReplicaNotices: Sendable {
    private let cache: SessionCache
    private let notices: SessionNotices

    package init(_ context: BrokerContext) {
        cache = context.cache
        notices = context.notices
    }

    /// Begins to receive notices from a store that several processes share.
    ///
    /// Caching is off until the store reports that notices arrive. `heard` is also called for each notice.
    package func listen(
        to store: any SharedStore, heard: @escaping @Sendable (EndingNotice) -> Void = { _ in }
    ) {
        cache.reset(open: false)
        store.listen { notice in
            hear(notice)
            heard(notice)
        }
    }

    func hear(_ notice: EndingNotice) {
        switch notice {
        // A cached session may have ended while this replica received no notices, so empty the cache.
        case .hearing: cache.reset(open: true)
        case .deaf: cache.reset(open: false)
        case .ended(let sessions):
            cache.remove(sessions.map(\.tokenDigest))
            for session in sessions { notices.post(.ended(session.reason.shown), to: session.tokenDigest) }
        case .steppedUp(let sessions):
            cache.remove(sessions)
            for session in sessions { notices.post(.tokensRefreshed, to: session) }
        case .changed(let sessions): cache.remove(sessions)
        }
    }
}
