import Synchronization

/// Passes notices about sessions to the activities in this process that end with a session.
///
/// There are two sorts of activities. An event stream is a *subscriber*: its closure, the `listener`, receives each notice about
/// its session. Other activities have a *follower*, which receives only the end of its session.
///
/// A session has at most `maximumPerSession` subscribers. The owner of subscribers (a user with a client, or a child) has a limit
/// too. If a new subscriber exceeds a limit, the oldest one is removed, so its event stream ends. The number of followers is
/// limited by the code that starts them.
package final class SessionNotices: Sendable {
    /// The maximum number of subscribers of a session.
    package static let maximumPerSession = 8

    /// Identifies a follower of a session, so that the follower can be removed.
    package struct Place: Sendable {
        fileprivate let session: Digest
        fileprivate let id: UInt64
    }

    fileprivate struct State {
        var next: UInt64 = 0
        var sessions: [Digest: Listened] = [:]
        /// The subscribers of each owner (a user with a client, or a child), each with its session.
        var owners: [Digest: [UInt64: Digest]] = [:]
        /// The children with subscribers or followers, by their parents.
        var families: [Digest: Set<Digest>] = [:]
    }

    /// A session with subscribers or followers.
    fileprivate struct Listened {
        /// The newest token version that the session's subscribers know; for a child, the version of its parent's tokens.
        var version: Int64
        /// Whether the session's subscribers know that the session has a presence key.
        var hasPresence: Bool
        var listeners: [UInt64: @Sendable (SessionNotice) -> Void] = [:]
        var followers: [UInt64: any SessionFollower] = [:]
        /// The session's parent, if the session is a child.
        var parent: Digest?
        /// The time at which the session is read again.
        ///
        /// This is the session's lapse as this process knows it. If the session may have ended or changed, it is an earlier time.
        var due: WallTime
    }

    /// Guards the subscribers and followers of all sessions.
    private let state = Mutex(State())

    package init() {}

    /// Subscribes to a session: calls `listener` for each notice of the session from now on.
    ///
    /// The calls stop when the returned subscription is released, or when newer subscribers supersede this one. `owner` may have
    /// `limit` subscribers. A child's subscriber receives the end of the child's parent as the end of the child.
    ///
    /// `version` is the token version that the subscriber knows; for a child, the version of its parent's tokens. `lapsesAt` is
    /// the time at which the session lapses according to the caller.
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

    /// Adds a follower of a session, until `forget` removes the follower.
    ///
    /// The follower is called at the end of the session and, for a child, at the end of its parent.
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

    /// Removes a follower.
    package func forget(_ place: Place) {
        let follower = state.withLock { state in
            let follower = state.sessions[place.session]?.followers.removeValue(forKey: place.id)
            state.leaveIfEmpty(place.session)
            return follower
        }
        // The last reference to the follower must be released outside the lock, because the release may run other code.
        withExtendedLifetime(follower) {}
    }

    /// Sends a notice to a session's subscribers.
    ///
    /// An end also goes to the session's followers. An end or a refresh also goes to the session's children.
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

    /// Notifies a session's followers that the session is over.
    ///
    /// The reason is nil if the store no longer has the reason, for example because the session's row was deleted.
    func end(_ tokenDigest: Digest, _ reason: EndReason?) {
        let followers = state.withLock { state in
            state.sessions[tokenDigest].map { Array($0.followers.values) } ?? []
        }
        for follower in followers { follower.sessionEnded(reason) }
    }

    /// Notifies the subscribers of a session and of its children that its tokens now have this version, unless they already know.
    ///
    /// With `isOwn` false, the tokens are for another API, so the subscribers get no notice. The new version is then stored only
    /// if the subscribers know the version before it. Otherwise, they still need a notice about a refresh by another replica.
    package func refreshed(_ tokenDigest: Digest, version: Int64, isOwn: Bool = true) {
        let listeners = state.withLock { state in
            // A child's subscribers compare with the version of its parent, so the version of the child's own row is ignored.
            let own = state.sessions[tokenDigest].map { $0.parent == nil } == true ? [tokenDigest] : []
            return (own + (state.families[tokenDigest] ?? [])).flatMap { session in
                guard let known = state.sessions[session]?.version, known < version, isOwn || known == version - 1
                else { return [@Sendable (SessionNotice) -> Void]() }
                state.sessions[session]?.version = version
                // The refresh may have moved the end of the session, so read the session again soon.
                state.sessions[session]?.due = WallTime(milliseconds: .min)
                return state.sessions[session].map { Array($0.listeners.values) } ?? []
            }
        }
        guard isOwn else { return }
        for listener in listeners { listener(.tokensRefreshed) }
    }

    /// Notifies a session's subscribers of its presence key, unless they already know.
    package func presenceRegistered(_ tokenDigest: Digest) {
        let isNew = state.withLock { state in
            guard state.sessions[tokenDigest]?.hasPresence == false else { return false }
            state.sessions[tokenDigest]?.hasPresence = true
            return true
        }
        if isNew { post(.presenceKeyChanged, to: tokenDigest) }
    }

    /// The sessions with subscribers or followers, and their parents, for finding changes that other replicas made.
    package var listenedTo: [Digest] {
        state.withLock { state in Array(Set(state.sessions.keys).union(state.families.keys)) }
    }

    /// Returns the sessions that have to be read again, because they have lapsed according to this process's clock.
    func due(at now: WallTime) -> [Digest] {
        state.withLock { state in state.sessions.compactMap { $0.value.due <= now ? $0.key : nil } }
    }

    /// Notes that a session is alive, and when it is next read.
    func lives(_ tokenDigest: Digest, until due: WallTime) {
        state.withLock { $0.sessions[tokenDigest]?.due = due }
    }

    /// Schedules an early read of a session and its children.
    ///
    /// Callers use this if the session may have ended without a notice here, or if its end may have moved.
    func doubt(_ tokenDigest: Digest) {
        state.withLock { state in
            for session in [tokenDigest] + (state.families[tokenDigest] ?? []) {
                state.sessions[session]?.due = WallTime(milliseconds: .min)
            }
        }
    }

    /// Schedules an early read of all sessions, because it is unknown which ones have ended.
    func doubtAll() {
        state.withLock { state in
            for session in state.sessions.keys { state.sessions[session]?.due = WallTime(milliseconds: .min) }
        }
    }

    /// The number of owners with subscribers.
    var owners: Int { state.withLock { $0.owners.count } }
}

