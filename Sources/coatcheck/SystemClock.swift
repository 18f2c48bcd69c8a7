import Broker
import Foundation

/// The machine's time in the types of the module `Broker`.
enum SystemClock {
    /// The calendar time.
    static func wallTime() -> WallTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return WallTime(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }

    /// The calendar time for spans: nanoseconds since 1970.
    static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
    }

    /// The time since the machine started, sleep included, which never decreases (SEC-128).
    static func monotonic() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return .seconds(Int64(time.tv_sec)) + .nanoseconds(Int64(time.tv_nsec))
    }

    /// The clock that the running broker uses.
    static let clock = BrokerClock(
        now: wallTime, monotonic: monotonic, sleep: { try await Task.sleep(for: $0, clock: .continuous) })
}
