import BrokerWire
import Testing

@Suite("The lowest average rate of a stream (SEC-105)", .timeLimit(.minutes(1)))
struct ProgressRateTests {
    private static let second: Int64 = 1_000_000_000

    private static func rate() -> ProgressRate {
        ProgressRate(bytesPerSecond: 1024, window: 30 * second, grace: 10 * second)
    }

    /// Returns the time at which a stream of `bytes` every `step` counts as too slow, or nil if ten minutes are not enough.
    private static func end(_ bytes: Int, every step: Int64, burst: Int = 0, at burstTime: Int64 = 0) -> Int64? {
        var rate = rate()
        var time: Int64 = 0
        var hasBurst = burst == 0
        while time < 600 * second {
            time += second / 10
            if !hasBurst, time >= burstTime {
                rate.account(burst, at: time)
                hasBurst = true
            }
            if time % step == 0 { rate.account(bytes, at: time) }
            if rate.isBelow(at: time) { return time }
        }
        return nil
    }

    @Test(
        "A stream is slower than the lowest rate, in any rhythm → too slow after the grace time (10 s) and a window (30 s)",
        arguments: [(0, 1), (1, 20), (900, 1), (10_000, 10)] as [(Int, Int64)])
    func tooSlow(bytes: Int, seconds: Int64) throws {
        let end = try #require(Self.end(bytes, every: seconds * Self.second))
        #expect(end >= 40 * Self.second && end <= 43 * Self.second, "\(end)")
    }

    @Test(
        "A stream has the lowest rate or more → it never counts as too slow",
        arguments: [(103, 0), (1024, 1), (10_240, 10), (30_720, 30), (1 << 20, 30)] as [(Int, Int64)])
    func fastEnough(bytes: Int, seconds: Int64) {
        #expect(Self.end(bytes, every: seconds == 0 ? Self.second / 10 : seconds * Self.second) == nil)
    }

    @Test(
        "A stream stops after a burst in the grace time → no more time; after a burst in the following window → 30 s more time"
    )
    func burst() throws {
        let inGrace = try #require(Self.end(0, every: Self.second, burst: 1 << 30, at: 5 * Self.second))
        #expect(inGrace <= 43 * Self.second)
        let later = try #require(Self.end(0, every: Self.second, burst: 1 << 30, at: 60 * Self.second - 1))
        #expect(later <= 43 * Self.second)
        let kept = try #require(Self.end(0, every: Self.second, burst: 1 << 30, at: 39 * Self.second))
        #expect(kept > 69 * Self.second && kept <= 73 * Self.second, "\(kept)")
    }

    @Test("The lowest rate of a stream is checked with extreme limits and times → no crash")
    func odd() {
        var none = ProgressRate(bytesPerSecond: 1, window: 0, grace: -5)
        none.account(.max, at: 0)
        none.account(.max, at: 0)
        _ = none.isBelow(at: .max)
        var huge = ProgressRate(bytesPerSecond: .max, window: .max, grace: 0)
        huge.account(-1, at: 1)
        let isHugeBelow = huge.isBelow(at: 1)
        #expect(!isHugeBelow)
        var jump = Self.rate()
        let isBelow = jump.isBelow(at: .max)
        #expect(isBelow)
        jump.account(1, at: 0)
        let isStillBelow = jump.isBelow(at: .max)
        #expect(isStillBelow)
    }
}
