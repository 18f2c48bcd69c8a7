import Synchronization

/// Continues the last trusted reading of the wall clock with the monotonic clock.
final class BelievedTime: Sendable {
    /// Guards the last reading.
    private let seen = Mutex<ClockReading?>(nil)

    /// Stores a trusted reading of the wall clock, with the monotonic clock's reading at the same moment.
    func note(_ wall: WallTime, _ monotonic: Duration) { seen.withLock { $0 = ClockReading(wall, monotonic) } }

    /// Returns the time that a right wall clock shows now, computed from the last stored reading; nil before the first reading.
    func now(_ monotonic: Duration) -> WallTime? { seen.withLock { $0 }.map { $0.time(at: monotonic) } }
}
