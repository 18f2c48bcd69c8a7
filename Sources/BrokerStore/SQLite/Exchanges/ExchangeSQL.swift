import Broker
import GRDB

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
    static let beyondLimit = """
        SELECT id, token FROM sessions
        WHERE subject_and_client = ?1 AND ended_at IS NULL AND idle_expires_at > ?2 AND expires_at > ?2
        ORDER BY created_at DESC, handle DESC LIMIT -1 OFFSET ?3
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
