import Broker

/// The end of a relayed call that a pass has opened (docs/apps/bound-sessions.md); one that a proof has opened ends by itself.
struct RelayedEnding: Sendable {
    /// The time after its pass that a call may go on which is no event stream: long enough for a large transfer.
    private static let grace = Duration.seconds(3600)

    /// The pass's end on the monotonic clock: neither a slow upload nor a slow upstream moves it.
    private let passEnd: Duration
    private let clock: BrokerClock

    /// Creates the end of a call that is made with a pass.
    init(passEndsAt: WallTime, _ clock: BrokerClock) {
        passEnd = clock.monotonic() + max(passEndsAt.since(clock.now()), .zero)
        self.clock = clock
    }

    /// The most time that the call may take from now on, its request and its answer.
    var longest: Duration { max(passEnd + Self.grace - clock.monotonic(), .zero) }

    /// The time from now on for which an answer may go on: an event stream until the pass ends, anything else an hour longer.
    func rest(isEventStream: Bool) -> Duration {
        isEventStream ? max(passEnd - clock.monotonic(), .zero) : longest
    }
}
