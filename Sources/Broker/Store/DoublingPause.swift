/// A pause between two tries, which doubles each time, up to the longest.
struct DoublingPause: Sendable {
    private var next: Duration
    private let longest: Duration

    init(from first: Duration, to longest: Duration) {
        next = first
        self.longest = longest
    }

    /// Waits; throws `CancellationError` when the task is cancelled.
    mutating func take(_ clock: BrokerClock) async throws {
        try await clock.sleep(next)
        next = min(next * 2, longest)
    }
}
