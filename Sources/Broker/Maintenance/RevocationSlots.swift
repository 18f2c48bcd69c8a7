import Synchronization

/// The places of the revocations in progress, in all and at each provider.
///
/// A provider that answers quickly gets more and more places, up to its share. A slow provider gets half as many with each
/// round, and a failing one gets two, because all providers share the batches. A provider that answers 429 rests for as long as
/// it asks.
///
/// A row that has to wait comes back behind the provider's other waiting rows, one after the other. Even 100,000 rows therefore
/// leave room in each batch, and another provider's row is taken as soon as it is due.
final class RevocationSlots: Sendable {
    /// An answer to a revocation.
    enum Answer: Sendable, Equatable {
        /// No call was made.
        case none
        /// The provider's answer is final, and another try would only repeat it.
        case final
        /// The call failed for a passing reason.
        case failed
        /// The provider asked for a pause of this length.
        case refused(Duration)

        /// Creates the answer of a call that failed.
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
        /// Answers to earlier calls halve it only once.
        var slowedAt = Duration.zero
        /// The earliest moment for the next waiting row to come back.
        var nextComesAt = Duration.zero

        /// Returns the waiting time of a row, which is at least `pause` and puts the row behind the other waiting ones.
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

    /// The number of all places, and the most rows that are taken at once.
    static let total = 128
    /// The most places of one provider.
    static let most = 24
    /// The number of places of a new provider, and of a provider that is slow or fails.
    private static let (first, few) = (2, 2)
    /// The longest time of an answer that does not count as slow.
    private static let slow = Duration.seconds(1)
    /// The rest after a 429 that names no time, and the longest rest.
    private static let (rest, longestRest) = (Duration.seconds(30), Duration.seconds(3600))
    /// The time until a row that found no place comes back, at a normal provider and at a slow one.
    private static let (soon, later) = (Duration.milliseconds(250), Duration.seconds(2))
    /// The time between two waiting rows of a provider, so that 100,000 rows come back within five minutes.
    static let apart = Duration.milliseconds(3)

    /// Guards the counts.
    ///
    /// A provider that left the configuration leaves a few bytes behind.
    private let state = Mutex(State())

    /// Returns the number of a provider's calls that revocations may make at a time, which is a quarter; sign-ins keep the
    /// rest.
    static func share(of places: Int) -> Int { max(few, min(most, places / 4)) }

    /// Takes the places that are free, at most `limit`.
    ///
    /// Each place is released with `leave`.
    func enter(_ limit: Int) -> Int {
        state.withLock { state in
            let places = max(0, min(limit, Self.total - state.running))
            state.running += places
            return places
        }
    }

    /// Releases places.
    func leave(_ places: Int) { state.withLock { $0.running -= places } }

    /// Takes a place at a provider.
    ///
    /// Returns nil on success, and otherwise the time to wait.
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

    /// Returns the waiting time of a row whose provider refuses calls for `pause`.
    ///
    /// If `pause` is nil, all places are taken.
    func putOff(_ provider: ProviderName, for pause: Duration? = nil, at moment: Duration) -> Duration {
        state.withLock { state in
            state.lanes[provider, default: Lane()].wait(pause.map { max($0, Self.later) } ?? Self.soon, at: moment)
        }
    }

    /// Releases a provider's place, and adjusts the provider's number of places to the answer of the call.
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

    /// The number of a provider's calls in progress.
    func underWay(_ provider: ProviderName) -> Int { state.withLock { $0.lanes[provider]?.running ?? 0 } }
}
