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

/// Something that lasts as long as its session at most: a relayed answer that is written piece by piece.
package protocol SessionFollower: AnyObject, Sendable {
    /// The session has ended, or is not known any more; called from any thread, and perhaps more than once.
    func sessionEnded(_ reason: EndReason?)
}

/// The register of what lasts as long as a session in this process: event streams, which hear what happens to it, and
/// followers, which hear of its end.
///
/// A session has so many event streams, and a subject and client a few times as many; the oldest ends for a new one. What a
/// follower costs is bounded where it begins.
package final class SessionNotices: Sendable {
    /// The most listeners of a session.
    package static let maximumPerSession = 8

    /// The place of a follower in the register.
    package struct Place: Sendable {
        fileprivate let session: Digest
        fileprivate let id: UInt64
    }

    fileprivate struct State {
        var next: UInt64 = 0
        var sessions: [Digest: Listened] = [:]
        /// The listeners of a subject and client, and the session that each listens to.
        var owners: [Digest: [UInt64: Digest]] = [:]
        /// The children that somebody listens to, by their parents.
        var families: [Digest: Set<Digest>] = [:]
    }

    /// A session that somebody listens to, or follows.
    fileprivate struct Listened {
        /// The newest version of its tokens that its listeners know of; of a child's, its parent's.
        var version: Int64
        /// Whether its listeners know that it has a presence key.
        var hasPresence: Bool
        var listeners: [UInt64: @Sendable (SessionNotice) -> Void] = [:]
        var followers: [UInt64: any SessionFollower] = [:]
        /// The session that it is a child of.
        var parent: Digest?
        /// The time at which it is to be looked up: it lapses then by what is known of it.
        var due: WallTime
    }

    /// Guards the listeners by session.
    private let state = Mutex(State())

    package init() {}

    /// Calls `listener` for each notice of a session from now on, as long as the returned subscription is held and no newer
    /// ones have superseded it; `version` is that of the tokens that it knows of, a child's listener its parent's.
    ///
    /// `owner` may have `limit` listeners; a child hears of its parent's end as of its own. The session lapses at `lapsesAt`
    /// by what is known of it.
    package func subscribe(
        _ tokenDigest: Digest, of owner: Digest, limit: Int, version: Int64, hasPresence: Bool = false,
        parent: Digest? = nil, lapsesAt: WallTime = WallTime(milliseconds: .max),
        _ listener: @escaping @Sendable (SessionNotice) -> Void
    ) -> Subscription {
        let (id, superseded) = state.withLock { state in
            let id = state.enter(
                tokenDigest,
                Listened(version: version, hasPresence: hasPresence, parent: parent, due: lapsesAt)
            ) { known, id in
                if known.listeners.isEmpty { (known.version, known.hasPresence) = (version, hasPresence) }
                known.listeners[id] = listener
            }
            state.owners[owner, default: [:]][id] = tokenDigest
            return (id, state.makeRoom(for: tokenDigest, of: owner, limit: limit))
        }
        for listener in superseded { listener(.superseded) }
        return Subscription { [weak self] in self?.unsubscribe(tokenDigest, of: owner, id) }
    }

    private func unsubscribe(_ tokenDigest: Digest, of owner: Digest, _ id: UInt64) {
        state.withLock { state in _ = state.remove(id, tokenDigest, of: owner) }
    }

    /// Enters a follower of a session, until it is forgotten: it is told of the session's end, a child's of its parent's, too.
    package func follow(_ session: LiveSession, _ follower: any SessionFollower) -> Place {
        let tokenDigest = session.tokenDigest
        return state.withLock { state in
            let id = state.enter(
                tokenDigest,
                Listened(
                    version: session.tokenHolder.row.tokenVersion, hasPresence: session.row.presence != nil,
                    parent: session.row.lineage?.parent, due: session.lapsesAt)
            ) { known, id in known.followers[id] = follower }
            return Place(session: tokenDigest, id: id)
        }
    }

    /// Forgets a follower.
    package func forget(_ place: Place) {
        let follower = state.withLock { state in
            let follower = state.sessions[place.session]?.followers.removeValue(forKey: place.id)
            state.leaveIfEmpty(place.session)
            return follower
        }
        // Its own end may come with it, outside the lock.
        withExtendedLifetime(follower) {}
    }

    /// Tells a session's listeners; of an end its followers, too, and of an end or a refresh its children's.
    package func post(_ notice: SessionNotice, to tokenDigest: Digest) {
        let (listeners, children) = state.withLock { state in
            (state.sessions[tokenDigest].map { Array($0.listeners.values) } ?? [], state.families[tokenDigest] ?? [])
        }
        for listener in listeners { listener(notice) }
        switch notice {
        case .ended(let reason):
            end(tokenDigest, reason)
            for child in children { post(.ended(.parentEnded), to: child) }
        case .tokensRefreshed:
            doubt(tokenDigest)
            for child in children { post(.tokensRefreshed, to: child) }
        case .presenceKeyChanged, .superseded: break
        }
    }

    /// Tells a session's followers that it is over; of one that is not even known any more, without a reason.
    func end(_ tokenDigest: Digest, _ reason: EndReason?) {
        let followers = state.withLock { state in
            state.sessions[tokenDigest].map { Array($0.followers.values) } ?? []
        }
        for follower in followers { follower.sessionEnded(reason) }
    }

    /// Tells the listeners of a session, and of its children, that its tokens are of this version now, unless they know.
    ///
    /// With `isOwn` false they are another API's, and nobody is told: only the version is known, where the one before is. Where it
    /// is not, a refresh of the session's own that another replica made is still to be told.
    package func refreshed(_ tokenDigest: Digest, version: Int64, isOwn: Bool = true) {
        let listeners = state.withLock { state in
            // A child's own row has no tokens, and so no version that anybody waits for.
            let own = state.sessions[tokenDigest].map { $0.parent == nil } == true ? [tokenDigest] : []
            return (own + (state.families[tokenDigest] ?? [])).flatMap { session in
                guard let known = state.sessions[session]?.version, known < version, isOwn || known == version - 1
                else { return [@Sendable (SessionNotice) -> Void]() }
                state.sessions[session]?.version = version
                // It may end at another time now.
                state.sessions[session]?.due = WallTime(milliseconds: .min)
                return state.sessions[session].map { Array($0.listeners.values) } ?? []
            }
        }
        guard isOwn else { return }
        for listener in listeners { listener(.tokensRefreshed) }
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

    /// The sessions that somebody listens to or follows, and their parents, for polling what other replicas did.
    package var listenedTo: [Digest] {
        state.withLock { state in Array(Set(state.sessions.keys).union(state.families.keys)) }
    }

    /// The sessions that are to be looked up: they have lapsed by what is known of them.
    func due(at now: WallTime) -> [Digest] {
        state.withLock { state in state.sessions.compactMap { $0.value.due <= now ? $0.key : nil } }
    }

    /// Takes note that a session lives, and is to be looked up again at a time.
    func lives(_ tokenDigest: Digest, until due: WallTime) {
        state.withLock { $0.sessions[tokenDigest]?.due = due }
    }

    /// Has a session and its children looked up soon: it may have ended and its notice be lost, or end at another time.
    func doubt(_ tokenDigest: Digest) {
        state.withLock { state in
            for session in [tokenDigest] + (state.families[tokenDigest] ?? []) {
                state.sessions[session]?.due = WallTime(milliseconds: .min)
            }
        }
    }

    /// Has all of them looked up soon: some have ended, and nobody knows which.
    func doubtAll() {
        state.withLock { state in
            for session in state.sessions.keys { state.sessions[session]?.due = WallTime(milliseconds: .min) }
        }
    }

    /// The number of owners that have listeners.
    var owners: Int { state.withLock { $0.owners.count } }
}

extension SessionNotices.State {
    /// Enters a listener or follower of a session, by what is known of the session, and returns its number.
    fileprivate mutating func enter(
        _ tokenDigest: Digest, _ new: SessionNotices.Listened,
        _ add: (inout SessionNotices.Listened, UInt64) -> Void
    ) -> UInt64 {
        next &+= 1
        add(&sessions[tokenDigest, default: new], next)
        if let parent = new.parent { families[parent, default: []].insert(tokenDigest) }
        return next
    }

    /// Forgets a session that nobody listens to or follows.
    fileprivate mutating func leaveIfEmpty(_ tokenDigest: Digest) {
        guard let last = sessions[tokenDigest], last.listeners.isEmpty, last.followers.isEmpty else { return }
        sessions[tokenDigest] = nil
        guard let parent = last.parent else { return }
        families[parent]?.remove(tokenDigest)
        if families[parent]?.isEmpty == true { families[parent] = nil }
    }

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
        leaveIfEmpty(tokenDigest)
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
    /// The number of listeners that a child may have, beside those of its family: a page may stand open in several tabs.
    package static let perChild = 4

    private let context: BrokerContext

    init(_ context: BrokerContext) { self.context = context }

    /// Calls `listener` for each notice from now on, as long as the returned subscription is held.
    package func listen(
        _ live: LiveSession, _ listener: @escaping @Sendable (SessionNotice) -> Void
    ) -> Subscription {
        let settings = context.settings
        let sessions =
            live.ownsItselfAlone(context) ? settings.sessionsPerShopAndClient : settings.sessionsPerSubjectAndClient
        // A child's are its own: neither a sibling nor its parent ends them.
        let isChild = live.family != nil
        return context.notices.subscribe(
            live.tokenDigest, of: isChild ? live.tokenDigest : live.row.subjectAndClient,
            limit: isChild ? Self.perChild : Self.perSession * sessions,
            version: live.tokenHolder.row.tokenVersion, hasPresence: live.row.presence != nil,
            parent: live.row.lineage?.parent, lapsesAt: live.lapsesAt, listener)
    }

    /// Enters a follower of a session in the register, until it is forgotten.
    package func follow(_ live: LiveSession, _ follower: any SessionFollower) -> SessionNotices.Place {
        context.notices.follow(live, follower)
    }

    /// Forgets a follower.
    package func forget(_ place: SessionNotices.Place) { context.notices.forget(place) }
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
    ///
    /// `heard` is called with each notice, too.
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

/// Finds out which sessions that somebody here listens to or follows were refreshed by other replicas, got a presence key or ended
/// there, by asking now and then.
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
            var gone = Set(batch)
            for session in try await store.tokenVersions(of: batch) {
                gone.remove(session.tokenDigest)
                notices.refreshed(session.tokenDigest, version: session.version)
                if session.hasPresence { notices.presenceRegistered(session.tokenDigest) }
            }
            // The notice of their end was lost, or comes this very moment.
            for session in gone { notices.doubt(session) }
        }
    }
}
