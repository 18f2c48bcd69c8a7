import Broker

/// The statements for imports in PostgreSQL.
///
/// An import is a row of `exchanges` that has `kept_until`. Release 0.1.0 ignores the columns of imports, and treats the row as
/// a code's.
enum PostgreSQLImportSQL {
    typealias Verdict = PostgreSQLExchangeSQL.Verdict

    // The provider's answer is in a table of its own, as in SQLite. A trigger deletes the answer when the row drops it. Release
    // 0.1.0 deletes each row after a day, and then the other trigger moves its answer to the outbox. The index on the creation
    // of codes leaves imports out, because they are kept for a month.
    static let migration = """
        ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS kept_until bigint, ADD COLUMN IF NOT EXISTS pair_kept_at bigint,
            ADD COLUMN IF NOT EXISTS refusals bigint NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS first_refused_at bigint, ADD COLUMN IF NOT EXISTS import_end smallint;
        CREATE INDEX codes_by_creation ON exchanges (created_at) WHERE kept_until IS NULL;
        CREATE INDEX imports_by_end ON exchanges (kept_until) WHERE kept_until IS NOT NULL;
        CREATE INDEX imports_by_pair ON exchanges (pair_kept_at) WHERE pair_kept_at IS NOT NULL;
        CREATE TABLE import_pairs (
            key bytea NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
            sealed_key text NOT NULL,
            sealed bytea NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );
        ALTER TABLE import_pairs ALTER COLUMN sealed SET STORAGE EXTERNAL;
        CREATE FUNCTION import_pairs_end_with_their_import() RETURNS trigger LANGUAGE plpgsql AS '
            BEGIN
                DELETE FROM import_pairs WHERE key = NEW.key;
                RETURN NULL;
            END';
        CREATE TRIGGER import_pairs_end_with_their_import AFTER UPDATE OF pair_kept_at ON exchanges
            FOR EACH ROW WHEN (OLD.pair_kept_at IS NOT NULL AND NEW.pair_kept_at IS NULL)
            EXECUTE FUNCTION import_pairs_end_with_their_import();
        CREATE FUNCTION import_pairs_outlive_their_import() RETURNS trigger LANGUAGE plpgsql AS '
            BEGIN
                INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
                    SELECT key, key, sealed_key, sealed, OLD.pair_kept_at, OLD.pair_kept_at, 0 FROM import_pairs
                    WHERE key = OLD.key ON CONFLICT (key) DO NOTHING;
                DELETE FROM import_pairs WHERE key = OLD.key;
                RETURN NULL;
            END';
        CREATE TRIGGER import_pairs_outlive_their_import AFTER DELETE ON exchanges
            FOR EACH ROW WHEN (OLD.pair_kept_at IS NOT NULL)
            EXECUTE FUNCTION import_pairs_outlive_their_import();
        """

