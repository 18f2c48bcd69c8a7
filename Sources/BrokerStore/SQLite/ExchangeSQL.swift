import Broker
import GRDB

/// The statements of exchanges.
///
/// The column list and the decoder below go together.
enum ExchangeSQL {
    static let columns = """
        format, key, proof, salt, key_id, fence, claim_until, attempts, created_at, outcome, outcome_digest, \
        spent_reason, gate_kind, gate, claim, claim_epoch
        """
    static let insert = """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim_until, attempts, created_at, outcome,
            outcome_digest, spent_reason, gate_kind, gate, claim, claim_epoch)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, NULL, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING
        """
    static let byKey = "SELECT \(columns) FROM exchanges WHERE key = ?"
    static let withdraw = "DELETE FROM exchanges WHERE key = ? AND fence = ? AND outcome = 0 AND format = 1"
    /// Of an owner that died: spent, for unknown reason (4).
    static let lapse = """
        UPDATE exchanges SET outcome = 4, spent_reason = 4
        WHERE key = ?1 AND outcome = 0 AND (claim_until <= ?2 OR claim_epoch IS NOT ?3) AND format = 1 RETURNING \(columns)
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
        try columns.requireFormat()
        let key = try columns.digest()
        let proof = try columns.optionalDigest()
        let salt = try columns.bytes()
        let keyID = try columns.text()
        let fence = try columns.integer()
        let claimUntil = try columns.integer()
        let attempts = try columns.small()
        let createdAt = try columns.time()
        let outcome = try Outcome(&columns)
        let gate = try ExchangeGate(&columns)
        // A claim of before claims had names is nobody's now.
        let claim = try columns.optionalBytes().flatMap { ClaimID($0) } ?? ClaimID(random: [])
        let isOurs = columns.optionalInteger() == clock.epoch
        self.init(
            key: key, proof: proof, salt: salt, keyID: keyID, fence: fence, claim: claim,
            claimFor: isOurs ? .milliseconds(claimUntil) - clock.moment : .zero, attempts: attempts,
            createdAt: createdAt, outcome: outcome, gate: gate)
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
    /// Reads `outcome, outcome_digest, spent_reason`.
    init(_ columns: inout Columns) throws {
        let kind = try columns.integer()
        let digest = try columns.optionalDigest()
        let reason = columns.optionalInteger().flatMap { Int(exactly: $0) }
        switch (kind, digest, reason) {
        case (0, _, _): self = .calling
        case (1, _, _): self = .released
        case (2, let digest?, _): self = .session(digest)
        case (3, let digest?, _): self = .registration(digest)
        case (4, _, let reason?):
            guard let reason = ExchangeRow.SpentReason(rawValue: reason) else { throw StoreFailure.newerFormat }
            self = .spent(reason)
        default: throw StoreFailure.newerFormat
        }
    }

    /// The values of `outcome, outcome_digest, spent_reason`.
    var values: [DatabaseValue] {
        switch self {
        case .calling: [0.databaseValue, .null, .null]
        case .released: [1.databaseValue, .null, .null]
        case .session(let token): [2.databaseValue, token.sql, .null]
        case .registration(let key): [3.databaseValue, key.sql, .null]
        case .spent(let reason): [4.databaseValue, .null, reason.rawValue.databaseValue]
        }
    }
}

extension ExchangeGate {
    /// Reads `gate_kind, gate`.
    init(_ columns: inout Columns) throws {
        switch (try columns.integer(), try columns.optionalDigest()) {
        case (0, _): self = .none
        case (1, let state?): self = .login(state)
        case (2, let key?): self = .registration(key)
        default: throw StoreFailure.newerFormat
        }
    }

    /// The values of `gate_kind, gate`.
    var values: [DatabaseValue] {
        switch self {
        case .none: [0.databaseValue, .null]
        case .login(let state): [1.databaseValue, state.sql]
        case .registration(let key): [2.databaseValue, key.sql]
        }
    }
}
