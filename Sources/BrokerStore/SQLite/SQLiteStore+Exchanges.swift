package import Broker
import GRDB

extension SQLiteStore {
    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int, sparing spared: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        let pending = pendingLogins
        let claimClock = claimClock
        return try await writer.write { database in
            let clock = claimClock()
            let gates = Gates(database: database, pending: pending)
            // The insertion decides which caller owns the exchange. If the gate is closed, the new row is withdrawn in the
            // same transaction.
            if try database.change(ExchangeSQL.insert, row.values(clock)) == 1 {
                if try gates.take(row.gate, for: row.key, now: row.createdAt) { return .claimed(row) }
                try database.change(ExchangeSQL.withdraw, [row.key.sql, row.fence.databaseValue])
                return .gateClosed
            }
            guard
                let standing = try database.first(ExchangeSQL.byKey, [row.key.sql], { try ExchangeRow(&$0, clock) })
            else { throw StoreFailure.unavailable("an exchange vanished") }
            // The caller repeats its own claim because the response was lost.
            if standing.outcome == .calling, standing.claim == row.claim { return .claimed(standing) }
            if let spent = try database.first(
                ExchangeSQL.lapse,
                [
                    row.key.sql, Optional(clock.moment).sql, clock.epoch.databaseValue,
                    spared.lapsedFor.map { clock.moment - $0.upperBound }.sql,
                    spared.lapsedFor.map { clock.moment - $0.lowerBound }.sql,
                ],
                { try ExchangeRow(&$0, clock) })
            {
                try gates.close(spent.gate)
                return .existing(spent)
            }
            guard standing.outcome == .released, standing.hasProof(of: row), standing.attempts < maximumAttempts else {
                return .existing(standing)
            }
            guard try gates.take(row.gate, for: row.key, now: row.createdAt) else { return .gateClosed }
            let values =
                [Optional(clock.moment + row.claimFor).sql] + row.gate.values
                + [
                    row.claim.bytes.sql, clock.epoch.databaseValue, row.key.sql, standing.fence.databaseValue,
                    maximumAttempts.databaseValue,
                ]
            guard let claimed = try database.first(ExchangeSQL.claimAgain, values, { try ExchangeRow(&$0, clock) })
            else {
                throw StoreFailure.unavailable("an exchange changed")
            }
            return .claimed(claimed)
        }
    }

    package func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow? {
        let claimClock = claimClock
        return try await readers.read { database in
            let clock = claimClock()
            return try database.first(ExchangeSQL.byKey, [key.sql]) { try ExchangeRow(&$0, clock) }
        }
    }

    package func renewExchange(
        _ key: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        let (epoch, monotonic) = (epoch, monotonic)
        return try await writer.write { database in
            try database.change(
                ExchangeSQL.renew,
                [Optional(monotonic() + lifetime).sql, key.sql, fence.databaseValue, epoch.databaseValue]) == 1
        }
    }

    package func releaseExchange(
        _ key: Digest, fence: Int64, countingAttempt: Bool
    ) async throws(StoreFailure) -> Bool {
        let pending = pendingLogins
        return try await writer.write { database in
            let values = [(countingAttempt ? 0 : 1).databaseValue, key.sql, fence.databaseValue]
            guard let gate = try database.first(ExchangeSQL.release, values, { try ExchangeGate(&$0) }) else {
                return false
            }
            try Gates(database: database, pending: pending).giveBack(gate, of: key)
            return true
        }
    }

    package func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        let pending = pendingLogins
        return try await writer.write { database in
            for row in outbox { try database.change(MaintenanceSQL.addOutbox, row.values) }
            let values = outcome.values + [key.sql, fence.databaseValue]
            guard let gate = try database.first(ExchangeSQL.settle, values, { try ExchangeGate(&$0) }) else {
                return false
            }
            var reopened = false
            if outcome == .spent(.registrationRejected), case .registration(let registration) = gate {
                reopened = try database.change(RegistrationSQL.resubmit, [registration.sql]) == 1
            }
            if !reopened { try Gates(database: database, pending: pending).close(gate) }
            if let registration { try database.change(RegistrationSQL.insert, registration.values) }
            return true
        }
    }

    package func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        let pending = pendingLogins
        let (replaced, beyond) = (noting(.replaced, session.createdAt), noting(.sessionLimit, session.createdAt))
        // The 201 promises the new session only. So the response is sent before the endings of the older sessions are in the
        // endings file.
        let note: @Sendable (EndedSessions?) -> Void = { ended in
            replaced(ended?.replaced ?? [])
            beyond(ended?.beyondLimit ?? [])
        }
        return try await writer.write(committed: note) { database in
            let values = ExchangeRow.Outcome.session(session.tokenDigest).values + [key.sql, fence.databaseValue]
            guard let gate = try database.first(ExchangeSQL.settle, values, { try ExchangeGate(&$0) }) else {
                return nil
            }
            if case .registration = gate { try Gates(database: database, pending: pending).close(gate) }
            let now = session.createdAt
            var ended = EndedSessions()
            if let replacing {
                ended.replaced = try database.endSessions(.token(replacing), .replaced, now, limit: 1).ended
            }
            let excess = try database.rows(
                SessionSQL.beyondLimit,
                [session.subjectAndClient.sql, now.sql, max(sessionLimit - 1, 0).databaseValue],
                NamedSession.init)
            for name in excess where try database.end(name, .sessionLimit, now) {
                if let tokenDigest = name.tokenDigest { ended.beyondLimit.append(tokenDigest) }
            }
            try database.change(SessionSQL.insert, session.values)
            return ended
        }
    }

    package func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        let isEnding = endings.ending(commit.tokenDigest) != nil
        return try await writer.write { database in
            let key = [commit.exchange.sql, commit.exchangeFence.databaseValue]
            guard try database.first(ExchangeSQL.owned, key, { _ in true }) == true else { return .takenAway }
            guard !isEnding,
                let versions = try database.first(
                    SessionSQL.steppingUp, [commit.tokenDigest.sql], { try $0.versionsOfUnended() }),
                let versions
            else { return .ended }
            guard versions == (commit.tokenVersion, commit.version) else { return .moved }
            try database.change(ExchangeSQL.settle, ExchangeRow.Outcome.session(commit.tokenDigest).values + key)
            try database.change(SessionSQL.stepUp, commit.values)
            try database.change(TargetTokenSQL.drop, [commit.tokenDigest.sql])
            for row in commit.outbox { try database.change(MaintenanceSQL.addOutbox, row.values) }
            return .committed
        }
    }
}

