import Synchronization

/// Removes expired rows in small batches, by whoever holds the lease, and makes known which sessions have run out.
package final class Sweeper: Sendable {
    private let context: BrokerContext
    private let owner: String
    /// Guards up to when lapses have been made known.
    private let announced: Mutex<WallTime>

    /// The lease of whoever sweeps.
    package static let lease = "sweeper"

    /// Creates a sweeper; `owner` tells this process from others.
    package init(_ context: BrokerContext, owner: String) {
        self.context = context
        self.owner = owner
        announced = Mutex(context.clock.now())
    }

    /// Gives the lease up, when this process stops sweeping for good: the next one need not wait until it lapses.
    ///
    /// Uses that wait for the end of a doubt are written first.
    package func stop() async throws(StoreFailure) {
        try await context.writeKeptUses()
        try await context.store.releaseLease(Self.lease, owner: owner)
    }

    /// Compares the clock with the last time that a broker on this store has seen.
    ///
    /// `isTrusted` takes the operator's word for it: from then on it is the time that the store has seen.
    package static func checkClock(
        _ context: BrokerContext, isTrusted: Bool = false
    ) async throws(StoreFailure) -> ClockStart {
        var marks = try await ClockMarks(context.store)
        if marks.lastSeen == nil || isTrusted {
            // A store's first start: what comes after it is compared with this.
            try await ClockMarks.see(context.clock.now(), in: context.store)
            marks.lastSeen = nil
        }
        return context.watch.begin(context.clock, marks)
    }

    /// Sweeps one batch when the lease is ours; returns how many rows it touched, nil when another process sweeps.
    ///
    /// While the clock is doubted or uncertain sessions and tombstones are left alone, and the time that the store has seen
    /// does not move: a clock that is set right, or a restart, undoes what was wrong.
    package func sweep(limit: Int = 500) async throws(StoreFailure) -> Int? {
        // Another, whose clock is right, does it.
        guard !context.watch.isOff(context.clock) else { return nil }
        let now = context.clock.now()
        let lapsed = context.lapseTime
        guard
            try await context.store.acquireLease(
                Self.lease, owner: owner, now: now, until: now.advanced(by: .seconds(90)))
        else {
            // The holder of the lease makes known what lapses meanwhile.
            announced.withLock { $0 = max($0, lapsed) }
            return nil
        }
        if let agreement = context.watch.agreement(context.clock) {
            try await ClockMarks.note(agreement, in: context.store)
        }
        guard context.may(.bury) else {
            context.events.emit(
                .storeFailed(
                    operation: "sweep",
                    detail:
                        "the clock is in doubt, so no session is buried; check the time of machine and database"
                ))
            return try await context.store.sweep(now: lapsed, limit: limit, lapsedSince: nil).touched
        }
        try await context.writeKeptUses()
        try await noteTime(now)
        let since = announced.withLock { $0 }
        let swept = try await context.store.sweep(now: lapsed, limit: limit, lapsedSince: since)
        announced.withLock { $0 = max($0, lapsed) }
        EndSession(context).announce(swept.ended)
        return swept.touched
    }

    /// Has the store see the time, which goes back only where evidence has shown that what it saw was wrong.
    private func noteTime(_ now: WallTime) async throws(StoreFailure) {
        guard context.may(.moveMark) else { return }
        if let seen = try await context.store.lease(ClockMarks.clock), seen >= now {
            guard context.watch.isProven, seen.since(now) > ClockState.tolerance else { return }
        }
        try await ClockMarks.see(now, in: context.store)
        context.watch.markIs(now)
    }
}
