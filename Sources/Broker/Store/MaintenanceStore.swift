/// Keeps what the broker does for itself: outbox, logout-token ids, leases, audit, sweeping.
package protocol MaintenanceStore: Sendable {
    /// Adds work to the outbox.
    func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure)

    /// Takes due work: moves `nextAttemptAt` to `until` and counts the attempt, so that no other worker takes it meanwhile.
    /// What is put off for longer than work is ever put off was put off by a clock that was wrong, and is due.
    func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow]

    /// Puts off taken work in one transaction; with `counting` false the attempts are taken back, because the work was only
    /// looked at.
    func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure)

    /// Removes finished work, in one transaction.
    func removeOutbox(_ ids: [Digest]) async throws(StoreFailure)

    /// The amount of work that waits.
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

extension MaintenanceStore {
    /// Puts off one piece of work.
    package func postponeOutbox(_ id: Digest, until: WallTime, counting: Bool) async throws(StoreFailure) {
        try await postponeOutbox([PostponedWork(id: id, until: until)], counting: counting)
    }

    /// Removes one piece of finished work.
    package func removeOutbox(_ id: Digest) async throws(StoreFailure) { try await removeOutbox([id]) }
}

/// A whole store: one port, several engines, one conformance suite.
package typealias BrokerStore = LoginStore & HandoffStore & ExchangeStore & SessionStore & RegistrationStore
    & MaintenanceStore

/// Work to do at a provider that outlives the request and the process: revoking tokens.
package struct OutboxRow: Sendable, Equatable {
    /// 16 random bytes and up: the key.
    package var id: Digest
    /// The row the sealed tokens are bound to (a session's token digest, or an exchange's key).
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

/// A piece of work in the outbox that waits until a time.
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
    /// The number of rows touched.
    package var touched: Int
    /// The sessions that have lapsed since the last sweep, to be made known.
    package var ended: [EndedSession]

    package init(touched: Int = 0, ended: [EndedSession] = []) {
        self.touched = touched
        self.ended = ended
    }
}

/// The result of a logout token.
package enum LogoutTokenResult: Sendable, Equatable {
    /// The sessions that it names have ended; its id is remembered with the last batch.
    case ended(EndedBatch)
    /// Its id was known: nothing was done.
    case replayed
}

/// An append-only record of an administrative action, written before success is reported (SEC-99).
package struct AuditRow: Sendable, Equatable {
    package var at: WallTime
    /// The admin token's configured name; `session` where it is the session's own doing.
    package var actor: String
    /// From a fixed set: `list_sessions`, `end_session`, `end_sessions`, `backup`, `reseal_keys`,
    /// `session.presence_key_changed`.
    package var action: String
    /// A handle, or a keyed pseudonym, of what it was done to.
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
