import Synchronization

/// The places of the revocations under way, in all and at each provider.
///
/// A provider that answers at once gets more and more places, up to its share. A slow provider gets half as many with each round,
/// and a failing one gets two, because all providers share the batches. A provider that answers 429 rests for as long as it asks.
///
/// A row that has to wait comes back behind the provider's other waiting rows, one after the other. So even 100,000 rows leave
/// room in each batch, and another provider's row is taken as soon as it is due.
final class RevocationSlots: Sendable {
    /// An answer to a revocation.
    enum Answer: Sendable, Equatable {
        /// There was no call.
        case none
        /// The provider has spoken: trying again would only hear it again.
        case final
        /// It failed in passing.
        case failed
        /// The provider asked to be left alone for so long.
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
        /// The number of calls that may be under way now.
        var allowed = RevocationSlots.first
        var restsUntil = Duration.zero
        /// The moment at which `allowed` was last halved; answers to earlier calls halve it only once.
        var slowedAt = Duration.zero
        /// The earliest moment at which the next waiting row comes back.
        var nextComesAt = Duration.zero

        /// Returns the time for which a row waits: at least `pause`, and behind the other waiting rows.
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

    /// The places in all, and the most rows that are taken at once.
    static let total = 128
    /// The most places of one provider.
    static let most = 24
    /// The places with which a provider begins, and those of one that is slow or fails.
    private static let (first, few) = (2, 2)
    /// An answer that took longer is a slow one's.
    private static let slow = Duration.seconds(1)
    /// The rest after a 429 that names none, and the longest.
    private static let (rest, longestRest) = (Duration.seconds(30), Duration.seconds(3600))
    /// The time after which a row comes again for which there was no place: at a provider that answers, and at a slow one.
    private static let (soon, later) = (Duration.milliseconds(250), Duration.seconds(2))
    /// The time between two waiting rows of a provider: 100,000 rows come back within five minutes.
    static let apart = Duration.milliseconds(3)

    /// Guards the counts; a provider that left the configuration leaves a few bytes.
    private let state = Mutex(State())

    /// Returns the places that revocations may have of a provider's calls: a quarter, so that sign-ins keep theirs.
    static func share(of places: Int) -> Int { max(few, min(most, places / 4)) }

    /// Takes as many places as are free, at most `limit`; each is given back with `leave`.
    func enter(_ limit: Int) -> Int {
        state.withLock { state in
            let places = max(0, min(limit, Self.total - state.running))
            state.running += places
            return places
        }
    }

    /// Gives places back.
    func leave(_ places: Int) { state.withLock { $0.running -= places } }

    /// Takes a place at a provider; returns the time to wait where there is none, or nil.
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

    /// Returns the time for which a row waits if its provider refuses calls for `pause`, or if all places are taken (nil).
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

    /// The number of a provider's calls under way.
    func underWay(_ provider: ProviderName) -> Int { state.withLock { $0.lanes[provider]?.running ?? 0 } }
}
