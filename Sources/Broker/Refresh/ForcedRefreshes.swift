import Synchronization

/// The refreshes that upstreams, or the apps themselves, have forced lately, so that one session does not spend its provider for
/// everybody else.
///
/// An access token that came from a forced refresh less than a minute ago is not forced again for its session. While an upstream
/// keeps refusing newer tokens of a session, the pause until its next forced refresh doubles, up to an hour. This is a process's
/// memory, bounded: what is forgotten, and what another replica knows, costs a call.
final class ForcedRefreshes: Sendable {
    /// The party that asks for a newer access token.
    enum Asker: Sendable, Hashable {
        /// The app (`POST /v1/session/refresh`).
        case app
        /// An upstream that refused one, by its name.
        case upstream(String)
    }

    /// The access token that is asked for; nil for the session's own.
    typealias Audience = Digest?

    /// A token that a forced refresh brought.
    private struct Brought {
        let version: Int64
        let at: Duration
    }

    /// The last forced refresh of an asker's.
    private struct Pause {
        let at: Duration
        let length: Duration
        /// The version that it brought.
        let version: Int64
        /// Whether that one, or a newer one, was refused, too.
        var isRefused = false
    }

    /// Forced refreshes of one session; as many as it has upstreams and audiences.
    private struct Session {
        var brought: [Audience: Brought] = [:]
        var pauses: [Asker: Pause] = [:]
    }

    private struct State {
        var young: [Digest: Session] = [:]
        var old: [Digest: Session] = [:]
    }

    /// The longest pause of an upstream.
    static let longestPause = Duration.seconds(3600)
    private let capacity: Int

    /// Guards both generations of sessions.
    private let state = Mutex(State())

    init(capacity: Int = 10_000) { self.capacity = capacity }

    /// Returns whether a newer token than the version that was refused may be fetched for an asker now; `pause` is the time for
    /// which a token that was forced is not forced again, and the first pause of an upstream.
    func mayForce(
        _ session: Digest, _ audience: Audience, insteadOf refused: Int64, for asker: Asker, at moment: Duration,
        pause: Duration
    ) -> Bool {
        change(session) { entry in
            guard var entry = entry else { return (true, nil) }
            var isPausing = false
            if var last = entry.pauses[asker] {
                let isWithin = moment - last.at < last.length
                switch asker {
                case .app: isPausing = isWithin
                case .upstream:
                    // A newer one that is refused within the pause may be another replica's, which was forced as well.
                    if refused == last.version || (refused > last.version && isWithin) { last.isRefused = true }
                    isPausing = last.isRefused && isWithin
                }
                entry.pauses[asker] = last
            }
            if let brought = entry.brought[audience], brought.version == refused, moment - brought.at < pause {
                isPausing = true
            }
            return (!isPausing, entry)
        }
    }

    /// Notes a forced refresh and the version that it brought; returns the new pause where the asker keeps refusing newer tokens.
    func forced(
        _ session: Digest, _ audience: Audience, bringing version: Int64, for asker: Asker, at moment: Duration,
        pause: Duration
    ) -> Duration? {
        change(session) { entry in
            var entry = entry ?? Session()
            let before = entry.pauses[asker]
            let longer = before.flatMap { $0.isRefused && asker != .app ? min($0.length * 2, Self.longestPause) : nil }
            entry.brought[audience] = Brought(version: version, at: moment)
            entry.pauses[asker] = Pause(at: moment, length: longer ?? pause, version: version)
            // Those that are over say nothing any more.
            entry.brought = entry.brought.filter { moment - $0.value.at < pause }
            entry.pauses = entry.pauses.filter { moment - $0.value.at < $0.value.length + Self.longestPause }
            return (longer, entry)
        }
    }

    /// The number of sessions that are remembered.
    var count: Int { state.withLock { $0.young.count + $0.old.count } }

    /// Changes what is remembered of a session; the ones that were longest unused go when there are too many.
    private func change<Result>(_ session: Digest, _ change: (Session?) -> (Result, Session?)) -> Result {
        state.withLock { state in
            let (result, entry) = change(state.young[session] ?? state.old[session])
            guard let entry else { return result }
            state.old[session] = nil
            if state.young[session] == nil, state.young.count >= capacity {
                state.old = state.young
                state.young = [:]
            }
            state.young[session] = entry
            return result
        }
    }
}