extension SessionNotices.State {
    /// Adds a subscriber or follower of a session, with the known facts about the session, and returns its number.
    fileprivate mutating func enter(
        _ tokenDigest: Digest, _ new: SessionNotices.Listened,
        _ add: (inout SessionNotices.Listened, UInt64) -> Void
    ) -> UInt64 {
        next &+= 1
        add(&sessions[tokenDigest, default: new], next)
        if let parent = new.parent { families[parent, default: []].insert(tokenDigest) }
        return next
    }

    /// Removes a session's entry if its last subscriber or follower is gone.
    fileprivate mutating func leaveIfEmpty(_ tokenDigest: Digest) {
        guard let last = sessions[tokenDigest], last.listeners.isEmpty, last.followers.isEmpty else { return }
        sessions[tokenDigest] = nil
        guard let parent = last.parent else { return }
        families[parent]?.remove(tokenDigest)
        if families[parent]?.isEmpty == true { families[parent] = nil }
    }

    /// Removes the oldest subscribers if a new one would exceed the limits, and returns their closures.
    fileprivate mutating func makeRoom(
        for tokenDigest: Digest, of owner: Digest, limit: Int
    ) -> [@Sendable (SessionNotice) -> Void] {
        var superseded: [@Sendable (SessionNotice) -> Void] = []
        while let listeners = sessions[tokenDigest]?.listeners, listeners.count > SessionNotices.maximumPerSession,
            let oldest = listeners.keys.min(), let listener = remove(oldest, tokenDigest, of: owner)
        {
            superseded.append(listener)
        }
        // The newest subscriber stays, even if the limit is zero.
        while let listeners = owners[owner], listeners.count > max(limit, 1),
            let oldest = listeners.min(by: { $0.key < $1.key }),
            let listener = remove(oldest.key, oldest.value, of: owner)
        {
            superseded.append(listener)
        }
        return superseded
    }

    /// Removes a subscriber, and returns its closure if it was still there.
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
