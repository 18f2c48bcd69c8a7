package import Broker
import Synchronization

extension PostgreSQLStore {
    package func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        guard try await hasRoom(limits.pending, at: row.createdAt) else { return .tooManyPending }
        let turn = row.loginTokenDigest.bytes.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let isInserted = try await run(
            lanes.writes,
            [
                BoundStatement(PostgreSQLLoginSQL.turn, [.integer(turn)]),
                BoundStatement(PostgreSQLLoginSQL.insert, row.parameters + [.integer(limits.pendingPerToken)]),
            ], isWrite: true
        ) { $0.count == 1 }
        guard isInserted else { return .tooManyForToken }
        if row.status == .pending { pendingLogins.added(expiresAt: row.expiresAt) }
        return .inserted
    }

    private func hasRoom(_ limit: Int, at now: WallTime) async throws(StoreFailure) -> Bool {
        if let known = pendingLogins.hasRoom(limit, at: now) { return known }
        let (count, nextExpiry) = try await scan(
            PostgreSQLLoginSQL.countPending, [.time(now), .integer(limit + Self.countedBeyond)]
        ) { rows -> (Int, WallTime?) in
            try rows.first { (try $0.small(), $0.optionalTime()) } ?? (0, nil)
        }
        pendingLogins.counted(count, nextExpiry: nextExpiry, at: now)
        return count < limit
    }

    /// The number of logins above the cap at which counting stops.
    private static let countedBeyond = 1_000

    package func login(state: Digest) async throws(StoreFailure) -> LoginRow? {
        try await read(PostgreSQLLoginSQL.byState, [.digest(state)]) { rows in try rows.first { try LoginRow(&$0) } }
    }

    package func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try await read(
            PostgreSQLLoginSQL.pending,
            [.digest(loginTokenDigest), .time(now), .integer(RetentionPeriods.pendingLogins)]
        ) { rows in rows.map { try? LoginRow(&$0) }.compactMap { $0 } }
    }

    package func burnLogin(state: Digest) async throws(StoreFailure) -> Bool {
        let expiresAt = try await write(PostgreSQLLoginSQL.burn, [.digest(state)]) { rows -> WallTime? in
            try rows.first { row -> WallTime? in
                try row.requireFormat()
                return row.optionalTime()
            } ?? nil
        }
        guard let expiresAt else { return false }
        pendingLogins.removed(expiresAt: expiresAt)
        return true
    }

    package func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        if try await write(PostgreSQLLoginSQL.keepHandoff, row.parameters, { $0.count == 1 }) { return true }
        return try await handoff(login: row.login)?.key == row.key
    }

    package func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await read(PostgreSQLLoginSQL.handoffByKey, [.digest(key)]) { rows in
            try rows.first { try HandoffRow(&$0) }
        }
    }

    package func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await read(PostgreSQLLoginSQL.handoffByLogin, [.digest(login)]) { rows in
            try rows.first { try HandoffRow(&$0) }
        }
    }

    package func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow? {
        try await read(PostgreSQLLoginSQL.registration, [.digest(key)]) { rows in
            try rows.first { try RegistrationRow(&$0) }
        }
    }

    package func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure) {
        try await write(PostgreSQLLoginSQL.insertRegistration, row.parameters)
    }
}

/// The estimated number of all pending logins, for the cap on this number (SEC-119).
///
/// The number is read from the database at most every two seconds, and updated with this process's own changes (decision 22).
/// So replicas together may exceed the cap by the logins that they begin within two seconds.
final class PendingLoginEstimate: Sendable {
    private struct State {
        var count: Int?
        /// The time when the count was read, by the process's clock.
        var readAt = Duration.zero
        /// The time that the count is valid for.
        ///
        /// The count excludes logins that had expired by this time.
        var countedAt = WallTime(milliseconds: .min)
        /// The earliest expiry among the counted logins.
        var nextExpiry = WallTime(milliseconds: .max)
    }

    private static let lifetime = Duration.seconds(2)
    /// The shortest time between two counts while the cap is reached.
    private static let interval = Duration.milliseconds(250)

    private let monotonic: @Sendable () -> Duration
    /// Guards the count.
    private let state = Mutex(State())

    init(monotonic: @escaping @Sendable () -> Duration) { self.monotonic = monotonic }

    /// Returns whether one more login is within the cap, or nil if the logins have to be counted first.
    func hasRoom(_ limit: Int, at now: WallTime) -> Bool? {
        let moment = monotonic()
        return state.withLock { state in
            guard let count = state.count, moment - state.readAt < Self.lifetime else { return nil }
            if count < limit { return true }
            let isEarly = state.countedAt <= now && now < state.countedAt.advanced(by: Self.interval)
            return now < state.nextExpiry || isEarly ? false : nil
        }
    }

    /// Stores a count that was made at `now`.
    func counted(_ count: Int, nextExpiry: WallTime?, at now: WallTime) {
        let moment = monotonic()
        state.withLock { state in
            state = State(
                count: count, readAt: moment, countedAt: now,
                nextExpiry: nextExpiry ?? WallTime(milliseconds: .max))
        }
    }

