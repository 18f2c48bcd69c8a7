import Synchronization

/// Removes expired rows in small batches, by whoever holds the lease, and makes known which sessions have run out.
package final class Sweeper: Sendable {
    private let context: BrokerContext
    private let owner: String
    /// Guards up to when lapses have been made known.
    private let announced: Mutex<WallTime>

    /// The lease row that holds the last time the broker has seen; nobody competes for it.
    private static let clockLease = "clock"
    /// The lease of whoever sweeps.
    package static let lease = "sweeper"

    /// Creates a sweeper; `owner` tells this process from others.
    package init(_ context: BrokerContext, owner: String) {
        self.context = context
        self.owner = owner
        announced = Mutex(context.clock.now())
    }

    /// Gives the lease up, when this process stops sweeping for good: the next one need not wait until it lapses.
    package func stop() async throws(StoreFailure) {
        try await context.store.releaseLease(Self.lease, owner: owner)
    }

    /// Compares the clock with the last time that a broker on this store has seen.
    ///
    /// `isTrusted` takes the operator's word for it: from then on it is the time that the store has seen.
    package static func checkClock(
        _ context: BrokerContext, isTrusted: Bool = false
    ) async throws(StoreFailure) -> ClockStart {
        let lastSeen = try await context.store.lease(clockLease)
        guard lastSeen == nil || isTrusted else { return context.watch.begin(context.clock, lastSeen: lastSeen) }
        // A store's first start: what comes after it is compared with this.
        let now = context.clock.now()
        _ = try await context.store.acquireLease(clockLease, owner: clockLease, now: now, until: now)
        return context.watch.begin(context.clock, lastSeen: nil)
    }

    /// Sweeps one batch when the lease is ours; returns how many rows it touched, nil when another process sweeps.
    ///
    /// While the wall clock is doubted or uncertain, and for a day after, sessions and tombstones are left alone, and the time that the
    /// store has seen does not move: a clock that is set right, or a restart, undoes what was wrong.
    package func sweep(limit: Int = 500) async throws(StoreFailure) -> Int? {
        // Another, whose clock is right, does it.
        guard !context.watch.isOff(context.clock) else { return nil }
        let now = context.clock.now()
        guard
            try await context.store.acquireLease(
                Self.lease, owner: owner, now: now, until: now.advanced(by: .seconds(90)))
        else {
            // The holder of the lease makes known what lapses meanwhile.
            announced.withLock { $0 = max($0, now) }
            return nil
        }
        guard context.watch.isCertain(context.clock) else {
            context.events.emit(
                .storeFailed(operation: "sweep", detail: "the wall clock is not certain: sessions are left alone"))
            return try await context.store.sweep(now: now, limit: limit, lapsedSince: nil).touched
        }
        try await noteTime(now)
        let since = announced.withLock { $0 }
        let swept = try await context.store.sweep(now: now, limit: limit, lapsedSince: since)
        announced.withLock { $0 = max($0, now) }
        EndSession(context).announce(swept.ended)
        return swept.touched
    }

    /// Has the store see the time, which never goes back by that.
    private func noteTime(_ now: WallTime) async throws(StoreFailure) {
        guard context.watch.isSettled(context.clock) else { return }
        if let seen = try await context.store.lease(Self.clockLease), seen >= now { return }
        _ = try await context.store.acquireLease(Self.clockLease, owner: Self.clockLease, now: now, until: now)
    }
}
