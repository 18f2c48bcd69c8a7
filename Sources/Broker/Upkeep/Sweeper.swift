import Synchronization

/// Removes expired rows in small batches, and announces lapsed sessions.
///
/// Only the process that holds the sweeper's lease does this.
package final class Sweeper: Sendable {
    private let context: BrokerContext
    private let owner: String
    /// Guards the time up to which lapsed sessions have been announced.
    private let announced: Mutex<WallTime>

    /// The name of the sweeper's lease.
    package static let lease = "sweeper"

    /// Creates a sweeper; `owner` distinguishes this process from others.
    package init(_ context: BrokerContext, owner: String) {
        self.context = context
        self.owner = owner
        announced = Mutex(context.clock.now())
    }

    /// Releases the lease when this process stops, so that another process can begin at once.
    ///
    /// If the clock was in doubt, session uses may still be in memory only (`KeptUses`). They are written to the store first.
    package func stop() async throws(StoreFailure) {
        try await context.writeKeptUses()
        try await context.store.releaseLease(Self.lease, owner: owner)
    }

    /// Compares the clock, at the start of the process, with the last time that the store has recorded.
    ///
    /// `isTrusted` means that the operator vouches for the clock. The present time is then recorded in the store.
    package static func checkClock(
        _ context: BrokerContext, isTrusted: Bool = false
    ) async throws(StoreFailure) -> ClockStart {
        var marks = try await ClockMarks(context.store)
        if marks.lastSeen == nil || isTrusted {
            // At the first start with this store, or if the operator vouches for the clock, record a time for the comparison at
            // later starts. If the clock has already jumped, this is the time before the jump. A later start on the same wrong
            // clock would otherwise trust this clock, and end sessions.
            let time = isTrusted ? context.clock.now() : context.watch.trustedBefore(context.clock)
            try await ClockMarks.see(time, in: context.store)
            marks.lastSeen = nil
        }
        return context.watch.begin(context.clock, marks)
    }

    /// Sweeps one batch of rows if this process has the lease.
    ///
    /// Returns the number of rows that were removed or changed; nil if another process sweeps.
    ///
    /// While the clock is in doubt or uncertain, sessions and tombstones stay, and the store's mark stays unchanged. So the
    /// effects of a wrong clock can still be undone.
    package func sweep(limit: Int = 500) async throws(StoreFailure) -> Int? {
        // If this machine's clock differs from the store's clock, leave the sweep to another process.
        guard !context.watch.isOff(context.clock) else { return nil }
        let now = context.clock.now()
        let lapsed = context.lapseTime
        guard
            try await context.store.acquireLease(
                Self.lease, owner: owner, now: now, until: now.advanced(by: .seconds(90)))
        else {
            // The process that holds the lease announces the lapses until now. So this process leaves these lapses out later.
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

    /// Moves the store's mark to `now`.
    ///
    /// The mark is the last time that the store has recorded.
    ///
    /// The mark moves back only if evidence has shown that the clock is right, so that the recorded time was wrong.
    private func noteTime(_ now: WallTime) async throws(StoreFailure) {
        guard context.may(.moveMark) else { return }
        if let seen = try await context.store.lease(ClockMarks.clock), seen >= now {
            guard context.watch.isProven, seen.since(now) > ClockState.tolerance else { return }
        }
        try await ClockMarks.see(now, in: context.store)
        context.watch.markIs(now)
    }
}