    func added(expiresAt: WallTime) {
        state.withLock { state in
            state.count = state.count.map { $0 + 1 }
            state.nextExpiry = min(state.nextExpiry, expiresAt)
        }
    }

    /// Subtracts a login that was taken or burned, unless it had expired before the count.
    func removed(expiresAt: WallTime) {
        state.withLock { state in
            guard state.countedAt < expiresAt else { return }
            state.count = state.count.map { max($0 - 1, 0) }
        }
    }

    /// Forgets the count, so that it is read again before the next login.
    func invalidate() { state.withLock { $0.count = nil } }
}

/// The statements for logins, handoffs and registrations in PostgreSQL.
///
/// Keep the column lists and the decoders in `RowDecoders` in step.
enum PostgreSQLLoginSQL {
    static let columns =
        "format, state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed"

    /// Locks a login token, so that logins with this token are stored one after the other.
    ///
    /// Each of them then counts all logins before it.
    static let turn = Statement("login_turn", "i", "SELECT pg_advisory_xact_lock($1)")
    static let insert = Statement(
        "insert_login", "bbtiiibtbi",
        """
        INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, exchange, sealed_key, sealed)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
        WHERE (SELECT count(*) FROM logins WHERE login_token = $2 AND status = 0 AND expires_at > $4) < $10
        RETURNING state
        """)
    static let byState = Statement("login", "b", "SELECT \(columns) FROM logins WHERE state = $1")
    static let pending = Statement(
        "pending_logins", "bii",
        """
        SELECT \(columns) FROM logins WHERE login_token = $1 AND status = 0 AND expires_at > $2
        ORDER BY created_at DESC LIMIT $3
        """)
    static let countPending = Statement(
        "count_pending_logins", "ii",
        """
        SELECT count(*), min(expires_at)
        FROM (SELECT expires_at FROM logins WHERE status = 0 AND expires_at > $1 ORDER BY expires_at LIMIT $2) p
        """)
    static let burn = Statement(
        "burn_login", "b",
        """
        WITH burned AS (
            UPDATE logins SET status = 2 WHERE state = $1 AND status = 0 AND format = 1 RETURNING expires_at)
        SELECT coalesce((SELECT format FROM logins WHERE state = $1), 1), (SELECT expires_at FROM burned)
        """)

    static let handoffColumns = "format, login, key, created_at, expires_at, kept_until, sealed_key, sealed"
    static let keepHandoff = Statement(
        "keep_handoff", "bbiiitb",
        """
        INSERT INTO handoffs (login, key, created_at, expires_at, kept_until, sealed_key, sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (login) DO UPDATE SET key = excluded.key, created_at = excluded.created_at,
            expires_at = excluded.expires_at, kept_until = greatest(handoffs.kept_until, excluded.kept_until),
            sealed_key = excluded.sealed_key, sealed = excluded.sealed
        WHERE handoffs.expires_at <= excluded.created_at AND handoffs.format = 1
        RETURNING key
        """)
    static let handoffByKey = Statement("handoff", "b", "SELECT \(handoffColumns) FROM handoffs WHERE key = $1")
    static let handoffByLogin = Statement(
        "handoff_by_login", "b", "SELECT \(handoffColumns) FROM handoffs WHERE login = $1")

    static let registrationColumns =
        "format, key, login_token, created_at, expires_at, status, exchange, attempts, sealed_key, sealed"
    static let insertRegistration = Statement(
        "insert_registration", "bbiiiitb",
        """
        INSERT INTO registrations (key, login_token, created_at, expires_at, status, attempts, sealed_key, sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (key) DO NOTHING
        """)
    static let registration = Statement(
        "registration", "b", "SELECT \(registrationColumns) FROM registrations WHERE key = $1")
}

extension LoginRow {
    /// The values of `PostgreSQLLoginSQL.insert`, except its limit.
    var parameters: [Parameter] {
        [
            .digest(state), .digest(loginTokenDigest), .text(loginID), .time(createdAt), .time(expiresAt),
            .integer(status.rawValue), .digest(exchange), .text(sealed.keyID), .bytes(sealed.envelope),
        ]
    }
}

extension HandoffRow {
    /// The values of `PostgreSQLLoginSQL.keepHandoff`.
    var parameters: [Parameter] {
        [
            .digest(login), .digest(key), .time(createdAt), .time(expiresAt), .time(keptUntil), .text(sealed.keyID),
            .bytes(sealed.envelope),
        ]
    }
}

extension RegistrationRow {
    /// The values of `PostgreSQLLoginSQL.insertRegistration`.
    ///
    /// A new registration belongs to no exchange yet.
    var parameters: [Parameter] {
        [
            .digest(key), .digest(loginTokenDigest), .time(createdAt), .time(expiresAt), .integer(status.rawValue),
            .integer(attempts), .text(sealed.keyID), .bytes(sealed.envelope),
        ]
    }
}