    /// Claims an import in one statement: locks and judges the existing row, and writes the row.
    ///
    /// The rules are those of `ExchangeRow.verdict`. Claims that lapsed between `spared_from` and `spared_to` ago are spared.
    ///
    /// If another transaction inserts the row at the same time, the whole statement fails with 23505.
    static let claim = Statement(
        "claim_import",
        [
            "key": .bytes, "proof": .bytes, "salt": .bytes, "key_id": .text, "fence": .integer, "claim": .bytes,
            "lifetime": .integer, "attempts": .integer, "created_at": .integer, "kept_until": .integer,
            "most_calls": .integer, "moment": .integer, "spared_from": .integer, "spared_to": .integer,
        ],
        """
        WITH standing AS MATERIALIZED (
            SELECT *, CASE WHEN kept_until IS NULL AND outcome = 1 THEN 0 ELSE attempts END AS calls, \(EngineClock.moment) AS moment
            FROM exchanges WHERE key = :key FOR UPDATE),
        judged AS MATERIALIZED (
            SELECT e.*, CASE
                WHEN e.format > 1 OR e.outcome > 1 THEN \(Verdict.standing.sql)
                WHEN e.outcome = 0 AND e.claim = :claim THEN \(Verdict.own.sql)
                WHEN e.outcome = 0 AND (\(EngineClock.stands("e", "e.moment"))
                    OR coalesce(e.moment - e.claim_until BETWEEN :spared_from AND :spared_to, false))
                        THEN \(Verdict.standing.sql)
                WHEN e.pair_kept_at IS NOT NULL AND e.proof = :proof THEN \(Verdict.again.sql)
                WHEN e.pair_kept_at IS NOT NULL THEN \(Verdict.standing.sql)
                WHEN e.calls < :most_calls THEN \(Verdict.again.sql)
                ELSE \(Verdict.lapsed.sql) END AS verdict
            FROM standing e),
        plan AS MATERIALIZED (
            SELECT coalesce((SELECT verdict FROM judged), \(Verdict.missing.sql)) AS verdict,
                \(EngineClock.moment) AS moment),
        inserted AS (
            INSERT INTO exchanges (key, proof, salt, key_id, fence, claim, claim_until, attempts, created_at, outcome,
                gate_kind, kept_until)
            SELECT :key, :proof, :salt, :key_id, :fence, :claim, plan.moment + :lifetime, :attempts, :created_at, 0, 0,
                :kept_until FROM plan
            WHERE plan.verdict = \(Verdict.missing.sql)),
        lapsed AS (
            UPDATE exchanges e SET outcome = 4, spent_reason = 4, import_end = 13,
                kept_until = coalesce(e.kept_until, :kept_until)
            FROM judged j WHERE e.key = j.key AND j.verdict = \(Verdict.lapsed.sql)
            RETURNING e.*),
        again AS (
            UPDATE exchanges e SET outcome = 0, fence = e.fence + 1, proof = :proof, salt = :salt, key_id = :key_id,
                attempts = CASE WHEN e.pair_kept_at IS NULL THEN j.calls + 1 ELSE e.attempts END,
                claim_until = j.moment + :lifetime, claim = :claim, created_at = :created_at, kept_until = :kept_until,
                gate_kind = 0, gate = NULL
            FROM judged j WHERE e.key = j.key AND j.verdict = \(Verdict.again.sql)
            RETURNING e.*),
        result AS (
            SELECT \(PostgreSQLExchangeSQL.columns("lapsed", "plan.moment")) FROM lapsed, plan
            UNION ALL SELECT \(PostgreSQLExchangeSQL.columns("again", "plan.moment")) FROM again, plan
            UNION ALL SELECT \(PostgreSQLExchangeSQL.columns("judged", "plan.moment")) FROM judged, plan
            WHERE judged.verdict IN \(Verdict.unchanged))
        SELECT plan.verdict, result.* FROM plan LEFT JOIN result ON true
        """)
    // The clients that have a granted import. A digest of the provider and the client's id is the key. The previous release
    // ignores this table.
    static let grants = """
        CREATE TABLE import_grants (
            key bytea NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
            granted_at bigint NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );
        """

