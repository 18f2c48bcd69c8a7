import Synchronization

/// The uses of sessions during a doubt about the clock, timed by the boot clock.
///
/// If a request was answered, the broker must remember this use of the session, even if the time of the use is unknown
/// (guarantee 3). The kept uses are written to the store when the doubt is over, before the broker concludes that their
/// sessions have lapsed.
final class KeptUses: Sendable {
    /// The last use of a session.
    struct Use: Sendable {
        var moment: Duration
        let createdAt: WallTime
        let lifetimes: SessionLifetimes
        /// A time from before the doubt at which the session was alive.
        let aliveAt: WallTime
        /// The moment when the use was written to the store; nil before that.
        ///
        /// A written use is kept for half a minute more, because a row that was read before the write may still be in use.
        var writtenAt: Duration?
    }

    /// The largest number of kept uses; it equals the number of sessions that the cache may hold.
    static let maximum = 100_000
    /// The time that a written use is kept, which is longer than a read takes.
    private static let afterglow = Duration.seconds(30)

    /// Guards the uses, by the token's digest.
    private let uses = Mutex<[Digest: Use]>([:])
    private let maximum: Int

    init(maximum: Int = maximum) { self.maximum = maximum }

    var isEmpty: Bool { uses.withLock(\.isEmpty) }
    var count: Int { uses.withLock(\.count) }

    /// Keeps a use.
    ///
    /// For a session without a kept use, `first` makes the use; if `first` returns nil, nothing is kept.
    func keep(_ tokenDigest: Digest, at moment: Duration, _ first: () -> Use?) {
        let isKnown = uses.withLock { uses in
            guard var use = uses[tokenDigest] else { return false }
            use.moment = max(use.moment, moment)
            use.writtenAt = nil
            uses[tokenDigest] = use
            return true
        }
        guard !isKnown, let use = first() else { return }
        uses.withLock { uses in
            guard uses.count < maximum || uses[tokenDigest] != nil else { return }
            uses[tokenDigest] = use
        }
    }

    /// Returns a session's last kept use.
    subscript(_ tokenDigest: Digest) -> Use? { uses.withLock { $0[tokenDigest] } }

    /// Returns at most `limit` uses that are not yet in the store, and forgets uses that were written a while ago.
    fileprivate func unwritten(at moment: Duration, limit: Int) -> [(Digest, Use)] {
        uses.withLock { uses in
            uses = uses.filter { _, use in use.writtenAt.map { moment - $0 < Self.afterglow } ?? true }
            return Array(uses.lazy.filter { $0.value.writtenAt == nil }.prefix(limit).map { ($0.key, $0.value) })
        }
    }

    /// Notes that a use was written to the store.
    ///
    /// If the session was used again during the write, the later use still has to be written.
    fileprivate func wrote(_ tokenDigest: Digest, _ written: Use, at moment: Duration) {
        uses.withLock { uses in
            guard var use = uses[tokenDigest], use.moment == written.moment else { return }
            use.writtenAt = moment
            uses[tokenDigest] = use
        }
    }
}

extension BrokerContext {
    /// Keeps a use of a living session while its lapse is in doubt.
    func keepUse(of session: LiveSession) {
        let (row, moment) = (session.row, clock.monotonic())
        memory.uses.keep(session.tokenDigest, at: moment) {
            let before = watch.trustedBefore(clock)
            // A use cannot revive a session that was over before the doubt began.
            guard before < min(row.idleExpiresAt, row.expiresAt) else { return nil }
            return KeptUses.Use(
                moment: moment, createdAt: row.createdAt, lifetimes: session.facts.lifetimes, aliveAt: before)
        }
    }

    /// Returns whether a kept use keeps a session alive whose row shows it as lapsed.
    ///
    /// The use must be within the idle time, and the session's absolute end must be in the future.
    func isKeptAlive(_ row: SessionRow) -> Bool {
        guard let use = memory.uses[row.tokenDigest], lapseTime < row.expiresAt else { return false }
        return clock.monotonic() - use.moment < use.lifetimes.idle
    }

    /// Returns a time at which the row of a living session shows it as alive.
    ///
    /// The store uses this time to judge whether work for the session is allowed.
    func aliveTime(_ row: SessionRow) -> WallTime {
        memory.uses[row.tokenDigest].map { min($0.aliveAt, lapseTime) } ?? lapseTime
    }

    /// Writes the kept uses to the store.
    ///
    /// The time of each use is computed from its moment.
    package func writeKeptUses() async throws(StoreFailure) {
        guard !memory.uses.isEmpty else { return }
        while true {
            let uses = memory.uses.unwritten(at: clock.monotonic(), limit: 200)
            guard !uses.isEmpty else { return }
            for (tokenDigest, use) in uses {
                let used = watch.time(of: use.moment, clock)
                try await store.slideSession(
                    tokenDigest: tokenDigest, lastUsedAt: used,
                    idleExpiresAt: SessionLimits.idleEnd(usedAt: used, created: use.createdAt, use.lifetimes),
                    aliveAt: use.aliveAt)
                memory.uses.wrote(tokenDigest, use, at: clock.monotonic())
            }
            cache.remove(uses.map(\.0))
        }
    }
}
