import Synchronization

/// Tells whether the wall clock can be believed, and what time it is where it cannot.
///
/// A clock that jumps (a machine that starts before its time is set, a snapshot that is restored) must not end sessions
/// for good: no lapse is believed for ten minutes after wall and monotonic time have parted by more than a minute, nor
/// for the first hour of a process that finds itself more than a week beyond the last time the store has seen. Where the
/// store has a clock of its own, a process that is more than a minute off it believes no lapse as long as it is, and writes
/// its times by the store's: they are everybody's.
package final class ClockWatch: Sendable {
    private struct State {
        var seen: (wall: WallTime, monotonic: Duration)?
        var doubtfulUntil: Duration?
        /// The last time that the store had seen when this process began.
        var lastSeen: WallTime?
        /// How far the clock is ahead of the store's; nil while they were never compared.
        var ahead: Duration?

        /// Whether the clock is not the store's.
        var isOff: Bool { ahead.map { $0 > ClockWatch.tolerance || $0 < .zero - ClockWatch.tolerance } ?? false }

        /// What a time of the wall clock is by the store's.
        func time(_ wall: WallTime) -> WallTime { isOff ? wall.advanced(by: .zero - (ahead ?? .zero)) : wall }

        /// Notes what both clocks say, and whether they have parted since the last look.
        mutating func note(_ wall: WallTime, _ monotonic: Duration) {
            defer { seen = (wall, monotonic) }
            guard let seen else { return }
            let parted = wall.since(seen.wall) - (monotonic - seen.monotonic)
            guard parted > ClockWatch.tolerance || parted < .zero - ClockWatch.tolerance else { return }
            ahead = ahead.map { $0 + parted }
            let end = monotonic + ClockWatch.doubtAfterJump
            // A clock that comes back to where the store has seen it ends the hour of a start that was beyond.
            let isBack = lastSeen.map { time(wall).since($0) <= ClockWatch.absence } ?? false
            doubtfulUntil = isBack ? end : max(doubtfulUntil ?? .zero, end)
        }
    }

    /// How far the two clocks may part between two looks, and the wall clock from the store's.
    private static let tolerance = Duration.seconds(60)
    private static let doubtAfterJump = Duration.seconds(600)
    /// How long a broker may have been away before its clock is doubted at the start.
    private static let absence = Duration.seconds(7 * 86_400)
    private static let doubtAfterAbsence = Duration.seconds(3600)
    /// How long after a doubt nothing is written down that could not be undone.
    private static let probation = Duration.seconds(86_400)

    /// Guards the last look, until when the wall clock is doubted, and how far it is off.
    private let state = Mutex(State())
    /// The wall clock as it is, where the clock that the broker works with is this one's correction.
    private let wall: (@Sendable () -> WallTime)?

    package init() { wall = nil }

    /// Creates one that corrects a clock (`corrected`).
    package init(correcting clock: BrokerClock) { wall = clock.now }

    /// Returns the clock with the store's time in place of its own where that is off.
    package func corrected(_ clock: BrokerClock) -> BrokerClock {
        BrokerClock(
            now: { [self] in
                let (wall, monotonic) = (clock.now(), clock.monotonic())
                return state.withLock { state in
                    state.note(wall, monotonic)
                    return state.time(wall)
                }
            }, monotonic: clock.monotonic, sleep: clock.sleep)
    }

    /// The wall clock's own time.
    func uncorrected(_ clock: BrokerClock) -> WallTime { wall.map { $0() } ?? clock.now() }

    /// Looks at both clocks, and returns whether what has lapsed by the wall clock has lapsed.
    package func believes(_ clock: BrokerClock) -> Bool {
        let (wall, monotonic) = (uncorrected(clock), clock.monotonic())
        return state.withLock { state in
            state.note(wall, monotonic)
            return !state.isOff && (state.doubtfulUntil.map { monotonic >= $0 } ?? true)
        }
    }

    /// Looks at both clocks, and returns whether the wall clock is not the store's.
    package func isOff(_ clock: BrokerClock) -> Bool {
        _ = believes(clock)
        return state.withLock { $0.isOff }
    }

    /// Notes how far the clock is ahead of the store's.
    package func compared(ahead: Duration, _ clock: BrokerClock) {
        // A jump that came before it is in the measure.
        _ = believes(clock)
        state.withLock { $0.ahead = ahead }
    }

    /// How far the clock is ahead of the store's; nil while they were never compared.
    package var ahead: Duration? { state.withLock { $0.ahead } }

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
