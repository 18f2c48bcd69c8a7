import Broker

/// Limits the duration of a relayed call whose request showed a pass (docs/apps/bound-sessions.md).
///
/// A call whose request showed a proof has no such limit.
struct RelayedEnding: Sendable {
    /// The time that a call may continue after its pass has ended; an event stream has no such time.
    ///
    /// An hour is enough for a large transfer.
    private static let grace = Duration.seconds(3600)

    /// The end time of the pass, on the monotonic clock.
    ///
    /// The time is fixed when the request arrives, so a slow upload does not move it.
    private let passEnd: Duration
    private let clock: BrokerClock

    /// Creates the limit for a call whose pass ends at the given time.
    init(passEndsAt: WallTime, _ clock: BrokerClock) {
        passEnd = clock.monotonic() + max(passEndsAt.since(clock.now()), .zero)
        self.clock = clock
    }

    /// The longest time left for the call, for the request and its answer together.
    var longest: Duration { max(passEnd + Self.grace - clock.monotonic(), .zero) }

    /// Returns the time for which an answer may continue from now.
    ///
    /// An event stream lasts until the pass ends, other answers an hour longer.
    func rest(isEventStream: Bool) -> Duration {
        isEventStream ? max(passEnd - clock.monotonic(), .zero) : longest
    }
}
