import Synchronization

/// Tells whether the wall clock can be believed, and what time it is where it cannot.
///
/// A clock that jumps (a machine that starts before its time is set, a snapshot that is restored) must not end sessions
/// for good: no lapse is believed for ten minutes after wall and monotonic time have parted by more than a minute, nor
/// for the first hour of a process that finds itself more than a week beyond the last time the store has seen, nor while
/// it is behind that time. Where the store has a clock of its own, a process that is more than a minute off it believes no
/// lapse as long as it is, and writes its times by the store's: they are everybody's.
///
/// Acts that could not be undone wait longer: for a day after a doubt, and for the first day of a process that finds
/// itself more than a day beyond the last time the store has seen.
package final class ClockWatch: Sendable {
    private struct State {
        var seen: (wall: WallTime, monotonic: Duration)?
        var doubtfulUntil: Duration?
        /// The time until which nothing is written down that could not be undone, where the start was too far ahead for it.
        var uncertainUntil: Duration?
        /// The first look.
        var begun: Duration?
        /// The last time that the store had seen when this process began.
        var lastSeen: WallTime?
        /// Whether the clock is behind that time: it is surely wrong.
        var isBehind = false
        /// The clock's lead over the store's; nil while they were never compared.
        var ahead: Duration?

        /// Whether the clock is not the store's.
        var isOff: Bool { ahead.map { $0 > ClockWatch.tolerance || $0 < .zero - ClockWatch.tolerance } ?? false }

        /// Converts a time of the wall clock to the store's.
        func time(_ wall: WallTime) -> WallTime { isOff ? wall.advanced(by: .zero - (ahead ?? .zero)) : wall }

        /// Notes what both clocks say, and whether they have parted since the last look.
        mutating func note(_ wall: WallTime, _ monotonic: Duration) {
            defer {
                seen = (wall, monotonic)
                begun = begun ?? monotonic
            }
            let parted = seen.map { wall.since($0.wall) - (monotonic - $0.monotonic) } ?? .zero
            let hasJumped = parted > ClockWatch.tolerance || parted < .zero - ClockWatch.tolerance
            if hasJumped { ahead = ahead.map { $0 + parted } }
            let wasBehind = isBehind
            isBehind = lastSeen.map { time(wall).since($0) < .zero - ClockWatch.tolerance } ?? false
            if wasBehind, !isBehind {
                // One that was surely wrong has been set, or has caught up: it is judged as at a start.
                compare(wall, monotonic)
            } else if hasJumped {
                let end = monotonic + ClockWatch.doubtAfterJump
                // A clock that comes back to where the store has seen it ends the hour of a start that was beyond.
                let isBack = lastSeen.map { time(wall).since($0) <= ClockWatch.absence } ?? false
                doubtfulUntil = isBack ? end : max(doubtfulUntil ?? .zero, end)
            }
        }

        /// Compares the clock with the last time that the store has seen.
        mutating func compare(_ wall: WallTime, _ monotonic: Duration) {
            guard let lastSeen else { return }
            let beyond = time(wall).since(lastSeen)
            isBehind = beyond < .zero - ClockWatch.tolerance
            if beyond > ClockWatch.absence { doubtfulUntil = monotonic + ClockWatch.doubtAfterAbsence }
            if beyond > SessionLimits.lapseGrace { uncertainUntil = monotonic + ClockWatch.probation }
        }

        /// Whether the clock may be wrong by as much as sessions live.
        func isDoubted(_ monotonic: Duration) -> Bool { isBehind || doubtfulUntil.map { monotonic < $0 } ?? false }
    }

    /// The most that the two clocks may part between two looks, and the wall clock from the store's.
    private static let tolerance = Duration.seconds(60)
    private static let doubtAfterJump = Duration.seconds(600)
    /// The time for which a broker may have been away before its clock is doubted at the start.
    private static let absence = Duration.seconds(7 * 86_400)
    private static let doubtAfterAbsence = Duration.seconds(3600)
    /// The time after a doubt in which nothing is written down that could not be undone.
    private static let probation = SessionLimits.lapseGrace
    /// The time for which a process watches its clock before the store takes its time for seen: many a machine starts
    /// with a time that is hours ahead and is set within minutes, and what was seen once never goes back.
    private static let settling = Duration.seconds(600)

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
            return !state.isOff && !state.isDoubted(monotonic)
        }
    }

    /// Looks at both clocks, and returns whether the time may be written down as a session's: nobody doubts it, or it is
    /// the store's own.
    package func tellsTime(_ clock: BrokerClock) -> Bool {
        _ = believes(clock)
        let monotonic = clock.monotonic()
        return state.withLock { state in
            state.ahead == nil ? !state.isDoubted(monotonic) : !state.isBehind
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

    /// The clock's lead over the store's; nil while they were never compared.
    package var ahead: Duration? { state.withLock { $0.ahead } }

    /// Returns whether what has lapsed may be written down for good: nothing was in doubt for a day.
    package func isCertain(_ clock: BrokerClock) -> Bool {
        guard believes(clock) else { return false }
        let monotonic = clock.monotonic()
        return state.withLock { state in
            monotonic >= state.doubtfulUntil.map { $0 + Self.probation } ?? .zero
                && monotonic >= state.uncertainUntil ?? .zero
        }
    }

    /// Returns whether the time may count as seen by the store: it is certain, and has been watched for ten minutes.
    package func isSettled(_ clock: BrokerClock) -> Bool {
        guard isCertain(clock) else { return false }
        let monotonic = clock.monotonic()
        return state.withLock { state in state.begun.map { monotonic >= $0 + Self.settling } ?? false }
    }

    /// Compares the clock at the start with the last time that the store has seen.
    package func begin(_ clock: BrokerClock, lastSeen: WallTime?) -> ClockStart {
        let isBelieved = believes(clock)
        let (wall, monotonic) = (uncorrected(clock), clock.monotonic())
        return state.withLock { state in
            state.lastSeen = lastSeen
            state.compare(wall, monotonic)
            if state.isBehind { return .behind }
            if state.isDoubted(monotonic) { return .doubted }
            if !isBelieved { return .off }
            return state.uncertainUntil == nil ? .believed : .uncertain
        }
    }
}

/// Compares this process's wall clock with the store's, which is everybody's.
package struct ClockComparison: Sendable {
    private let context: BrokerContext
    private let store: any SharedStore

    /// A comparison that took longer than this says nothing.
    private static let patience = Duration.seconds(2)

    package init(_ context: BrokerContext, _ store: any SharedStore) {
        self.context = context
        self.store = store
    }

    /// Asks the store for its time; what is found is in the context's `ClockWatch`.
    ///
    /// A store that does not answer, or not soon, says nothing of the clock.
    package func look() async throws(StoreFailure) {
        let (clock, watch) = (context.clock, context.watch)
        let (began, wall) = (clock.monotonic(), watch.uncorrected(clock))
        let time: WallTime
        do throws(StoreFailure) { time = try await store.time() } catch {
            context.memory.store.failed(at: clock.monotonic())
            throw error
        }
        // Asked whether there is work or not, so that a replica without any notices a store that was away, too.
        context.memory.store.answered(at: clock.monotonic())
        let took = clock.monotonic() - began
        // A clock that was set meanwhile is compared the next time.
        let parted = watch.uncorrected(clock).since(wall) - took
        guard took <= Self.patience, parted > .seconds(-1), parted < .seconds(1) else { return }
        watch.compared(ahead: wall.advanced(by: took / 2).since(time), clock)
    }
}

/// Names what a process finds out about its clock when it begins, from the last time that the store has seen.
package enum ClockStart: Sendable, Equatable {
    case believed
    /// More than a day beyond: lapses are believed, and nothing is buried for a day.
    case uncertain
    /// More than a week beyond: no lapse is believed for an hour, and no session begins where the store has no clock of its
    /// own.
    case doubted
    /// Behind, which no clock can be that is right: the same, until it has caught up.
    case behind
    /// It is not the store's own, which is taken in its place.
    case off
}

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
