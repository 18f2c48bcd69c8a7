import Broker
import GRDB

/// The statements for exchanges.
///
/// Keep the column list and the decoder in `RowDecoders` in step.
enum ExchangeSQL {
    static let columns = """
        format, key, proof, salt, key_id, fence, attempts, created_at, outcome, outcome_digest, spent_reason, gate_kind, \
        gate, kept_until, pair_kept_at, refusals, first_refused_at, import_end, claim, claim_until, claim_epoch
        """
    static let insert = NamedSQL(
        """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim_until, attempts, created_at, outcome,
            outcome_digest, spent_reason, gate_kind, gate, claim, claim_epoch)
        VALUES (:key, :proof, :salt, :key_id, :fence, :claim_until, :attempts, :created_at, 0, NULL, NULL, :gate_kind,
            :gate, :claim, :claim_epoch) ON CONFLICT (key) DO NOTHING
        """)
    static let byKey = NamedSQL("SELECT \(columns) FROM exchanges WHERE key = :key")
    static let withdraw = NamedSQL(
        "DELETE FROM exchanges WHERE key = :key AND fence = :fence AND outcome = 0 AND format = 1")
    /// Marks an exchange whose owner is dead as spent, with the reason "unknown" (4).
    ///
    /// Claims of this process that lapsed between the moments `spared_from` and `spared_to` are spared. A claim of another process has
    /// lapsed, because its owner is gone.
    static let lapse = NamedSQL(
        """
        UPDATE exchanges SET outcome = 4, spent_reason = 4
        WHERE key = :key AND outcome = 0 AND format = 1
            AND (claim_epoch IS NOT :claim_epoch OR (claim_until <= :moment
                AND coalesce(claim_until NOT BETWEEN :spared_from AND :spared_to, true)))
        RETURNING \(columns)
        """)
    static let claimAgain = NamedSQL(
        """
        UPDATE exchanges SET outcome = 0, fence = fence + 1, attempts = attempts + 1, claim_until = :claim_until,
            gate_kind = :gate_kind, gate = :gate, claim = :claim, claim_epoch = :claim_epoch
        WHERE key = :key AND outcome = 1 AND fence = :fence AND attempts < :most_attempts AND format = 1 RETURNING \(columns)
        """)
    static let renew = NamedSQL(
        """
        UPDATE exchanges SET claim_until = :claim_until WHERE key = :key AND fence = :fence AND claim_epoch = :claim_epoch
            AND outcome = 0 AND format = 1
        """)
    static let release = NamedSQL(
        """
        UPDATE exchanges SET outcome = 1, attempts = max(attempts - :uncounted, 0)
        WHERE key = :key AND fence = :fence AND outcome = 0 AND format = 1 RETURNING gate_kind, gate
        """)
    /// Settles an exchange.
    ///
    /// An import's pair is dropped. A refused import (12) is kept for a day only, and a refused legacy token (16) for ten minutes.
    static let settle = NamedSQL(
        """
        UPDATE exchanges SET outcome = :outcome, outcome_digest = :outcome_digest, spent_reason = :spent_reason,
            import_end = :import_end, pair_kept_at = NULL,
            kept_until = CASE :import_end WHEN 12 THEN created_at + 86400000 WHEN 16 THEN created_at + 600000 ELSE kept_until END
        WHERE key = :key AND fence = :fence AND outcome = 0 AND format = 1 RETURNING gate_kind, gate
        """)
    static let beyondLimit = NamedSQL(
        """
        SELECT id, token FROM sessions
        WHERE subject_and_client = :subject_and_client AND ended_at IS NULL AND idle_expires_at > :now AND expires_at > :now
        ORDER BY created_at DESC, handle DESC LIMIT -1 OFFSET :others
        """)
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
    func values(_ clock: ClaimClock) -> Named<DatabaseValue> {
        [
            "key": key.sql, "proof": proof.sql, "salt": salt.sql, "key_id": keyID.databaseValue,
            "fence": fence.databaseValue, "claim_until": Optional(clock.moment + claimFor).sql,
            "attempts": attempts.databaseValue, "created_at": createdAt.sql,
        ] + gate.values + ["claim": claim.bytes.sql, "claim_epoch": clock.epoch.databaseValue]
    }
}

extension ExchangeRow.Outcome {
    /// The values of `outcome, outcome_digest, spent_reason, import_end`.
    var values: Named<DatabaseValue> {
        switch self {
        case .calling: Self.values(0, .null, nil)
        case .released: Self.values(1, .null, nil)
        case .session(let tokenDigest): Self.values(2, tokenDigest.sql, nil)
        case .registration(let key), .continued(let key): Self.values(3, key.sql, nil)
        case .spent(let reason): Self.values(4, .null, reason)
        }
    }

    private static func values(
        _ kind: Int, _ digest: DatabaseValue, _ reason: ExchangeRow.SpentReason?
    ) -> Named<DatabaseValue> {
        [
            "outcome": kind.databaseValue, "outcome_digest": digest,
            "spent_reason": reason?.olderReason.rawValue.databaseValue ?? .null,
            "import_end": reason?.importEnd?.rawValue.databaseValue ?? .null,
        ]
    }
}

extension ExchangeGate {
    /// The values of `gate_kind, gate`.
    var values: Named<DatabaseValue> {
        switch self {
        case .none: ["gate_kind": 0.databaseValue, "gate": .null]
        case .login(let state): ["gate_kind": 1.databaseValue, "gate": state.sql]
        case .registration(let key): ["gate_kind": 2.databaseValue, "gate": key.sql]
        }
    }
}
