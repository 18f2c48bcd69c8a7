import Synchronization

/// Limits the revocation calls in progress, in total and for each provider.
///
/// A provider that answers quickly may get more and more calls at a time, up to its share. A batch of outbox rows may have
/// rows of all providers, so a slow or failing provider must not fill it. For a slow provider, the number of calls is
/// halved. Calls that began before the last halving do not halve it again. For a failing provider, the number becomes two. A
/// provider that answers 429 gets no calls until the end of the pause that it asks for.
///
/// A row that has to wait becomes due at least three milliseconds after the provider's last waiting row (`apart`). So even
/// 100,000 rows of one provider leave room in each batch for the rows of other providers.
final class RevocationSlots: Sendable {
    /// The result of a revocation call, as far as it affects the provider's limit.
    enum Answer: Sendable, Equatable {
        /// The provider was not called.
        case none
        /// The provider's answer is final, so the call is not repeated.
        case final
        /// The call failed for a passing reason.
        case failed
        /// The provider asked for a pause of this length.
        case refused(Duration)

        /// Creates the result of a call that failed.
        init(_ failure: ProviderFailure) {
            switch failure {
            case .rejected, .unusable, .identityRejected: self = .final
            case .retryable(let status, let retryAfter, _) where status == 429 || retryAfter != nil:
                self = .refused(
                    min(max(retryAfter ?? RevocationSlots.rest, .seconds(1)), RevocationSlots.longestRest))
            case .notSent, .retryable, .lost: self = .failed
            }
        }
    }

    private struct Lane {
        var running = 0
        /// The number of calls that may be in progress now.
        var allowed = RevocationSlots.first
        var restsUntil = Duration.zero
        /// The moment when `allowed` was last halved.
        ///
        /// A slow answer to a call from before this moment does not halve the number again.
        var slowedAt = Duration.zero
        /// The earliest time at which the next waiting row may be due.
        var nextComesAt = Duration.zero

        /// Returns how long a row waits: at least `pause`, and until after the provider's other waiting rows.
        mutating func wait(_ pause: Duration, at moment: Duration) -> Duration {
            let comes = max(nextComesAt, moment + pause)
            nextComesAt = comes + RevocationSlots.apart
            return comes - moment
        }
    }

    private struct State {
        var running = 0
        var lanes: [ProviderName: Lane] = [:]
    }

    /// The largest number of calls in progress in total, and the largest number of rows that are taken at once.
    static let total = 128
    /// The largest number of calls in progress at one provider.
    static let most = 24
    /// The number of calls at a time for a new provider, and for a provider that is slow or fails.
    private static let (first, few) = (2, 2)
    /// The longest response time that does not count as slow.
    private static let slow = Duration.seconds(1)
    /// The pause after a 429 without a time, and the longest pause.
    private static let (rest, longestRest) = (Duration.seconds(30), Duration.seconds(3600))
    /// The pause of a row that found no free call: `soon` at a normal provider, and `later` at a slow one.
    private static let (soon, later) = (Duration.milliseconds(250), Duration.seconds(2))
    /// The time between the due times of a provider's waiting rows, so that 100,000 rows are due within five minutes.
    static let apart = Duration.milliseconds(3)

    /// Guards the counts.
    ///
    /// The counts of a provider that was removed from the configuration stay in memory; they take a few bytes.
    private let state = Mutex(State())

    /// Returns how many of a provider's simultaneous calls revocations may use: a quarter, but at least 2 and at most 24.
    ///
    /// The other calls are for sign-ins and refreshes.
    static func share(of places: Int) -> Int { max(few, min(most, places / 4)) }

    /// Reserves at most `limit` free calls of the total; returns the number of reserved calls.
    ///
    /// Each reserved call is released with `leave`.
    func enter(_ limit: Int) -> Int {
        state.withLock { state in
            let places = max(0, min(limit, Self.total - state.running))
            state.running += places
            return places
        }
    }

    /// Releases reserved calls of the total.
    func leave(_ places: Int) { state.withLock { $0.running -= places } }

    /// Reserves a call at a provider.
    ///
    /// Returns nil on success, and otherwise how long the row has to wait.
    func begin(_ provider: ProviderName, share: Int, at moment: Duration) -> Duration? {
        state.withLock { state in
            var lane = state.lanes[provider] ?? Lane()
            defer { state.lanes[provider] = lane }
            if moment < lane.restsUntil { return lane.wait(lane.restsUntil - moment, at: moment) }
            lane.allowed = min(lane.allowed, share)
            guard lane.running < lane.allowed else {
                return lane.wait(lane.allowed > Self.few ? Self.soon : Self.later, at: moment)
            }
            lane.running += 1
            return nil
        }
    }

    /// Returns the time that a row waits if its provider refuses calls for `pause`.
    ///
    /// Pass nil if the provider accepts calls, but this process has no reserved call left for the row.
    func putOff(_ provider: ProviderName, for pause: Duration? = nil, at moment: Duration) -> Duration {
        state.withLock { state in
            state.lanes[provider, default: Lane()].wait(pause.map { max($0, Self.later) } ?? Self.soon, at: moment)
        }
    }

    /// Releases a call at a provider, and adjusts the provider's limit to the call's result.
    func end(_ provider: ProviderName, _ answer: Answer, begun: Duration, at moment: Duration) {
        state.withLock { state in
            guard var lane = state.lanes[provider] else { return }
            lane.running -= 1
            switch answer {
            case .none: break
            case .final where moment - begun < Self.slow: lane.allowed = min(lane.allowed + 1, Self.most)
            case .final where begun >= lane.slowedAt:
                lane.allowed = max(lane.allowed / 2, Self.few)
                lane.slowedAt = moment
            case .final: break
            case .failed: lane.allowed = Self.few
            case .refused(let rest):
                lane.allowed = Self.few
                lane.restsUntil = max(lane.restsUntil, moment + rest)
            }
            state.lanes[provider] = lane
        }
    }

    /// Returns the number of a provider's revocation calls in progress.
    func underWay(_ provider: ProviderName) -> Int { state.withLock { $0.lanes[provider]?.running ?? 0 } }
}
