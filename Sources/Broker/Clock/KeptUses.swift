import Synchronization

/// The uses of sessions during a doubt about the clock, by the boot clock: they are written when the doubt is over, before a
/// lapse of their sessions is believed.
///
/// A use that was answered is not forgotten because nobody knew what time it was (guarantee 3).
final class KeptUses: Sendable {
    /// The last use of a session.
    struct Use: Sendable {
        var moment: Duration
        let createdAt: WallTime
        let lifetimes: SessionLifetimes
        /// The session had not lapsed at this time, which is from before the doubt.
        let aliveAt: WallTime
        /// The moment at which the store took it; it stays for a while, because a row that was read before may be on its way.
        var writtenAt: Duration?
    }

    /// One of each session that the cache may hold.
    static let maximum = 100_000
    /// The time for which a use stays that was written: longer than a read takes.
    private static let afterglow = Duration.seconds(30)

    /// Guards the uses, by the token's digest.
    private let uses = Mutex<[Digest: Use]>([:])
    private let maximum: Int

    init(maximum: Int = maximum) { self.maximum = maximum }

    var isEmpty: Bool { uses.withLock(\.isEmpty) }
    var count: Int { uses.withLock(\.count) }

    /// Keeps a use; `aliveAt` is asked where the session has none yet, and nil leaves the session out.
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

    /// Returns a session's last use that is kept.
    subscript(_ tokenDigest: Digest) -> Use? { uses.withLock { $0[tokenDigest] } }

    /// Returns the uses that the store lacks, at most `limit`, and forgets those that it has had for a while.
    fileprivate func unwritten(at moment: Duration, limit: Int) -> [(Digest, Use)] {
        uses.withLock { uses in
            uses = uses.filter { _, use in use.writtenAt.map { moment - $0 < Self.afterglow } ?? true }
            return Array(uses.lazy.filter { $0.value.writtenAt == nil }.prefix(limit).map { ($0.key, $0.value) })
        }
    }

    /// Notes that the store has a use; one that came since is still to be written.
    fileprivate func wrote(_ tokenDigest: Digest, _ written: Use, at moment: Duration) {
        uses.withLock { uses in
            guard var use = uses[tokenDigest], use.moment == written.moment else { return }
            use.writtenAt = moment
            uses[tokenDigest] = use
        }
    }
}

extension BrokerContext {
    /// Keeps a use of a living session while its lapse could not be believed.
    func keepUse(of session: LiveSession) {
        let (row, moment) = (session.row, clock.monotonic())
        memory.uses.keep(session.tokenDigest, at: moment) {
            let before = watch.trustedBefore(clock)
            // One that was over before the doubt began is not brought back by it.
            guard before < min(row.idleExpiresAt, row.expiresAt) else { return nil }
            return KeptUses.Use(
                moment: moment, createdAt: row.createdAt, lifetimes: session.facts.lifetimes, aliveAt: before)
        }
    }

    /// Returns whether a session that has lapsed by its row was used within its idle time, and its other end is not passed.
    func isKeptAlive(_ row: SessionRow) -> Bool {
        guard let use = memory.uses[row.tokenDigest], lapseTime < row.expiresAt else { return false }
        return clock.monotonic() - use.moment < use.lifetimes.idle
    }

    /// Returns a time at which a living session's row lives: by it the store judges what is done for the session.
    func aliveTime(_ row: SessionRow) -> WallTime {
        memory.uses[row.tokenDigest].map { min($0.aliveAt, lapseTime) } ?? lapseTime
    }

    /// Writes the uses that were kept, by the time as it can be told now.
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
