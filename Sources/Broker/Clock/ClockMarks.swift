/// The times that the store has recorded.
///
/// From these times, a process judges whether its clock is right.
///
/// Each time is a row in the table of leases, although it is no lease. Therefore every engine and every copy of a store has
/// these times.
package struct ClockMarks: Sendable {
    /// The last time that a broker recorded in this store while it trusted its clock.
    package var lastSeen: WallTime?
    /// The time since the last jump of a clock, as a former process recorded it during a doubt; nil without such a record.
    var agreement: ClockAgreement?
    /// The store's time after the last step of its clock (somebody set the clock to another time).
    var storeStepped: WallTime?

    package init(lastSeen: WallTime? = nil) { self.lastSeen = lastSeen }
}

extension ClockMarks {
    static let clock = "clock"
    private static let agreed = "clock-agreed"
    private static let agreedFor = "clock-agreed-for"
    private static let stepped = "clock-stepped"

    /// Reads the recorded times from a store.
    init(_ store: any BrokerStore) async throws(StoreFailure) {
        lastSeen = try await store.lease(Self.clock)
        storeStepped = try await Self.step(in: store)
        if let until = try await store.lease(Self.agreed), let lasted = try await store.lease(Self.agreedFor) {
            agreement = ClockAgreement(until: until, lasted: .milliseconds(max(lasted.milliseconds, 0)))
        }
    }

    /// Records a time in the store as the last time that a broker has seen.
    static func see(_ time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(clock, to: time, in: store)
    }

    /// Records, during a doubt, how long ago a clock last jumped, and the clock's present time.
    ///
    /// The duration is written first. If only this write succeeds, the new duration is combined with the older time, which is
    /// harmless.
    static func note(_ agreement: ClockAgreement, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(agreedFor, to: WallTime(milliseconds: agreement.lasted.wholeMilliseconds), in: store)
        try await set(agreed, to: agreement.until, in: store)
    }

    /// Returns the store's time after the last step of its clock (somebody set the clock to another time).
    static func step(in store: any BrokerStore) async throws(StoreFailure) -> WallTime? {
        try await store.lease(stepped)
    }

    /// Records the store's time after a step of its clock (somebody set the clock to another time).
    static func noteStep(at time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        try await set(stepped, to: time, in: store)
    }

    private static func set(_ name: String, to time: WallTime, in store: any BrokerStore) async throws(StoreFailure) {
        _ = try await store.acquireLease(name, owner: name, now: time, until: time)
    }
}
