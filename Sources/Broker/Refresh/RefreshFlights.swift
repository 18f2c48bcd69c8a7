import Synchronization

/// The refreshes underway in this process: one for a session, whoever wants it.
final class RefreshFlights: Sendable {
    private struct State {
        var running: [Digest: SharedFlight] = [:]
        var backOff: [Digest: Duration] = [:]
    }

    private static let capacity = 20_000
    /// Guards the flights and the back-offs; these are forgotten when there are too many: the row knows them as well.
    private let state = Mutex(State())

    /// Returns the session's flight, and whether the caller has to begin it.
    func join(_ session: Digest) -> (flight: SharedFlight, isNew: Bool) {
        state.withLock { state in
            if let flight = state.running[session] { return (flight, false) }
            let flight = SharedFlight()
            state.running[session] = flight
            return (flight, true)
        }
    }

    func finish(_ session: Digest) { state.withLock { $0.running[session] = nil } }

    /// Returns how long a session's refresh is still held back, or nil.
    func backOff(_ session: Digest, at moment: Duration) -> Duration? {
        state.withLock { state in
            guard let until = state.backOff[session] else { return nil }
            guard moment < until else {
                state.backOff[session] = nil
                return nil
            }
            return until - moment
        }
    }

    func holdBack(_ session: Digest, until moment: Duration) {
        state.withLock { state in
            if state.backOff.count >= Self.capacity { state.backOff = [:] }
            state.backOff[session] = moment
        }
    }
}
