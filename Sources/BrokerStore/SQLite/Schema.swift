/// The history of the SQLite schema.
///
/// Migrations are only appended, because a released migration is final.
///
/// `readableFrom` is the oldest schema version whose program still works with the migrated database. After a migration that
/// only adds columns or tables, the previous release still works (SEC-130).
enum Schema {
    struct Migration: Sendable {
        let version: Int
        let readableFrom: Int
        let sql: String
    }

    /// `Coat`, which marks a database as Coatcheck's.
    static let applicationID: Int32 = 0x436F_6174
    /// The newest row format that this program writes and reads.
    static let rowFormat: Int64 = 1

    static let versionTable = """
        CREATE TABLE IF NOT EXISTS schema_version (
            version INTEGER NOT NULL PRIMARY KEY CHECK (version > 0),
            readable_from INTEGER NOT NULL CHECK (readable_from BETWEEN 1 AND version)
        ) STRICT, WITHOUT ROWID
        """

    static let migrations: [Migration] = [
        Migration(version: 1, readableFrom: 1, sql: first), Migration(version: 2, readableFrom: 1, sql: endedSessions),
        Migration(version: 3, readableFrom: 1, sql: handoffs),
        Migration(version: 4, readableFrom: 1, sql: namedClaims),
        Migration(version: 5, readableFrom: 1, sql: holders), Migration(version: 6, readableFrom: 1, sql: listings),
        Migration(version: 7, readableFrom: 1, sql: families),
        Migration(version: 8, readableFrom: 1, sql: grants),
        Migration(version: 9, readableFrom: 1, sql: presences),
        Migration(version: 10, readableFrom: 1, sql: TargetTokenSQL.migration),
        Migration(version: 11, readableFrom: 1, sql: versions),
        Migration(version: 12, readableFrom: 1, sql: exports),
        Migration(version: 13, readableFrom: 1, sql: ImportSQL.migration),
        Migration(version: 14, readableFrom: 1, sql: ImportSQL.grants),
    ]

    static var newest: Int { migrations.last?.version ?? 0 }

