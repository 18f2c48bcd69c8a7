/// A pause between two tries: twice as long each time, up to the longest.
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

extension BrokerClock {
    /// Tries what cannot be had again until it succeeds, however long the store is away; nil when the process ends first.
    @discardableResult
    func insist<Value, Failure: Error>(
        _ write: () async throws(Failure) -> Value, failed: (Failure) -> Void
    ) async -> Value? {
        var pause = DoublingPause(from: .milliseconds(50), to: .seconds(1))
        while true {
            do throws(Failure) { return try await write() } catch { failed(error) }
            do { try await pause.take(self) } catch { return nil }
        }
    }
}