    static let insertGrant = Statement(
        "note_import_grant", ["key": .bytes, "granted_at": .integer],
        "INSERT INTO import_grants (key, granted_at) VALUES (:key, :granted_at) ON CONFLICT (key) DO NOTHING")
    static let grant = Statement(
        "import_grant", ["key": .bytes], "SELECT granted_at FROM import_grants WHERE key = :key")
    static let release = Statement(
        "release_import",
        ["key": .bytes, "fence": .integer, "calls": .integer, "refused_at": .integer, "short": .integer],
        """
        UPDATE exchanges SET outcome = 1,
            attempts = CASE WHEN pair_kept_at IS NULL THEN :calls ELSE attempts END,
            kept_until = CASE WHEN pair_kept_at IS NULL AND :calls = 0 THEN created_at + :short ELSE kept_until END,
            refusals = refusals + (:refused_at IS NOT NULL)::int,
            first_refused_at = coalesce(first_refused_at, :refused_at)
        WHERE key = :key AND fence = :fence AND outcome = 0 AND kept_until IS NOT NULL AND format = 1 RETURNING fence
        """)
    static let count = Statement(
        "count_import_call", ["key": .bytes, "fence": .integer, "calls": .integer],
        """
        UPDATE exchanges SET attempts = :calls
        WHERE key = :key AND fence = :fence AND outcome = 0 AND kept_until IS NOT NULL AND format = 1 RETURNING fence
        """)
    static let keep = Statement(
        "keep_pair",
        [
            "key": .bytes, "sealed_key": .text, "sealed": .bytes, "fence": .integer, "now": .integer,
            "number": .integer,
        ],
        """
        WITH kept AS (
            UPDATE exchanges SET pair_kept_at = coalesce(pair_kept_at, :now), attempts = :number
            WHERE key = :key AND fence = :fence AND outcome = 0 AND kept_until IS NOT NULL AND attempts <= :number
                AND format = 1 RETURNING key),
        pair AS (
            INSERT INTO import_pairs (key, sealed_key, sealed) SELECT key, :sealed_key, :sealed FROM kept
            ON CONFLICT (key) DO UPDATE SET sealed_key = excluded.sealed_key, sealed = excluded.sealed)
        SELECT count(*) FROM kept
        """)
    static let pair = Statement(
        "kept_pair", ["key": .bytes], "SELECT \(ImportPair.columns) FROM import_pairs WHERE key = :key")
    static let insertPair = Statement(
        "admin_insert_import_pair", ["key": .bytes, "sealed_key": .text, "sealed": .bytes],
        "INSERT INTO import_pairs (key, sealed_key, sealed) VALUES (:key, :sealed_key, :sealed) ON CONFLICT DO NOTHING")
    /// Moves the pairs that were kept before a time to the outbox, unless a claim of the import exists.
    static let revokePairs = Statement(
        "revoke_pairs", ["before": .integer, "now": .integer, "limit": .integer, "moment": .integer],
        """
        WITH due AS MATERIALIZED (
            SELECT e.key FROM exchanges e
            WHERE e.pair_kept_at <= :before AND e.pair_kept_at IS NOT NULL AND e.format = 1
                AND (e.outcome IN (1, 4) OR (e.outcome = 0 AND NOT \(EngineClock.stands("e", EngineClock.moment))))
            ORDER BY e.pair_kept_at LIMIT :limit FOR UPDATE SKIP LOCKED),
        revoked AS (
            INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
            SELECT p.key, p.key, p.sealed_key, p.sealed, :now, :now, 0 FROM import_pairs p
            WHERE p.key = ANY (ARRAY (SELECT key FROM due)) AND p.format = 1
            ON CONFLICT (key) DO NOTHING),
        expired AS (
            UPDATE exchanges SET outcome = 4, spent_reason = 4, import_end = 15, pair_kept_at = NULL
            WHERE key = ANY (ARRAY (SELECT key FROM due)) RETURNING key)
        SELECT count(*) FROM expired
        """)
    static let sweep = Statement(
        "sweep_imports", ["now": .integer, "limit": .integer],
        """
        WITH due AS MATERIALIZED (
            SELECT key FROM exchanges
            WHERE kept_until <= :now AND kept_until IS NOT NULL AND pair_kept_at IS NULL AND format = 1
            ORDER BY kept_until LIMIT :limit FOR UPDATE SKIP LOCKED),
        gone AS (DELETE FROM exchanges WHERE key = ANY (ARRAY (SELECT key FROM due)) RETURNING key)
        SELECT count(*) FROM gone
        """)
}

extension ImportMarks {
    /// The values of `kept_until, pair_kept_at, refusals, first_refused_at`.
    static func parameters(_ marks: ImportMarks?) -> Named<Parameter> {
        [
            "kept_until": .time(marks?.keptUntil), "pair_kept_at": .time(marks?.pairKeptAt),
            "refusals": .integer(marks?.refusals ?? 0), "first_refused_at": .time(marks?.firstRefusedAt),
        ]
    }
}

extension ImportPair {
    /// The values of `PostgreSQLImportSQL.insertPair`.
    var parameters: Named<Parameter> {
        ["key": .digest(key), "sealed_key": .text(tokens.keyID), "sealed": .bytes(tokens.envelope)]
    }
}
