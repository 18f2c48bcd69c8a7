import Broker

/// The end of a relayed call that a pass has opened (docs/apps/bound-sessions.md).
///
/// A call with a proof ends only by itself.
struct RelayedEnding: Sendable {
    /// The time that a call may continue after its pass, unless it is an event stream.
    ///
    /// An hour is enough for a large transfer.
    private static let grace = Duration.seconds(3600)

    /// The pass's end on the monotonic clock, unaffected by a slow upload or a slow upstream.
    private let passEnd: Duration
    private let clock: BrokerClock

    /// Creates the end of a call that uses a pass.
    init(passEndsAt: WallTime, _ clock: BrokerClock) {
        passEnd = clock.monotonic() + max(passEndsAt.since(clock.now()), .zero)
        self.clock = clock
    }

    /// The longest time that remains for the call, including request and answer.
    var longest: Duration { max(passEnd + Self.grace - clock.monotonic(), .zero) }

    /// The time that an answer may still continue.
    ///
    /// An event stream lasts until the pass ends, other answers an hour longer.
    func rest(isEventStream: Bool) -> Duration {
        isEventStream ? max(passEnd - clock.monotonic(), .zero) : longest
    }
}