extension Columns {
    /// Reads `SessionSQL.steppingUp`: the token version and the version of the session; nil if the session has ended.
    fileprivate mutating func versionsOfUnended() throws -> (tokens: Int64, session: Int64)? {
        try requireFormat()
        let endedAt = optionalTime()
        let versions = (try integer(), try integer())
        return endedAt == nil ? versions : nil
    }
}

extension StepUpCommit {
    /// The values of `SessionSQL.stepUp`.
    fileprivate var values: [DatabaseValue] {
        [
            tokenDigest.sql, tokenVersion.databaseValue, (isNewGrant ? 1 : 0).databaseValue,
            tokens?.keyID.databaseValue ?? .null, tokens?.envelope.sql ?? .null, facts.keyID.databaseValue,
            facts.envelope.sql, sid.sql, tokenExpiresAt.sql, refreshable.databaseValue, now.sql, idleExpiresAt.sql,
        ]
    }
}

/// Takes, releases and closes the gate of an exchange, inside the exchange's transaction.
private struct Gates {
    let database: Database
    let pending: PendingLoginCount

    func take(_ gate: ExchangeGate, for key: Digest, now: WallTime) throws -> Bool {
        switch gate {
        case .none: return true
        case .login(let state):
            let expiresAt = try database.first(LoginSQL.take, [key.sql, state.sql, now.sql]) { try $0.time() }
            guard let expiresAt else { return false }
            pending.removed(expiresAt: expiresAt)
            try database.change(HandoffSQL.keepLonger, [now.advanced(by: RetentionPeriods.spent).sql, state.sql])
            return true
        case .registration(let registration):
            return try database.change(RegistrationSQL.take, [key.sql, registration.sql, now.sql]) == 1
        }
    }

    func giveBack(_ gate: ExchangeGate, of key: Digest) throws {
        switch gate {
        case .none: break
        case .login(let state):
            let expiresAt = try database.first(LoginSQL.giveBack, [state.sql, key.sql]) { try $0.time() }
            if let expiresAt { pending.added(expiresAt: expiresAt) }
        case .registration(let key): try database.change(RegistrationSQL.giveBack, [key.sql])
        }
    }

    func close(_ gate: ExchangeGate) throws {
        switch gate {
        case .none: break
        case .login(let state): try database.change(LoginSQL.close, [state.sql])
        case .registration(let key): try database.change(RegistrationSQL.close, [key.sql])
        }
    }
}

