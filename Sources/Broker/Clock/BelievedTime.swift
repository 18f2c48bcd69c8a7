import Synchronization

/// The last trusted reading of the wall clock, continued by the monotonic clock.
final class BelievedTime: Sendable {
    /// Guards the last reading.
    private let seen = Mutex<ClockReading?>(nil)

    /// Stores a reading of the wall clock and the monotonic clock.
    func note(_ wall: WallTime, _ monotonic: Duration) { seen.withLock { $0 = ClockReading(wall, monotonic) } }

    /// Returns the time that the wall clock should show now; nil before the first reading.
    func now(_ monotonic: Duration) -> WallTime? { seen.withLock { $0 }.map { $0.time(at: monotonic) } }
}
