import Broker
import GRDB

/// The statements for imports in SQLite.
///
/// An import is a row of `exchanges` that has `kept_until`. Release 0.1.0 ignores the columns of imports, and treats the row as
/// a code's.
enum ImportSQL {
    // The provider's answer is in a table of its own, so the rows of `exchanges` stay small. A trigger deletes the answer when
    // the row drops it. Release 0.1.0 deletes each row after a day, and then the other trigger moves its answer to the outbox.
    // The index on the creation of codes leaves imports out, because they are kept for a month.
    static let migration = """
        ALTER TABLE exchanges ADD COLUMN kept_until INTEGER;
        ALTER TABLE exchanges ADD COLUMN pair_kept_at INTEGER;
        ALTER TABLE exchanges ADD COLUMN refusals INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE exchanges ADD COLUMN first_refused_at INTEGER;
        ALTER TABLE exchanges ADD COLUMN import_end INTEGER;
        CREATE INDEX codes_by_creation ON exchanges (created_at) WHERE kept_until IS NULL;
        CREATE INDEX imports_by_end ON exchanges (kept_until) WHERE kept_until IS NOT NULL;
        CREATE INDEX imports_by_pair ON exchanges (pair_kept_at) WHERE pair_kept_at IS NOT NULL;
        CREATE TABLE import_pairs (
            id INTEGER PRIMARY KEY,
            key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
            sealed_key TEXT NOT NULL,
            sealed BLOB NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT;
        CREATE TRIGGER import_pairs_end_with_their_import AFTER UPDATE OF pair_kept_at ON exchanges
        WHEN OLD.pair_kept_at IS NOT NULL AND NEW.pair_kept_at IS NULL BEGIN
            DELETE FROM import_pairs WHERE key = NEW.key;
        END;
        CREATE TRIGGER import_pairs_outlive_their_import AFTER DELETE ON exchanges WHEN OLD.pair_kept_at IS NOT NULL BEGIN
            INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
                SELECT key, key, sealed_key, sealed, OLD.pair_kept_at, OLD.pair_kept_at, 0 FROM import_pairs
                WHERE key = OLD.key ON CONFLICT (key) DO NOTHING;
            DELETE FROM import_pairs WHERE key = OLD.key;
        END;
        """

    // The clients that have a granted import. A digest of the provider and the client's id is the key. The previous release
    // ignores this table.
    static let grants = """
        CREATE TABLE import_grants (
            key BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
            granted_at INTEGER NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT, WITHOUT ROWID;
        """

    static let insertGrant = NamedSQL(
        "INSERT INTO import_grants (key, granted_at) VALUES (:key, :granted_at) ON CONFLICT (key) DO NOTHING")
    static let grant = NamedSQL("SELECT 1 FROM import_grants WHERE key = :key")
    static let insert = NamedSQL(
        """
        INSERT INTO exchanges (key, proof, salt, key_id, fence, claim_until, attempts, created_at, outcome, gate_kind, gate,
            claim, claim_epoch, kept_until)
        VALUES (:key, :proof, :salt, :key_id, :fence, :claim_until, :attempts, :created_at, 0, :gate_kind, :gate, :claim,
            :claim_epoch, :kept_until) ON CONFLICT (key) DO NOTHING
        """)
    static let claimAgain = NamedSQL(
        """
        UPDATE exchanges SET proof = :proof, salt = :salt, key_id = :key_id, fence = :fence, claim_until = :claim_until,
            attempts = :attempts, created_at = :created_at, outcome = 0, gate_kind = :gate_kind, gate = :gate, claim = :claim,
            claim_epoch = :claim_epoch, kept_until = :kept_until
        WHERE key = :key AND format = 1
        """)
    /// Spends an import whose last possible answer was lost, with the reason "refresh lost" (13).
    static let lose = NamedSQL(
        """
        UPDATE exchanges SET outcome = 4, spent_reason = 4, import_end = 13, kept_until = coalesce(kept_until, :kept_until)
        WHERE key = :key AND format = 1
        """)
    static let release = NamedSQL(
        """
        UPDATE exchanges SET outcome = 1,
            attempts = CASE WHEN pair_kept_at IS NULL THEN :calls ELSE attempts END,
            kept_until = CASE WHEN pair_kept_at IS NULL AND :calls = 0 THEN created_at + :short ELSE kept_until END,
            refusals = refusals + (:refused_at IS NOT NULL), first_refused_at = coalesce(first_refused_at, :refused_at)
        WHERE key = :key AND fence = :fence AND outcome = 0 AND kept_until IS NOT NULL AND format = 1
        """)
    static let count = NamedSQL(
        """
        UPDATE exchanges SET attempts = :calls
        WHERE key = :key AND fence = :fence AND outcome = 0 AND kept_until IS NOT NULL AND format = 1
        """)
    static let keep = NamedSQL(
        """
        UPDATE exchanges SET pair_kept_at = coalesce(pair_kept_at, :now), attempts = :number
        WHERE key = :key AND fence = :fence AND outcome = 0 AND kept_until IS NOT NULL AND attempts <= :number AND format = 1
        """)
    static let insertPair = NamedSQL(
        """
        INSERT INTO import_pairs (key, sealed_key, sealed) VALUES (:key, :sealed_key, :sealed)
        ON CONFLICT (key) DO UPDATE SET sealed_key = excluded.sealed_key, sealed = excluded.sealed
        """)
    static let pair = NamedSQL("SELECT \(ImportPair.columns) FROM import_pairs WHERE key = :key")
    /// The pairs that were kept before a time, except those of claimed imports.
    static let duePairs = NamedSQL(
        """
        SELECT p.format, p.key, p.sealed_key, p.sealed FROM exchanges e JOIN import_pairs p ON p.key = e.key
        WHERE e.pair_kept_at <= :before AND e.pair_kept_at IS NOT NULL AND e.format = 1 AND p.format = 1
            AND (e.outcome IN (1, 4) OR (e.outcome = 0 AND (e.claim_epoch IS NOT :claim_epoch OR e.claim_until <= :moment)))
        LIMIT :limit
        """)
    /// Spends an import with the reason "expired" (15).
    static let expire = NamedSQL(
        """
        UPDATE exchanges SET outcome = 4, spent_reason = 4, import_end = 15, pair_kept_at = NULL
        WHERE key = :key AND format = 1
        """)
    static let sweep = NamedSQL(
        """
        DELETE FROM exchanges WHERE key IN (
            SELECT key FROM exchanges WHERE kept_until <= :now AND kept_until IS NOT NULL AND pair_kept_at IS NULL
                AND format = 1 LIMIT :limit)
        """)
}

extension ImportMarks {
    /// The values of `kept_until, pair_kept_at, refusals, first_refused_at`.
    static func values(_ marks: ImportMarks?) -> Named<DatabaseValue> {
        [
            "kept_until": (marks?.keptUntil).sql, "pair_kept_at": (marks?.pairKeptAt).sql,
            "refusals": (marks?.refusals ?? 0).databaseValue, "first_refused_at": (marks?.firstRefusedAt).sql,
        ]
    }
}

extension ImportPair {
    /// The values of `ImportSQL.insertPair`.
    var values: Named<DatabaseValue> {
        ["key": key.sql, "sealed_key": tokens.keyID.databaseValue, "sealed": tokens.envelope.sql]
    }
}
