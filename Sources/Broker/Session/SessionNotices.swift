import Synchronization

/// Something that a listener of `GET /v1/session/events` hears.
package enum SessionNotice: Sendable, Equatable {
    case tokensRefreshed
    case ended(EndReason)
}

/// Tells listeners in this process what happened to their session.
package final class SessionNotices: Sendable {
    private struct State {
        var next: UInt64 = 0
        var sessions: [Digest: Listened] = [:]
    }

    /// A session that somebody listens to.
    private struct Listened {
        /// The newest version of its tokens that its listeners know of.
        var version: Int64
        var listeners: [UInt64: @Sendable (SessionNotice) -> Void] = [:]
    }

    /// Guards the listeners by session.
    private let state = Mutex(State())

    package init() {}

    /// Calls `listener` for each notice of a session from now on, as long as the returned subscription is held; `version` is
    /// that of the tokens that it knows of.
    package func subscribe(
        _ token: Digest, version: Int64, _ listener: @escaping @Sendable (SessionNotice) -> Void
    ) -> Subscription {
        let id = state.withLock { state in
            state.next &+= 1
            state.sessions[token, default: Listened(version: version)].listeners[state.next] = listener
            return state.next
        }
        return Subscription { [weak self] in self?.unsubscribe(token, id) }
    }

    private func unsubscribe(_ token: Digest, _ id: UInt64) {
        state.withLock { state in
            state.sessions[token]?.listeners[id] = nil
            if state.sessions[token]?.listeners.isEmpty == true { state.sessions[token] = nil }
        }
    }

    /// Tells a session's listeners.
    package func post(_ notice: SessionNotice, to token: Digest) {
        let listeners = state.withLock { state in state.sessions[token].map { Array($0.listeners.values) } ?? [] }
        for listener in listeners { listener(notice) }
    }

    /// Tells a session's listeners that its tokens are of this version now, unless they know.
    package func refreshed(_ token: Digest, version: Int64) {
        let isNew = state.withLock { state in
            guard let known = state.sessions[token]?.version, known < version else { return false }
            state.sessions[token]?.version = version
            return true
        }
        if isNew { post(.tokensRefreshed, to: token) }
    }

    /// The sessions that somebody listens to, for polling what other replicas did.
    package var listenedTo: [Digest] { state.withLock { Array($0.sessions.keys) } }
}