    // Keys are random digests. Small rows are stored in their key's tree (WITHOUT ROWID). Rows with sealed values are appended
    // to a table and found by a small index, so that lookups walk a dense tree.
    private static let first = """
        CREATE TABLE logins (
            id INTEGER PRIMARY KEY,
            state BLOB NOT NULL UNIQUE CHECK (length(state) = 32),
            login_token BLOB NOT NULL CHECK (length(login_token) = 32),
            login_id TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 2),
            exchange BLOB CHECK (length(exchange) = 32),
            sealed_key TEXT NOT NULL,
            sealed BLOB NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT;
        CREATE INDEX logins_by_token ON logins (login_token, created_at) WHERE status = 0;
        CREATE INDEX logins_by_expiry ON logins (expires_at, status);

        CREATE TABLE exchanges (
            key BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
            proof BLOB CHECK (length(proof) = 32),
            salt BLOB NOT NULL,
            key_id TEXT NOT NULL,
            fence INTEGER NOT NULL CHECK (fence > 0),
            claim_until INTEGER NOT NULL,
            attempts INTEGER NOT NULL CHECK (attempts >= 0),
            created_at INTEGER NOT NULL,
            outcome INTEGER NOT NULL CHECK (outcome BETWEEN 0 AND 4),
            outcome_digest BLOB CHECK (length(outcome_digest) = 32),
            spent_reason INTEGER,
            gate_kind INTEGER NOT NULL CHECK (gate_kind BETWEEN 0 AND 2),
            gate BLOB CHECK (length(gate) = 32),
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0),
            CHECK ((outcome IN (2, 3)) = (outcome_digest IS NOT NULL)),
            CHECK ((outcome = 4) = (spent_reason IS NOT NULL)),
            CHECK ((gate_kind = 0) = (gate IS NULL))
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX exchanges_by_creation ON exchanges (created_at);

        CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            token BLOB NOT NULL UNIQUE CHECK (length(token) = 32),
            handle TEXT NOT NULL UNIQUE,
            subject BLOB NOT NULL CHECK (length(subject) = 32),
            subject_and_client BLOB NOT NULL CHECK (length(subject_and_client) = 32),
            sid BLOB CHECK (length(sid) = 32),
            provider BLOB NOT NULL CHECK (length(provider) = 32),
            client BLOB NOT NULL CHECK (length(client) = 32),
            created_at INTEGER NOT NULL,
            last_used_at INTEGER NOT NULL,
            idle_expires_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            token_expires_at INTEGER,
            refreshable INTEGER NOT NULL CHECK (refreshable IN (0, 1)),
            token_version INTEGER NOT NULL CHECK (token_version > 0),
            fence INTEGER NOT NULL CHECK (fence >= 0),
            claim_until INTEGER,
            ended_at INTEGER,
            end_reason TEXT,
            facts_key TEXT NOT NULL,
            facts BLOB NOT NULL,
            tokens_key TEXT,
            tokens BLOB,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0),
            CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
            CHECK ((tokens IS NULL) = (tokens_key IS NULL)),
            CHECK (ended_at IS NULL OR tokens IS NULL)
        ) STRICT;
        CREATE INDEX sessions_by_subject ON sessions (subject, created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_subject_and_client ON sessions (subject_and_client, created_at, handle)
            WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_sid ON sessions (sid, created_at, handle) WHERE ended_at IS NULL AND sid IS NOT NULL;
        CREATE INDEX sessions_by_provider ON sessions (provider, created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_client ON sessions (client, created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_creation ON sessions (created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_lapse ON sessions (min(idle_expires_at, expires_at)) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_end ON sessions (ended_at) WHERE ended_at IS NOT NULL;

        CREATE TABLE registrations (
            id INTEGER PRIMARY KEY,
            key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
            login_token BLOB CHECK (length(login_token) = 32),
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 2),
            attempts INTEGER NOT NULL CHECK (attempts >= 0),
            sealed_key TEXT NOT NULL,
            sealed BLOB NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT;
        CREATE INDEX registrations_by_expiry ON registrations (expires_at);

        CREATE TABLE outbox (
            id INTEGER PRIMARY KEY,
            key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
            bound_to BLOB NOT NULL CHECK (length(bound_to) = 32),
            tokens_key TEXT NOT NULL,
            tokens BLOB NOT NULL,
            created_at INTEGER NOT NULL,
            next_attempt_at INTEGER NOT NULL,
            attempts INTEGER NOT NULL CHECK (attempts >= 0),
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT;
        CREATE INDEX outbox_by_attempt ON outbox (next_attempt_at);

        CREATE TABLE logout_tokens (
            id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 32),
            until INTEGER NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX logout_tokens_by_end ON logout_tokens (until);

        CREATE TABLE leases (
            name TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            until INTEGER NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE audit (
            id INTEGER PRIMARY KEY,
            at INTEGER NOT NULL,
            actor TEXT NOT NULL,
            action TEXT NOT NULL,
            target TEXT NOT NULL,
            outcome TEXT NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT;
        CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN
            SELECT RAISE(ABORT, 'audit records are append-only');
        END;
        CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit BEGIN
            SELECT RAISE(ABORT, 'audit records are append-only');
        END;
        """

    // Handoffs have their own table. A login has at most one row, which is removed soon after it expires.
    private static let handoffs = """
        CREATE TABLE handoffs (
            id INTEGER PRIMARY KEY,
            login BLOB NOT NULL UNIQUE CHECK (length(login) = 32),
            key BLOB NOT NULL UNIQUE CHECK (length(key) = 32),
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            kept_until INTEGER NOT NULL,
            sealed_key TEXT NOT NULL,
            sealed BLOB NOT NULL,
            format INTEGER NOT NULL DEFAULT 1 CHECK (format > 0)
        ) STRICT;
        CREATE INDEX handoffs_by_end ON handoffs (kept_until);
        """

    // Indexes for listing the tombstones of all sessions and of one subject, newest first.
    private static let endedSessions = """
        DROP INDEX sessions_by_end;
        CREATE INDEX sessions_by_end ON sessions (ended_at, handle) WHERE ended_at IS NOT NULL;
        CREATE INDEX sessions_by_subject_and_end ON sessions (subject, ended_at, handle) WHERE ended_at IS NOT NULL;
        """

