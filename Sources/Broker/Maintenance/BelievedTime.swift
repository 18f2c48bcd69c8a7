import Synchronization

/// The wall clock as it was when it was last believed, carried on by the monotonic one.
final class BelievedTime: Sendable {
    /// Guards the two clocks' last readings.
    private let seen = Mutex<(wall: WallTime, monotonic: Duration)?>(nil)

    /// Notes what both clocks say.
    func note(_ wall: WallTime, _ monotonic: Duration) { seen.withLock { $0 = (wall, monotonic) } }

    /// Returns what the wall clock would say now; nil before the first note.
    func now(_ monotonic: Duration) -> WallTime? {
        seen.withLock { $0 }.map { $0.wall.advanced(by: monotonic - $0.monotonic) }
    }
}
