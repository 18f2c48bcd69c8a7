import Foundation

/// The bounds on sending a request again that can be sent again.
public struct Patience: Sendable {
    /// The time for all tries, from the first.
    public var deadline: Duration
    /// The longest pause that the app waits for; a `Retry-After` beyond it is thrown as it is.
    public var longestPause: Duration

    /// Creates a patience; by default it is a minute in all.
    public init(deadline: Duration = .seconds(60), longestPause: Duration = .seconds(30)) {
        self.deadline = deadline
        self.longestPause = longestPause
    }

    /// For the start of the app: what cannot be learned within two seconds is told as unknown.
    static let atStart = Patience(deadline: .seconds(2), longestPause: .seconds(1))

    /// Returns the pause before the next try: what the broker says, else a growing one; nil when it is time to give up.
    func pause(try number: Int, since begin: ContinuousClock.Instant, retryAfter: Duration?) -> Duration? {
        let growing = Duration.milliseconds(Int.random(in: 200...400) << min(number, 6))
        let pause = retryAfter.map { $0 + .milliseconds(Int.random(in: 0...250)) } ?? growing
        return pause <= longestPause && pause < left(since: begin) ? pause : nil
    }

    /// Returns how much of the deadline is left.
    func left(since begin: ContinuousClock.Instant) -> Duration { deadline - (ContinuousClock.now - begin) }
}
