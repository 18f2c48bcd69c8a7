import Synchronization

/// Limits the number of revocation calls in progress, in total and at each provider.
///
/// A batch of outbox rows may have rows of all providers, so a slow or failing provider must not fill the batch. Each provider
/// therefore has a limit of its own:
///
/// - A provider that answers quickly may get more and more calls at a time, up to its share.
/// - If a provider answers slowly, its limit is halved. Only a call that begins later can halve the limit again.
/// - If a call fails, the provider's limit becomes two.
/// - A provider that answers 429 gets no calls until the end of the pause that it asked for.
///
/// A row that has to wait becomes due at least three milliseconds after the provider's last waiting row (`apart`). So even
/// 100,000 rows of one provider leave room in each batch for the rows of other providers.
final class RevocationSlots: Sendable {
    /// The result of a revocation call, which changes the provider's limit.
    enum Answer: Sendable, Equatable {
        /// The outbox row needed no call to the provider.
        case none
        /// The provider accepted the call or refused it for good, so the call is not repeated.
        case final
        /// The call failed for a temporary reason, so it is repeated later.
        case failed
        /// The provider asked for a pause of this length.
        case refused(Duration)

        /// Creates the result of a call that failed, from the reason of the failure.
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
        /// The provider's present limit: the number of its calls that may be in progress at a time.
        var allowed = RevocationSlots.first
        var restsUntil = Duration.zero
        /// The moment when `allowed` was last halved.
        ///
        /// Only a call that began after this moment can halve `allowed` again.
        var slowedAt = Duration.zero
        /// The earliest due time of the next row of this provider that has to wait.
        var nextComesAt = Duration.zero

        /// Returns how long a row of this provider has to wait: at least `pause`, and until after the provider's other waiting
        /// rows.
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

    /// The largest number of revocation calls in progress in total, and of outbox rows in a batch.
    static let total = 128
    /// The largest number of revocation calls in progress at one provider.
    static let most = 24
    /// The limits of calls in progress at a provider: `first` before its first answer, `few` as the least limit of a slow or
    /// failing provider.
    private static let (first, few) = (2, 2)
    /// The longest response time that does not count as slow.
    private static let slow = Duration.seconds(1)
    /// The pause after a 429 without `Retry-After`, and the longest pause that a provider can ask for.
    private static let (rest, longestRest) = (Duration.seconds(30), Duration.seconds(3600))
    /// The shortest pause of a row that waits for a free call: `soon` at a normal provider, and `later` at a slow or failing
    /// one.
    private static let (soon, later) = (Duration.milliseconds(250), Duration.seconds(2))
    /// The time between the due times of two waiting rows of one provider.
    ///
    /// So 100,000 waiting rows become due within about five minutes.
    static let apart = Duration.milliseconds(3)

    /// Guards the numbers of calls in progress and the limits.
    ///
    /// The limit of a provider that was removed from the configuration stays in memory; it takes a few bytes.
    private let state = Mutex(State())

    /// Returns the share of revocations in the calls that a provider may get at a time: a quarter, but at least 2 and at most
    /// 24.
    ///
    /// The other calls are for sign-ins and refreshes.
    static func share(of places: Int) -> Int { max(few, min(most, places / 4)) }

    /// Reserves at most `limit` of the calls that are free in total; returns the number of reserved calls.
    ///
    /// The caller releases each of them with `leave`.
    func enter(_ limit: Int) -> Int {
        state.withLock { state in
            let places = max(0, min(limit, Self.total - state.running))
            state.running += places
            return places
        }
    }

    /// Releases calls that were reserved with `enter`.
    func leave(_ places: Int) { state.withLock { $0.running -= places } }

    /// Reserves a call at a provider for an outbox row.
    ///
    /// Returns nil on success, or else how long the row has to wait for a free call.
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

    /// Returns the time that an outbox row has to wait until its call may begin.
    ///
    /// Pass the pause for which the provider refuses calls; or nil if the provider accepts calls, but this process's reserved
    /// calls are used up.
    func putOff(_ provider: ProviderName, for pause: Duration? = nil, at moment: Duration) -> Duration {
        state.withLock { state in
            state.lanes[provider, default: Lane()].wait(pause.map { max($0, Self.later) } ?? Self.soon, at: moment)
        }
    }

    /// Releases a call at a provider, and changes the provider's limit according to the call's result.
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
