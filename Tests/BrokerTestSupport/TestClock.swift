package import Broker
import Synchronization

/// A clock that a test moves.
///
/// Its waits return after a millisecond instead of the real time.
package final class TestClock: Sendable {
    private struct State {
        var now = TestClock.start
        var monotonic = Duration.seconds(1000)
        var longestWait = Duration.zero
        var asked: [Duration] = []
        var held: Duration?
    }

    private let state = Mutex(State())

    /// The default start of a test's clock: 2026-11-20T21:20:00Z.
    package static let start = WallTime(seconds: 1_795_209_600)

    /// Creates a clock.
    ///
    /// The clock's wall time is wrong by `ahead` from the beginning.
    package init(_ start: WallTime = TestClock.start, ahead: Duration = .zero) {
        state.withLock { $0.now = start.advanced(by: ahead) }
    }

    package var now: WallTime { state.withLock { $0.now } }
    package var monotonic: Duration { state.withLock { $0.monotonic } }

    package func advance(_ duration: Duration) {
        state.withLock { state in
            state.now = state.now.advanced(by: duration)
            state.monotonic += duration
        }
    }

    /// Moves only the wall clock, as an operator does who sets the time.
    package func jump(_ duration: Duration) { state.withLock { $0.now = $0.now.advanced(by: duration) } }

    /// Moves only the monotonic clock, as if the machine had run for longer than its wall clock shows.
    package func advanceMonotonic(_ duration: Duration) { state.withLock { $0.monotonic += duration } }

    /// Returns the longest wait since the last call of this function.
    package func takeLongestWait() -> Duration {
        state.withLock { state in
            defer { state.longestWait = .zero }
            return state.longestWait
        }
    }

    /// The lengths of all waits that were requested, in order.
    package var asked: [Duration] { state.withLock { $0.asked } }

    /// Makes waits of this length last until they are cancelled.
    ///
    /// An event that competes with such a wait then always comes first, even on a busy machine.
    package func hold(_ length: Duration) { state.withLock { $0.held = length } }

    /// Lets claims lapse as if their owners had died.
    ///
    /// Otherwise an owner that waits at a gate may renew its claim after `advance`. Owners check once a second whether a
    /// renewal is due, and these waits are held.
    package func stopRenewals() { hold(.seconds(1)) }

    package var clock: BrokerClock {
        BrokerClock(
            now: { self.now }, monotonic: { self.monotonic },
            sleep: { duration in
                self.state.withLock { $0.longestWait = max($0.longestWait, duration) }
                let isHeld = self.state.withLock { state in
                    state.asked.append(duration)
                    return state.held == duration
                }
                try Task.checkCancellation()
                // The wait lasts a millisecond of real time, so that other tasks can run. If the test's event may take longer
                // than the wait, the test has to use `hold`.
                try await Task.sleep(for: isHeld ? .seconds(3600) : .milliseconds(1))
            })
    }
}