    // Claims with a name, timed by the process's monotonic clock (`claim_epoch` identifies the process), and the history of a
    // row's refreshes (decision 18).
    private static let namedClaims = """
        ALTER TABLE sessions ADD COLUMN claim BLOB CHECK (length(claim) = 16);
        ALTER TABLE sessions ADD COLUMN claim_epoch INTEGER;
        ALTER TABLE sessions ADD COLUMN taken_over_at INTEGER;
        ALTER TABLE sessions ADD COLUMN taken_over_before INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE sessions ADD COLUMN answer_lost INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE sessions ADD COLUMN hold_until INTEGER;
        ALTER TABLE sessions ADD COLUMN empty_refusals INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE sessions ADD COLUMN first_empty_at INTEGER;
        ALTER TABLE sessions ADD COLUMN subject_unchecked INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE exchanges ADD COLUMN claim BLOB CHECK (length(claim) = 16);
        ALTER TABLE exchanges ADD COLUMN claim_epoch INTEGER;
        """

    // The exchange that took a registration, and the number of values that all processes have sealed with each key.
    private static let holders = """
        ALTER TABLE registrations ADD COLUMN exchange BLOB CHECK (length(exchange) = 32);
        CREATE TABLE key_seals (
            key TEXT NOT NULL PRIMARY KEY,
            seals INTEGER NOT NULL CHECK (seals >= 0)
        ) STRICT, WITHOUT ROWID;
        """

    // Child sessions. A trigger ends them with their parent, so every statement that ends a session ends its children, even in
    // a release without families.
    private static let families = """
        ALTER TABLE sessions ADD COLUMN parent BLOB CHECK (length(parent) = 32);
        ALTER TABLE sessions ADD COLUMN place BLOB CHECK (length(place) = 32);
        CREATE INDEX sessions_by_parent ON sessions (parent, created_at, handle)
            WHERE parent IS NOT NULL AND ended_at IS NULL;
        CREATE TRIGGER children_end_with_their_parent AFTER UPDATE OF ended_at ON sessions
        WHEN OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL AND NEW.parent IS NULL BEGIN
            UPDATE sessions SET ended_at = NEW.ended_at, end_reason = 'parent_ended', tokens_key = NULL, tokens = NULL,
                claim_until = NULL
            WHERE parent = NEW.token AND ended_at IS NULL;
        END;
        """

    // The token version at the beginning of the session's present grant. A step-up may begin another grant (decision 70). The
    // previous release uses the token version, which rises at the same time.
    private static let grants = """
        ALTER TABLE sessions ADD COLUMN grant_version INTEGER NOT NULL DEFAULT 0;
        """

    // The presence key, which the session's device uses only with its user's confirmation (decision 71). The previous release
    // ignores these columns.
    private static let presences = """
        ALTER TABLE sessions ADD COLUMN presence_key TEXT;
        ALTER TABLE sessions ADD COLUMN presence BLOB;
        """

    // The version of a session, from which an app knows the newer of two states. The previous release ignores this column.
    private static let versions = "ALTER TABLE sessions ADD COLUMN version INTEGER NOT NULL DEFAULT 1"

    // Whether an export ended the session, whose stored reason is then `admin` (decision 100). The previous release ignores this
    // column.
    private static let exports = "ALTER TABLE sessions ADD COLUMN exported INTEGER NOT NULL DEFAULT 0"

    // Indexes for the tombstones of a provider and of a client, by their end. `hold_for` is the rest of the pause that a
    // provider asked for. It is stored in addition to `hold_until`, which is a monotonic time of a process that may have
    // ended.
    private static let listings = """
        CREATE INDEX sessions_by_provider_and_end ON sessions (provider, ended_at, handle) WHERE ended_at IS NOT NULL;
        CREATE INDEX sessions_by_client_and_end ON sessions (client, ended_at, handle) WHERE ended_at IS NOT NULL;
        ALTER TABLE sessions ADD COLUMN hold_for INTEGER;
        """
}
