import Synchronization

/// Remembers the refreshes that upstreams or apps have recently forced (decision 75).
///
/// The memory prevents one session from using up the calls that the provider allows for all sessions.
///
/// A token from a forced refresh may be replaced by force only after a pause (`forcedRefreshPause`, by default a minute). While
/// an upstream keeps refusing newer tokens of a session, the pause until its next forced refresh doubles, up to an hour.
///
/// The memory belongs to one process and is bounded. A forgotten entry, or a refresh that another replica forced, costs one more
/// provider call.
final class ForcedRefreshes: Sendable {
    /// The party that requests a newer access token.
    enum Asker: Sendable, Hashable {
        /// The app (`POST /v1/session/refresh`).
        case app
        /// An upstream that refused an access token, by its name.
        case upstream(String)
    }

    /// The key of the other API that the access token is for; nil for the session's own token.
    typealias TargetKey = Digest?

    /// An access token that a forced refresh fetched.
    private struct Brought {
        let version: Int64
        let at: Duration
    }

    /// The last forced refresh that an asker requested, and the pause after it.
    private struct Pause {
        let at: Duration
        let length: Duration
        /// The token version that the forced refresh produced.
        let version: Int64
        /// Whether the upstream also refused the token of the forced refresh or a newer one.
        var isRefused = false
    }

    /// The forced refreshes of one session, by target and by asker.
    private struct Session {
        var brought: [TargetKey: Brought] = [:]
        var pauses: [Asker: Pause] = [:]
    }

    private struct State {
        var young: [Digest: Session] = [:]
        var old: [Digest: Session] = [:]
    }

    /// The longest pause between two forced refreshes for one upstream.
    static let longestPause = Duration.seconds(3600)
    private let capacity: Int

    /// Guards both generations of sessions.
    private let state = Mutex(State())

    init(capacity: Int = 10_000) { self.capacity = capacity }

    /// Returns whether `asker` may have a token newer than the refused version now.
    ///
    /// `pause` is the first pause for an upstream. A token from a forced refresh may be replaced by force once it is as old as
    /// `pause`.
    func mayForce(
        _ session: Digest, _ target: TargetKey, insteadOf refused: Int64, for asker: Asker, at moment: Duration,
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
                    // A newer version that is refused within the pause may come from another replica, which forced a refresh as
                    // well.
                    if refused == last.version || (refused > last.version && isWithin) { last.isRefused = true }
                    isPausing = last.isRefused && isWithin
                }
                entry.pauses[asker] = last
            }
            if let brought = entry.brought[target], brought.version == refused, moment - brought.at < pause {
                isPausing = true
            }
            return (!isPausing, entry)
        }
    }

    /// Notes a forced refresh for `asker`, and the token version that the refresh produced.
    ///
    /// Returns the new pause if `asker` keeps refusing newer tokens.
    func forced(
        _ session: Digest, _ target: TargetKey, bringing version: Int64, for asker: Asker, at moment: Duration,
        pause: Duration
    ) -> Duration? {
        change(session) { entry in
            var entry = entry ?? Session()
            let before = entry.pauses[asker]
            let longer = before.flatMap { $0.isRefused && asker != .app ? min($0.length * 2, Self.longestPause) : nil }
            entry.brought[target] = Brought(version: version, at: moment)
            entry.pauses[asker] = Pause(at: moment, length: longer ?? pause, version: version)
            // Drop the entries that are too old to matter.
            entry.brought = entry.brought.filter { moment - $0.value.at < pause }
            entry.pauses = entry.pauses.filter { moment - $0.value.at < $0.value.length + Self.longestPause }
            return (longer, entry)
        }
    }

    /// The number of sessions that are remembered.
    var count: Int { state.withLock { $0.young.count + $0.old.count } }

    /// Changes a session's entry.
    ///
    /// If there are too many sessions, the ones unused for longest are forgotten.
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
