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
        var listeners: [Digest: [UInt64: @Sendable (SessionNotice) -> Void]] = [:]
    }

    /// Guards the listeners by session.
    private let state = Mutex(State())

    package init() {}

    /// Calls `listener` for each notice of a session from now on, as long as the returned subscription is held.
    package func subscribe(
        _ token: Digest, _ listener: @escaping @Sendable (SessionNotice) -> Void
    ) -> Subscription {
        let id = state.withLock { state in
            state.next &+= 1
            state.listeners[token, default: [:]][state.next] = listener
            return state.next
        }
        return Subscription { [weak self] in self?.unsubscribe(token, id) }
    }

    private func unsubscribe(_ token: Digest, _ id: UInt64) {
        state.withLock { state in
            state.listeners[token]?[id] = nil
            if state.listeners[token]?.isEmpty == true { state.listeners[token] = nil }
        }
    }

    /// Tells a session's listeners.
    package func post(_ notice: SessionNotice, to token: Digest) {
        let listeners = state.withLock { Array(($0.listeners[token] ?? [:]).values) }
        for listener in listeners { listener(notice) }
    }

    /// The sessions that somebody listens to, for polling what other replicas did.
    package var listenedTo: [Digest] { state.withLock { Array($0.listeners.keys) } }
}
