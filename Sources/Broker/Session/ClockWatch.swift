import Synchronization

/// Tells whether the wall clock can be believed.
///
/// A clock that jumps (a machine that starts before its time is set, a snapshot that is restored) must not end sessions
/// for good: no lapse is believed for ten minutes after wall and monotonic time have parted by more than a minute, nor
/// for the first hour of a process that finds itself more than a week beyond the last time the store has seen.
package final class ClockWatch: Sendable {
    private struct State {
        var seen: (wall: WallTime, monotonic: Duration)?
        var doubtfulUntil: Duration?
        /// The last time that the store had seen when this process began.
        var lastSeen: WallTime?
    }

    /// How far the two clocks may part between two looks.
    private static let tolerance = Duration.seconds(60)
    private static let doubtAfterJump = Duration.seconds(600)
    /// How long a broker may have been away before its clock is doubted at the start.
    private static let absence = Duration.seconds(7 * 86_400)
    private static let doubtAfterAbsence = Duration.seconds(3600)
    /// How long after a doubt nothing is written down that could not be undone.
    private static let probation = Duration.seconds(86_400)

    /// Guards the last look and until when the wall clock is doubted.
    private let state = Mutex(State())

    package init() {}

    /// Looks at both clocks, and returns whether what has lapsed by the wall clock has lapsed.
    package func believes(_ clock: BrokerClock) -> Bool {
        let (wall, monotonic) = (clock.now(), clock.monotonic())
        return state.withLock { state in
            if let seen = state.seen {
                let parted = wall.since(seen.wall) - (monotonic - seen.monotonic)
                if parted > Self.tolerance || parted < .zero - Self.tolerance {
                    let end = monotonic + Self.doubtAfterJump
                    // A clock that comes back to where the store has seen it ends the hour of a start that was beyond.
                    let isBack = state.lastSeen.map { wall.since($0) <= Self.absence } ?? false
                    state.doubtfulUntil = isBack ? end : max(state.doubtfulUntil ?? .zero, end)
                }
            }
            state.seen = (wall, monotonic)
            return state.doubtfulUntil.map { monotonic >= $0 } ?? true
        }
    }

    /// Returns whether what has lapsed may be written down for good: nothing was in doubt for a day.
    package func isCertain(_ clock: BrokerClock) -> Bool {
        guard believes(clock) else { return false }
        let monotonic = clock.monotonic()
        return state.withLock { state in
            state.doubtfulUntil.map { monotonic >= $0 + Self.probation } ?? true
        }
    }

    /// Compares the clock at the start with the last time that the store has seen; returns whether it is believed.
    package func begin(_ clock: BrokerClock, lastSeen: WallTime?) -> Bool {
        if let lastSeen, clock.now().since(lastSeen) > Self.absence {
            let end = clock.monotonic() + Self.doubtAfterAbsence
            state.withLock { state in
                state.doubtfulUntil = end
                state.lastSeen = lastSeen
            }
        }
        return believes(clock)
    }
}
