/// Keeps what the broker does for itself: outbox, logout-token ids, leases, audit, sweeping.
package protocol MaintenanceStore: Sendable {
    /// Adds work to the outbox.
    func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure)

    /// Takes due work: moves `nextAttemptAt` to `until` and counts the attempt, so that no other worker takes it meanwhile.
    /// What is put off for longer than work is ever put off was put off by a clock that was wrong, and is due.
    func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow]

    /// Puts off work that was taken until then; without `counting` its attempt is taken back, for work that was not begun.
    func postponeOutbox(_ id: Digest, until: WallTime, counting: Bool) async throws(StoreFailure)

    /// Removes finished work.
    func removeOutbox(_ id: Digest) async throws(StoreFailure)

    /// How much work waits.
    func outboxCount() async throws(StoreFailure) -> Int

    /// Uses a logout token: ends what it names, at most `limit` at a time, and remembers its id until then in the
    /// transaction of the last batch, so that one that was broken off takes effect when it comes again (SEC-67).
    func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult

    /// Takes or renews a lease; false while another owner's stands. One that ends later than the one asked for was taken
    /// by a clock that was ahead, and does not stand.
    func acquireLease(_ name: String, owner: String, now: WallTime, until: WallTime) async throws(StoreFailure) -> Bool

    /// Gives a lease up: whoever asks next gets it. Until when it was taken stays readable, which says that somebody was
    /// at work on the store until a moment ago. Another owner's is left alone.
    func releaseLease(_ name: String, owner: String) async throws(StoreFailure)

    /// Returns until when a lease was taken.
    func lease(_ name: String) async throws(StoreFailure) -> WallTime?

    /// Adds to how often keys have sealed, by key id, and returns the totals of those keys.
    func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int]

    /// Appends an audit record.
    func appendAudit(_ row: AuditRow) async throws(StoreFailure)

    /// Removes at most `limit` rows of each kind that are past their keeping time: logins and registrations a day after
    /// they expired, exchanges a day after they were made, handoffs when they say so, tombstones 30 days after they ended,
    /// logout-token ids when due. Sessions that lapsed a day ago become tombstones (by `SessionEnds.reason`), their
    /// tokens go to the outbox: until then a clock that was wrong can be set right. Returns how many rows it touched, and
    /// the sessions that lapsed after `lapsedSince`. Where that is nil, the clock is doubted: sessions, tombstones,
    /// exchanges and logout-token ids are left alone, for without the latter two a code is called or a token used twice.
    func sweep(now: WallTime, limit: Int, lapsedSince: WallTime?) async throws(StoreFailure) -> SweepResult

    /// Asks whether the store answers and is migrated.
    func ping() async throws(StoreFailure)

    /// Stops taking work and closes; pending writes finish first.
    func close() async
}

/// A whole store: one port, several engines, one conformance suite.
package typealias BrokerStore = LoginStore & HandoffStore & ExchangeStore & SessionStore & RegistrationStore
    & MaintenanceStore
