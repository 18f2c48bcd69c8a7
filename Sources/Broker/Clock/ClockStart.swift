import Synchronization

/// The result of comparing a process's clock with the store's memory when the process begins.
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

/// The store's memory of its clocks.
///
/// Each is a row among the leases that nobody competes for, so that every engine and every copy of a store has them.
package struct ClockMarks: Sendable {
    /// The last time that a broker on this store has seen by a clock that it trusted.
    package var lastSeen: WallTime?
    /// The time that clocks were watched and agreed while they were in question.
    var agreement: ClockAgreement?
    /// The store's time when its clock was last stepped.
    var storeStepped: WallTime?

    package init(lastSeen: WallTime? = nil) { self.lastSeen = lastSeen }
}

extension ClockMarks {
    static let clock = "clock"
    private static let agreed = "clock-agreed"
    private static let agreedFor = "clock-agreed-for"
    private static let stepped = "clock-stepped"

    /// Reads what a store remembers.
    init(_ store: any BrokerStore) async throws(StoreFailure) {
        lastSeen = try await store.lease(Self.clock)
        storeStepped = try await Self.step(in: store)
        if let until = try await store.lease(Self.agreed), let lasted = try await store.lease(Self.agreedFor) {
            agreement = ClockAgreement(until: until, lasted: .milliseconds(max(lasted.milliseconds, 0)))
        }
    }

    /// Notes the time that the store has seen.
    static func see(_ time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(clock, to: time, in: store)
    }

    /// Notes for how long clocks have agreed: the duration first, because a longer one is worth nothing with an older time.
    static func note(_ agreement: ClockAgreement, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(agreedFor, to: WallTime(milliseconds: agreement.lasted.wholeMilliseconds), in: store)
        try await set(agreed, to: agreement.until, in: store)
    }

    /// Returns the store's time when its clock was last stepped.
    static func step(in store: any BrokerStore) async throws(StoreFailure) -> WallTime? {
        try await store.lease(stepped)
    }

    /// Notes that the store's clock was stepped.
    static func noteStep(at time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(stepped, to: time, in: store)
    }

    private static func set(_ name: String, to time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        _ = try await store.acquireLease(name, owner: name, now: time, until: time)
    }
}

/// The wall clock as it was when it was last believed, carried on by the monotonic one.
final class BelievedTime: Sendable {
    /// Guards the last reading.
    private let seen = Mutex<ClockReading?>(nil)

    /// Notes what both clocks say.
    func note(_ wall: WallTime, _ monotonic: Duration) { seen.withLock { $0 = ClockReading(wall, monotonic) } }

    /// Returns what the wall clock would say now; nil before the first note.
    func now(_ monotonic: Duration) -> WallTime? { seen.withLock { $0 }.map { $0.time(at: monotonic) } }
}
