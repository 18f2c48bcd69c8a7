/// Keeps what the broker does for itself: outbox, logout-token ids, leases, audit, sweeping.
package protocol MaintenanceStore: Sendable {
    /// Adds work to the outbox.
    func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure)

    /// Takes due work: moves `nextAttemptAt` to `until` and counts the attempt, so that no other worker takes it meanwhile.
    func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow]

    /// Removes finished work.
    func removeOutbox(_ id: Digest) async throws(StoreFailure)

    /// How much work waits.
    func outboxCount() async throws(StoreFailure) -> Int

    /// Remembers a logout token's id until then; false when it was known (SEC-67).
    func rememberLogoutToken(_ id: Digest, until: WallTime, now: WallTime) async throws(StoreFailure) -> Bool

    /// Takes or renews a lease; false while another owner's stands.
    func acquireLease(_ name: String, owner: String, now: WallTime, until: WallTime) async throws(StoreFailure) -> Bool

    /// Appends an audit record.
    func appendAudit(_ row: AuditRow) async throws(StoreFailure)

    /// Removes at most `limit` rows of each kind that are past their keeping time: logins and registrations a day after
    /// they expired, exchanges a day after they were made, handoffs when they say so, tombstones 30 days after they ended, logout-token ids when
    /// due. Lapsed live sessions become tombstones (`idle_expired`, `expired`), their tokens go to the outbox.
    /// Returns how many rows it touched.
    func sweep(now: WallTime, limit: Int) async throws(StoreFailure) -> Int

    /// Asks whether the store answers and is migrated.
    func ping() async throws(StoreFailure)

    /// Stops taking work and closes; pending writes finish first.
    func close() async
}

/// A whole store: one port, several engines, one conformance suite (DESIGN section 6).
package typealias BrokerStore = LoginStore & HandoffStore & ExchangeStore & SessionStore & RegistrationStore
    & MaintenanceStore
