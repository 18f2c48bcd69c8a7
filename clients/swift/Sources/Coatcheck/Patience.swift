import Foundation

/// How long a request that can be sent again is sent again.
public struct Patience: Sendable {
    /// How long in all, from the first try.
    public var deadline: Duration
    /// The longest pause that the app waits for; a `Retry-After` beyond it is thrown as it is.
    public var longestPause: Duration

    /// Creates a patience; by default it is a minute in all.
    public init(deadline: Duration = .seconds(60), longestPause: Duration = .seconds(30)) {
        self.deadline = deadline
        self.longestPause = longestPause
    }

    /// Returns the pause before the next try: what the broker says, else a growing one; nil when it is time to give up.
    func pause(try number: Int, since begin: ContinuousClock.Instant, retryAfter: Duration?) -> Duration? {
        let growing = Duration.milliseconds(Int.random(in: 200...400) << min(number, 6))
        let pause = retryAfter.map { $0 + .milliseconds(Int.random(in: 0...250)) } ?? growing
        let left = deadline - (ContinuousClock.now - begin)
        return pause <= longestPause && pause < left ? pause : nil
    }
}
