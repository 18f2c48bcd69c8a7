import Synchronization

/// The uses of sessions while the clock is in doubt.
///
/// The moment of each use is read from the boot clock.
///
/// If a request was answered, the broker must remember this use of the session, even if the time of the use is unknown
/// (guarantee 3). After the doubt, the broker writes these uses to the store before it decides that a session has lapsed.
final class KeptUses: Sendable {
    /// The last use of a session.
    struct Use: Sendable {
        var moment: Duration
        let createdAt: WallTime
        let lifetimes: SessionLifetimes
        /// A time before the doubt began, at which the session was alive.
        let aliveAt: WallTime
        /// The moment when the use was written to the store; nil if it is not written yet.
        ///
        /// A written use stays in memory for thirty seconds, because another call may still work with a row that it read before
        /// the write.
        var writtenAt: Duration?
    }

    /// The largest number of uses in memory, which equals the largest number of sessions in the session cache.
    static let maximum = 100_000
    /// The time that a use stays in memory after it was written to the store.
    ///
    /// A read of the store takes less time.
    private static let afterglow = Duration.seconds(30)

    /// Guards the uses.
    ///
    /// The key is the digest of the session token.
    private let uses = Mutex<[Digest: Use]>([:])
    private let maximum: Int

    init(maximum: Int = maximum) { self.maximum = maximum }

    var isEmpty: Bool { uses.withLock(\.isEmpty) }
    var count: Int { uses.withLock(\.count) }

    /// Remembers that a session is used now.
    ///
    /// If the session has no use in memory yet, `first` makes the use. If `first` returns nil, no use is remembered.
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

    /// Returns the last use of a session that is in memory; nil if there is none.
    subscript(_ tokenDigest: Digest) -> Use? { uses.withLock { $0[tokenDigest] } }

    /// Returns at most `limit` uses that are not yet in the store.
    ///
    /// Removes uses from memory thirty seconds after they were written.
    fileprivate func unwritten(at moment: Duration, limit: Int) -> [(Digest, Use)] {
        uses.withLock { uses in
            uses = uses.filter { _, use in use.writtenAt.map { moment - $0 < Self.afterglow } ?? true }
            return Array(uses.lazy.filter { $0.value.writtenAt == nil }.prefix(limit).map { ($0.key, $0.value) })
        }
    }

    /// Notes that a use was written to the store.
    ///
    /// If the session was used again during the write, nothing is noted, so the later use is written next.
    fileprivate func wrote(_ tokenDigest: Digest, _ written: Use, at moment: Duration) {
        uses.withLock { uses in
            guard var use = uses[tokenDigest], use.moment == written.moment else { return }
            use.writtenAt = moment
            uses[tokenDigest] = use
        }
    }
}

extension BrokerContext {
    /// Remembers that a living session is used now, while the broker cannot judge whether the session has lapsed.
    func keepUse(of session: LiveSession) {
        let (row, moment) = (session.row, clock.monotonic())
        memory.uses.keep(session.tokenDigest, at: moment) {
            let before = watch.trustedBefore(clock)
            // A session whose end came before the doubt began has lapsed. A use must not revive it.
            guard before < min(row.idleExpiresAt, row.expiresAt) else { return nil }
            return KeptUses.Use(
                moment: moment, createdAt: row.createdAt, lifetimes: session.facts.lifetimes, aliveAt: before)
        }
    }

    /// Returns whether a use in memory shows that a session is alive, although its row shows it as lapsed.
    ///
    /// The session must have been used within its idle time, and its absolute end must be in the future.
    func isKeptAlive(_ row: SessionRow) -> Bool {
        guard let use = memory.uses[row.tokenDigest], lapseTime < row.expiresAt else { return false }
        return clock.monotonic() - use.moment < use.lifetimes.idle
    }

    /// Returns a time that is before the idle end in the row of a living session.
    ///
    /// The store compares the row with this time to decide whether it allows work for the session.
    func aliveTime(_ row: SessionRow) -> WallTime {
        memory.uses[row.tokenDigest].map { min($0.aliveAt, lapseTime) } ?? lapseTime
    }

    /// Writes the session uses in memory to the store.
    ///
    /// The wall-clock time of each use is computed from the moment of the use on the monotonic clock.
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
