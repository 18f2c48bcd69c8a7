import Synchronization

/// The refreshes in progress in this process, at most one for each session.
final class RefreshFlights: Sendable {
    private struct State {
        var running: [Digest: SharedFlight] = [:]
        var backOff: [Digest: Duration] = [:]
    }

    private static let capacity = 20_000
    /// Guards the flights and the times until which refreshes are held back.
    ///
    /// If there are too many of these times, this process drops them all, because the rows contain them as well.
    private let state = Mutex(State())

    /// Returns the session's refresh in progress, and whether the caller has to run it because it is new.
    ///
    /// A new refresh is for `target`. If `target` is nil, it is for the session's own access token.
    ///
    /// A session has one refresh at a time, for all purposes. A caller that finds a refresh for another purpose waits, then tries
    /// again.
    func join(_ session: Digest, for target: Digest? = nil) -> (flight: SharedFlight, isNew: Bool) {
        state.withLock { state in
            if let flight = state.running[session] { return (flight, false) }
            let flight = SharedFlight(for: target)
            state.running[session] = flight
            return (flight, true)
        }
    }

    /// Returns the session's refresh in progress, or nil.
    func underWay(_ session: Digest) -> SharedFlight? { state.withLock { $0.running[session] } }

    func finish(_ session: Digest) { state.withLock { $0.running[session] = nil } }

    /// Returns how long a session's refresh is still held back; nil if it may begin.
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

/// A refresh in progress in this process, with the callers that wait for it.
final class SharedFlight: Sendable {
    /// The access token that the refresh has brought, or a problem.
    typealias Outcome = Result<AccessToken, BrokerProblem>

    private struct Waiter {
        let continuation: CheckedContinuation<Outcome?, Never>
        let until: Duration
    }

    private struct State {
        /// The answer for all present and later callers; nil before the first answer.
        ///
        /// While the store refuses a new pair, the answer is a failure, which the final answer replaces.
        var outcome: Outcome?
        var waiters: [Int: Waiter] = [:]
        var gone: Set<Int> = []
        var next = 0
    }

    /// The key of the access token for another API; nil for the session's own token.
    let target: Digest?
    /// Guards the outcome and the waiters.
    private let state = Mutex(State())

    init(for target: Digest? = nil) { self.target = target }

    /// Whether the refresh brings the token of a goal.
    func isFor(_ goal: any FlightGoal) -> Bool { target == goal.key }

    /// Waits for the refresh's outcome.
    ///
    /// Returns nil if `until` passes first or the waiting task is cancelled.
    func wait(until: Duration) async -> Outcome? {
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isReady, outcome) = state.withLock { state -> (Bool, Outcome?) in
                    if state.outcome != nil || state.gone.remove(id) != nil { return (true, state.outcome) }
                    state.waiters[id] = Waiter(continuation: continuation, until: until)
                    return (false, nil)
                }
                if isReady { continuation.resume(returning: outcome) }
            }
        } onCancel: {
            let waiter = state.withLock { state -> Waiter? in
                if let waiter = state.waiters.removeValue(forKey: id) { return waiter }
                if state.outcome == nil { state.gone.insert(id) }
                return nil
            }
            waiter?.continuation.resume(returning: nil)
        }
    }

    /// Gives the outcome to the callers that wait, and to all later callers.
    func answer(_ outcome: Outcome) {
        let waiters = state.withLock { state in
            state.outcome = outcome
            defer { state.waiters = [:] }
            return state.waiters.sorted { $0.key < $1.key }
        }
        for (_, waiter) in waiters { waiter.continuation.resume(returning: outcome) }
    }

    /// Answers the callers whose patience is over.
    func expire(at moment: Duration) {
        let over = state.withLock { state in
            let over = state.waiters.filter { $0.value.until <= moment }.sorted { $0.key < $1.key }
            for (id, _) in over { state.waiters[id] = nil }
            return over
        }
        for (_, waiter) in over { waiter.continuation.resume(returning: nil) }
    }
}
