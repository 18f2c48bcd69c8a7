/// Stores the outbox, the ids of logout tokens, leases, key counts and the audit log, and removes expired rows.
package protocol MaintenanceStore: Sendable {
    /// Adds rows to the outbox.
    func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure)

    /// Takes due outbox rows: moves their `nextAttemptAt` to `until` and counts the attempt, so that other workers leave the
    /// rows alone meanwhile.
    ///
    /// If a row's due time is further away than the longest postponement, a wrong clock has set this time. The row then
    /// counts as due.
    func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow]

    /// Postpones outbox rows that this process has taken, in one transaction.
    ///
    /// With `counting` false, the attempt is subtracted again, because no provider was called.
    func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure)

    /// Removes finished outbox rows, in one transaction.
    func removeOutbox(_ ids: [Digest]) async throws(StoreFailure)

    /// Returns the number of rows in the outbox.
    func outboxCount() async throws(StoreFailure) -> Int

    /// Records a logout token as used, and ends the sessions that it names, at most `limit` in one call.
    ///
    /// The transaction of the last batch stores the token's id until `until`. Therefore, if the work is interrupted before,
    /// the provider can send the token again and it takes effect (SEC-67).
    func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult

    /// Acquires or renews a lease; false while another owner's lease is valid.
    ///
    /// A lease that ends later than `until` was acquired by a process whose clock was ahead, so it does not count as valid.
    func acquireLease(_ name: String, owner: String, now: WallTime, until: WallTime) async throws(StoreFailure) -> Bool

    /// Releases a lease for the next owner; another owner's lease stays unchanged.
    ///
    /// The lease's end stays in the store, as a sign that a process used the store until a moment ago.
    func releaseLease(_ name: String, owner: String) async throws(StoreFailure)

    /// Returns the end of a lease; nil if there is no such lease.
    func lease(_ name: String) async throws(StoreFailure) -> WallTime?

    /// Adds each count to the stored number of values that the key with this id has sealed. Returns the new totals of these
    /// keys.
    func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int]

    /// Appends an audit record.
    func appendAudit(_ row: AuditRow) async throws(StoreFailure)

    /// Removes at most `limit` rows of each kind after their keeping time, and makes tombstones of lapsed sessions.
    ///
    /// - Logins and registrations: a day after they expired.
    /// - Exchanges: a day after they were made.
    /// - Handoffs: at their `keptUntil`.
    /// - Tombstones: 30 days after the session's end.
    /// - Logout-token ids: at their `until`.
    ///
    /// Sessions that lapsed a day ago become tombstones (with `SessionEnds.reason`), and their tokens go to the outbox. Until
    /// then, a wrong clock can be corrected. Returns the number of touched rows, and the sessions that lapsed after
    /// `lapsedSince`.
    ///
    /// Pass nil for `lapsedSince` while the clock is in doubt. Sessions, tombstones, exchanges and logout-token ids are then
    /// kept. Dropping the last two would let a code or a logout token be used twice.
    func sweep(now: WallTime, limit: Int, lapsedSince: WallTime?) async throws(StoreFailure) -> SweepResult

    /// Checks that the store answers and its schema is migrated.
    func ping() async throws(StoreFailure)

    /// Finishes the pending writes and closes the store; it then refuses further operations.
    func close() async
}

extension MaintenanceStore {
    /// Postpones one outbox row.
    package func postponeOutbox(_ id: Digest, until: WallTime, counting: Bool) async throws(StoreFailure) {
        try await postponeOutbox([PostponedWork(id: id, until: until)], counting: counting)
    }

    /// Removes one finished outbox row.
    package func removeOutbox(_ id: Digest) async throws(StoreFailure) { try await removeOutbox([id]) }
}
