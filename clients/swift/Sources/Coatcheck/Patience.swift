import Foundation

/// The limits for repeating a request.
public struct Patience: Sendable {
    /// The time for all attempts, from the first.
    public var deadline: Duration
    /// The longest pause between attempts.
    ///
    /// If a `Retry-After` is longer, the refusal is thrown at once.
    public var longestPause: Duration

    /// Creates the limits.
    ///
    /// The default is one minute in total.
    public init(deadline: Duration = .seconds(60), longestPause: Duration = .seconds(30)) {
        self.deadline = deadline
        self.longestPause = longestPause
    }

    /// The limits at the start of the app.
    ///
    /// If the state of the sign-in is not known after two seconds, it is reported as unknown.
    static let atStart = Patience(deadline: .seconds(2), longestPause: .seconds(1))

    /// Returns the pause before the next attempt, or nil if it is time to give up.
    ///
    /// The pause is the broker's `Retry-After`. Without one, the pause grows with each attempt.
    func pause(try number: Int, since begin: ContinuousClock.Instant, retryAfter: Duration?) -> Duration? {
        let growing = Duration.milliseconds(Int.random(in: 200...400) << min(number, 6))
        let pause = retryAfter.map { $0 + .milliseconds(Int.random(in: 0...250)) } ?? growing
        return pause <= longestPause && pause < left(since: begin) ? pause : nil
    }

    /// Returns the time until the deadline.
    func left(since begin: ContinuousClock.Instant) -> Duration { deadline - (ContinuousClock.now - begin) }
}