/// The statements for exchanges.
///
/// Keep the column list and the decoder in `RowDecoders` in step.
enum ExchangeSQL {
    static let columns = """
        format, key, proof, salt, key_id, fence, attempts, created_at, outcome, outcome_digest, spent_reason, gate_kind, \
        gate, claim, claim_until, claim_epoch
        """
    static let insert = """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim_until, attempts, created_at, outcome,
            outcome_digest, spent_reason, gate_kind, gate, claim, claim_epoch)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, NULL, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING
        """
    static let owned = "SELECT 1 FROM exchanges WHERE key = ? AND fence = ? AND outcome = 0 AND format = 1"
    static let byKey = "SELECT \(columns) FROM exchanges WHERE key = ?"
    static let withdraw = "DELETE FROM exchanges WHERE key = ? AND fence = ? AND outcome = 0 AND format = 1"
    /// Marks an exchange whose owner is dead as spent, with the reason "unknown" (4).
    ///
    /// Claims of this process that lapsed between the moments `?4` and `?5` are spared. A claim of another process has
    /// lapsed, because its owner is gone.
    static let lapse = """
        UPDATE exchanges SET outcome = 4, spent_reason = 4
        WHERE key = ?1 AND outcome = 0 AND format = 1
            AND (claim_epoch IS NOT ?3 OR (claim_until <= ?2 AND coalesce(claim_until NOT BETWEEN ?4 AND ?5, true)))
        RETURNING \(columns)
        """
    static let claimAgain = """
        UPDATE exchanges SET outcome = 0, fence = fence + 1, attempts = attempts + 1, claim_until = ?, gate_kind = ?,
            gate = ?, claim = ?, claim_epoch = ?
        WHERE key = ? AND outcome = 1 AND fence = ? AND attempts < ? AND format = 1 RETURNING \(columns)
        """
    static let renew = """
        UPDATE exchanges SET claim_until = ? WHERE key = ? AND fence = ? AND claim_epoch = ? AND outcome = 0 AND format = 1
        """
    static let release = """
        UPDATE exchanges SET outcome = 1, attempts = max(attempts - ?, 0)
        WHERE key = ? AND fence = ? AND outcome = 0 AND format = 1 RETURNING gate_kind, gate
        """
    static let settle = """
        UPDATE exchanges SET outcome = ?, outcome_digest = ?, spent_reason = ?
        WHERE key = ? AND fence = ? AND outcome = 0 AND format = 1 RETURNING gate_kind, gate
        """
    static let sweep = """
        DELETE FROM exchanges WHERE key IN (SELECT key FROM exchanges WHERE created_at <= ? AND format = 1 LIMIT ?)
        """
}

extension ExchangeRow {
    /// Reads the columns of `ExchangeSQL.columns`.
    init(_ columns: inout Columns, _ clock: ClaimClock) throws {
        try self.init(&columns) { columns in
            // A row from before claims had names lacks a name. The empty name differs from every caller's name.
            let name = try columns.optionalBytes().flatMap { ClaimID($0) } ?? ClaimID(random: [])
            let until = try columns.duration()
            // If another process made the claim, this process has ended and its monotonic times are useless. So treat the
            // claim as lapsed a day ago.
            return (name, columns.optionalInteger() == clock.epoch ? until - clock.moment : .seconds(-86_400))
        }
    }

    /// The values of `ExchangeSQL.insert`.
    func values(_ clock: ClaimClock) -> [DatabaseValue] {
        [
            key.sql, proof.sql, salt.sql, keyID.databaseValue, fence.databaseValue,
            Optional(clock.moment + claimFor).sql, attempts.databaseValue, createdAt.sql,
        ] + gate.values + [claim.bytes.sql, clock.epoch.databaseValue]
    }
}

extension ExchangeRow.Outcome {
    /// The values of `outcome, outcome_digest, spent_reason`.
    var values: [DatabaseValue] {
        switch self {
        case .calling: [0.databaseValue, .null, .null]
        case .released: [1.databaseValue, .null, .null]
        case .session(let tokenDigest): [2.databaseValue, tokenDigest.sql, .null]
        case .registration(let key): [3.databaseValue, key.sql, .null]
        case .spent(let reason): [4.databaseValue, .null, reason.rawValue.databaseValue]
        }
    }
}

extension ExchangeGate {
    /// The values of `gate_kind, gate`.
    var values: [DatabaseValue] {
        switch self {
        case .none: [0.databaseValue, .null]
        case .login(let state): [1.databaseValue, state.sql]
        case .registration(let key): [2.databaseValue, key.sql]
        }
    }
}
