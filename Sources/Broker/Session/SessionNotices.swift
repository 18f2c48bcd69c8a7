import Synchronization

/// Is something that a listener of `GET /v1/session/events` hears.
package enum SessionNotice: Sendable, Equatable {
    case tokensRefreshed
    case ended(EndReason)
}

/// Tells listeners in this process what happened to their session.
package final class SessionNotices: Sendable {
    private struct State {
        var next: UInt64 = 0
        var listeners: [Digest: [UInt64: AsyncStream<SessionNotice>.Continuation]] = [:]
    }

    /// Guards the listeners by session.
    private let state = Mutex(State())

    package init() {}

    /// Returns the notices of a session from now on; it ends after `.ended`.
    package func subscribe(_ token: Digest) -> AsyncStream<SessionNotice> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: SessionNotice.self, bufferingPolicy: .bufferingNewest(8))
        let id = state.withLock { state in
            state.next &+= 1
            state.listeners[token, default: [:]][state.next] = continuation
            return state.next
        }
        continuation.onTermination = { [weak self] _ in self?.unsubscribe(token, id) }
        return stream
    }

    private func unsubscribe(_ token: Digest, _ id: UInt64) {
        state.withLock { state in
            state.listeners[token]?[id] = nil
            if state.listeners[token]?.isEmpty == true { state.listeners[token] = nil }
        }
    }

    /// Tells a session's listeners; an ending also ends their streams.
    package func post(_ notice: SessionNotice, to token: Digest) {
        let listeners = state.withLock { Array(($0.listeners[token] ?? [:]).values) }
        for listener in listeners {
            listener.yield(notice)
            if case .ended = notice { listener.finish() }
        }
    }

    /// The sessions that somebody listens to, for polling what other replicas did.
    package var listenedTo: [Digest] { state.withLock { Array($0.listeners.keys) } }
}
