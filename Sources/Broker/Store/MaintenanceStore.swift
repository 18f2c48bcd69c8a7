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

    /// Returns the end of a lease.
    func lease(_ name: String) async throws(StoreFailure) -> WallTime?

    /// Adds to the number of values that each key has sealed, by key id, and returns the totals of those keys.
    func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int]

    /// Appends an audit record.
    func appendAudit(_ row: AuditRow) async throws(StoreFailure)

    /// Removes at most `limit` rows of each kind after their keeping time, and makes tombstones of lapsed sessions.
    ///
    /// - Logins and registrations: a day after they expired.
    /// - Exchanges: a day after they were made.
    /// - Handoffs: at their `keptUntil`.
    /// - Tombstones: 30 days after the session's end.
    /// - Logout-token ids: when due.
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

/// A complete store; each engine implements it, and one suite of tests checks them all.
package typealias BrokerStore = LoginStore & HandoffStore & ExchangeStore & SessionStore & RegistrationStore
    & MaintenanceStore

/// Work at a provider that outlives the request and the process, for example revoking tokens.
package struct OutboxRow: Sendable, Equatable {
    /// The row's key, from at least 16 random bytes.
    package var id: Digest
    /// The row that the sealed tokens are bound to (a session's token digest, or an exchange's key).
    package var boundTo: Digest
    /// `StoredTokens`, sealed as `.tokens` for `boundTo`.
    package var tokens: Sealed
    package var createdAt: WallTime
    package var nextAttemptAt: WallTime
    package var attempts: Int

    package init(
        id: Digest, boundTo: Digest, tokens: Sealed, createdAt: WallTime, nextAttemptAt: WallTime, attempts: Int = 0
    ) {
        self.id = id
        self.boundTo = boundTo
        self.tokens = tokens
        self.createdAt = createdAt
        self.nextAttemptAt = nextAttemptAt
        self.attempts = attempts
    }
}

/// An outbox row that is postponed until a time.
package struct PostponedWork: Sendable, Equatable {
    package let id: Digest
    package let until: WallTime

    package init(id: Digest, until: WallTime) {
        self.id = id
        self.until = until
    }
}

/// The result of one sweep.
package struct SweepResult: Sendable, Equatable {
    /// The number of rows that the sweep removed or changed.
    package var touched: Int
    /// The sessions that have lapsed since `lapsedSince`, so that the caller announces them.
    package var ended: [EndedSession]

    package init(touched: Int = 0, ended: [EndedSession] = []) {
        self.touched = touched
        self.ended = ended
    }
}

/// The result of using a logout token.
package enum LogoutTokenResult: Sendable, Equatable {
    /// The sessions that the token names have ended; the token's id is stored with the last batch.
    case ended(EndedBatch)
    /// The token's id was already stored, so no session was ended.
    case replayed
}

/// An append-only record of an administrative action, written before success is reported (SEC-99).
package struct AuditRow: Sendable, Equatable {
    package var at: WallTime
    /// The configured name of the admin token; `session` if the session itself acted.
    package var actor: String
    /// From a fixed set: `list_sessions`, `end_session`, `end_sessions`, `backup`, `reseal_keys`,
    /// `session.presence_key_changed`.
    package var action: String
    /// The object of the action, as a handle or a keyed pseudonym.
    package var target: String
    package var outcome: String

    package init(at: WallTime, actor: String, action: String, target: String, outcome: String) {
        self.at = at
        self.actor = actor
        self.action = action
        self.target = target
        self.outcome = outcome
    }
}
