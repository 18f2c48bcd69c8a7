/// The times that the store remembers, for judging the clocks of its processes.
///
/// Each time is a row in the table of leases, although it is no lease. Therefore every engine and every copy of a store has
/// these times.
package struct ClockMarks: Sendable {
    /// The last time that a broker on this store has seen on a clock that it trusted.
    package var lastSeen: WallTime?
    /// The time for which the clocks of former processes have agreed during a doubt.
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

    /// Reads these times from a store.
    init(_ store: any BrokerStore) async throws(StoreFailure) {
        lastSeen = try await store.lease(Self.clock)
        storeStepped = try await Self.step(in: store)
        if let until = try await store.lease(Self.agreed), let lasted = try await store.lease(Self.agreedFor) {
            agreement = ClockAgreement(until: until, lasted: .milliseconds(max(lasted.milliseconds, 0)))
        }
    }

    /// Writes the time as the last one that the store has seen.
    static func see(_ time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(clock, to: time, in: store)
    }

    /// Writes how long clocks have agreed.
    ///
    /// The duration is written first. If the second write fails, the new duration stays with the older time, which is
    /// harmless.
    static func note(_ agreement: ClockAgreement, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(agreedFor, to: WallTime(milliseconds: agreement.lasted.wholeMilliseconds), in: store)
        try await set(agreed, to: agreement.until, in: store)
    }

    /// Returns the store's time when its clock was last stepped.
    static func step(in store: any BrokerStore) async throws(StoreFailure) -> WallTime? {
        try await store.lease(stepped)
    }

    /// Writes the store's time at which its clock was stepped.
    static func noteStep(at time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(stepped, to: time, in: store)
    }

    private static func set(_ name: String, to time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        _ = try await store.acquireLease(name, owner: name, now: time, until: time)
    }
}
