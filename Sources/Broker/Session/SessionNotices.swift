import Synchronization

/// Something that a listener of `GET /v1/session/events` hears.
package enum SessionNotice: Sendable, Equatable {
    case tokensRefreshed
    /// The session has a presence key now.
    case presenceKeyChanged
    case ended(EndReason)
    /// Newer listeners have taken its place: nothing more comes.
    case superseded
}

/// Tells listeners in this process what happened to their session.
///
/// A session has so many of them, and a subject and client a few times as many; the oldest ends for a new one.
package final class SessionNotices: Sendable {
    /// The most listeners of a session.
    package static let maximumPerSession = 8

    fileprivate struct State {
        var next: UInt64 = 0
        var sessions: [Digest: Listened] = [:]
        /// The listeners of a subject and client, and the session that each listens to.
        var owners: [Digest: [UInt64: Digest]] = [:]
        /// The children that somebody listens to, by their parents.
        var families: [Digest: Set<Digest>] = [:]
    }

    /// A session that somebody listens to.
    fileprivate struct Listened {
        /// The newest version of its tokens that its listeners know of.
        var version: Int64
        /// Whether its listeners know that it has a presence key.
        var hasPresence: Bool
        var listeners: [UInt64: @Sendable (SessionNotice) -> Void] = [:]
        /// The session that it is a child of.
        var parent: Digest?
    }

    /// Guards the listeners by session.
    private let state = Mutex(State())

    package init() {}

    /// Calls `listener` for each notice of a session from now on, as long as the returned subscription is held and no newer
    /// ones have superseded it; `version` is that of the tokens that it knows of.
    ///
    /// `owner` is who the session's subject and client are, who may have `limit` listeners; a child hears of its parent's end
    /// as of its own.
    package func subscribe(
        _ tokenDigest: Digest, of owner: Digest, limit: Int, version: Int64, hasPresence: Bool = false,
        parent: Digest? = nil,
        _ listener: @escaping @Sendable (SessionNotice) -> Void
    ) -> Subscription {
        let (id, superseded) = state.withLock { state in
            state.next &+= 1
            let id = state.next
            state.sessions[
                tokenDigest, default: Listened(version: version, hasPresence: hasPresence, parent: parent)
            ].listeners[id] = listener
            if let parent { state.families[parent, default: []].insert(tokenDigest) }
            state.owners[owner, default: [:]][id] = tokenDigest
            return (id, state.makeRoom(for: tokenDigest, of: owner, limit: limit))
        }
        for listener in superseded { listener(.superseded) }
        return Subscription { [weak self] in self?.unsubscribe(tokenDigest, of: owner, id) }
    }

    private func unsubscribe(_ tokenDigest: Digest, of owner: Digest, _ id: UInt64) {
        state.withLock { state in _ = state.remove(id, tokenDigest, of: owner) }
    }

    /// Tells a session's listeners.
    package func post(_ notice: SessionNotice, to tokenDigest: Digest) {
        let (listeners, children) = state.withLock { state in
            (state.sessions[tokenDigest].map { Array($0.listeners.values) } ?? [], state.families[tokenDigest] ?? [])
        }
        for listener in listeners { listener(notice) }
        guard case .ended = notice else { return }
        for child in children { post(.ended(.parentEnded), to: child) }
    }

    /// Tells a session's listeners that its tokens are of this version now, unless they know.
    ///
    /// With `isOwn` false they are another API's, and nobody is told: only the version is known, where the one before is. Where it
    /// is not, a refresh of the session's own that another replica made is still to be told.
    package func refreshed(_ tokenDigest: Digest, version: Int64, isOwn: Bool = true) {
        let isNew = state.withLock { state in
            guard let known = state.sessions[tokenDigest]?.version, known < version, isOwn || known == version - 1
            else { return false }
            state.sessions[tokenDigest]?.version = version
            return true
        }
        if isNew, isOwn { post(.tokensRefreshed, to: tokenDigest) }
    }

    /// Tells a session's listeners that it has a presence key now, unless they know.
    package func presenceRegistered(_ tokenDigest: Digest) {
        let isNew = state.withLock { state in
            guard state.sessions[tokenDigest]?.hasPresence == false else { return false }
            state.sessions[tokenDigest]?.hasPresence = true
            return true
        }
        if isNew { post(.presenceKeyChanged, to: tokenDigest) }
    }

    /// The sessions that somebody listens to, for polling what other replicas did.
    package var listenedTo: [Digest] { state.withLock { Array($0.sessions.keys) } }

    /// The number of owners that have listeners.
    var owners: Int { state.withLock { $0.owners.count } }
}

extension SessionNotices.State {
    /// Takes the oldest listeners out that a new one leaves no room for, and returns them.
    fileprivate mutating func makeRoom(
        for tokenDigest: Digest, of owner: Digest, limit: Int
    ) -> [@Sendable (SessionNotice) -> Void] {
        var superseded: [@Sendable (SessionNotice) -> Void] = []
        while let listeners = sessions[tokenDigest]?.listeners, listeners.count > SessionNotices.maximumPerSession,
            let oldest = listeners.keys.min(), let listener = remove(oldest, tokenDigest, of: owner)
        {
            superseded.append(listener)
        }
        // The newest stays, whatever the limit.
        while let listeners = owners[owner], listeners.count > max(limit, 1),
            let oldest = listeners.min(by: { $0.key < $1.key }),
            let listener = remove(oldest.key, oldest.value, of: owner)
        {
            superseded.append(listener)
        }
        return superseded
    }

    /// Takes a listener out; returns it if it was still there.
    fileprivate mutating func remove(
        _ id: UInt64, _ tokenDigest: Digest, of owner: Digest
    ) -> (@Sendable (SessionNotice) -> Void)? {
        let listener = sessions[tokenDigest]?.listeners.removeValue(forKey: id)
        if let last = sessions[tokenDigest], last.listeners.isEmpty {
            sessions[tokenDigest] = nil
            if let parent = last.parent { families[parent]?.remove(tokenDigest) }
            if let parent = last.parent, families[parent]?.isEmpty == true { families[parent] = nil }
        }
        owners[owner]?[id] = nil
        if owners[owner]?.isEmpty == true { owners[owner] = nil }
        return listener
    }
}

/// A listener's place: it ends when nobody holds it any more.
package final class Subscription: Sendable {
    private let end: @Sendable () -> Void

    init(end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}

/// Listens to what happens to a session (`GET /v1/session/events`).
package struct ListenToSession: Sendable {
    /// The number of listeners that a subject and client may have for each session that they may have: the most that
    /// are live can be listened to from two places each.
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
            live.tokenDigest, of: live.row.subjectAndClient, limit: Self.perSession * sessions,
            version: live.row.tokenVersion, hasPresence: live.row.presence != nil, parent: live.row.lineage?.parent,
            listener)
    }
}

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
        // Sessions that were cached before may have ended meanwhile.
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

/// Finds out which sessions that somebody here listens to were refreshed by other replicas, or got a presence key there, by asking
/// now and then.
///
/// A notice of each refresh would cost every replica something for each, and the database a lock; most have no listener.
package struct ReplicaRefreshes: Sendable {
    private let notices: SessionNotices
    private let store: any SharedStore

    /// The number of sessions that one query asks for.
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
            for session in try await store.tokenVersions(of: batch) {
                notices.refreshed(session.tokenDigest, version: session.version)
                if session.hasPresence { notices.presenceRegistered(session.tokenDigest) }
            }
        }
    }
}
