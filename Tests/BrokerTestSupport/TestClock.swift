package import Broker
import Synchronization

/// A calendar that a test moves; waiting yields instead of taking time.
package final class TestClock: Sendable {
    private struct State {
        var now = TestClock.start
        var monotonic = Duration.seconds(1000)
        var longestWait = Duration.zero
        var asked: [Duration] = []
        var held: Duration?
    }

    private let state = Mutex(State())

    /// The moment at which every one begins, if nothing else is asked for: 2026-11-20T21:20:00Z.
    package static let start = WallTime(seconds: 1_795_209_600)

    /// Creates one whose wall clock may have been wrong from the beginning.
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

    /// Moves the wall clock alone, as somebody does who sets it.
    package func jump(_ duration: Duration) { state.withLock { $0.now = $0.now.advanced(by: duration) } }

    /// Moves the monotonic clock alone: the machine has run for longer than its time says.
    package func advanceMonotonic(_ duration: Duration) { state.withLock { $0.monotonic += duration } }

    /// The longest time that somebody wanted to wait since this was asked last.
    package func takeLongestWait() -> Duration {
        state.withLock { state in
            defer { state.longestWait = .zero }
            return state.longestWait
        }
    }

    /// The times for which somebody asked to sleep, in order.
    package var asked: [Duration] { state.withLock { $0.asked } }

    /// Makes waits of a length last until they are cancelled: who is waited for is there, however busy the machine is.
    package func hold(_ length: Duration) { state.withLock { $0.held = length } }

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
                // A millisecond of real time lets the others run: a race with what takes longer needs `hold`.
                try await Task.sleep(for: isHeld ? .seconds(3600) : .milliseconds(1))
            })
    }
}
