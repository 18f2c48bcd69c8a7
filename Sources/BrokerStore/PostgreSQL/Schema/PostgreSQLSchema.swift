/// The schema's history in PostgreSQL.
///
/// Migrations are only appended, because a released migration is final. `readableFrom` is the oldest schema version whose
/// program still works with the migrated database (SEC-130).
enum PostgreSQLSchema {
    struct Migration: Sendable {
        let version: Int
        let readableFrom: Int
        let sql: String
    }

    /// The newest row format that this program writes and reads.
    static let rowFormat: Int64 = 1
    /// The number of the PostgreSQL advisory lock that migrators take: `coat`.
    static let lock: Int64 = 0x636F_6174

    static let versionTable = """
        CREATE TABLE IF NOT EXISTS schema_version (
            version integer NOT NULL PRIMARY KEY CHECK (version > 0),
            readable_from integer NOT NULL CHECK (readable_from BETWEEN 1 AND version)
        )
        """

    static let migrations: [Migration] = [
        Migration(version: 1, readableFrom: 1, sql: first), Migration(version: 2, readableFrom: 1, sql: listings),
        Migration(version: 3, readableFrom: 1, sql: proofs), Migration(version: 4, readableFrom: 1, sql: families),
        Migration(version: 5, readableFrom: 1, sql: grants),
        Migration(version: 6, readableFrom: 1, sql: presences),
        Migration(version: 7, readableFrom: 1, sql: PostgreSQLTargetTokenSQL.migration),
        Migration(version: 8, readableFrom: 1, sql: versions),
        Migration(version: 9, readableFrom: 1, sql: exports),
        Migration(version: 10, readableFrom: 1, sql: PostgreSQLImportSQL.migration),
        Migration(version: 11, readableFrom: 1, sql: PostgreSQLImportSQL.grants),
    ]

    static var newest: Int { migrations.last?.version ?? 0 }

    // Keys are random digests, so they are spread evenly. A session's times, version and claim are written often, so they are
    // in a small row of their own. A slide or a claim therefore leaves the session's sealed values and its eight indexes
    // unchanged. Sealed values do not compress. `handle` is sorted by its bytes, as in every engine.
    private static let first = """
        CREATE TABLE logins (
            state bytea NOT NULL PRIMARY KEY CHECK (octet_length(state) = 32),
            login_token bytea NOT NULL CHECK (octet_length(login_token) = 32),
            login_id text NOT NULL,
            created_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            status smallint NOT NULL CHECK (status BETWEEN 0 AND 2),
            exchange bytea CHECK (octet_length(exchange) = 32),
            sealed_key text NOT NULL,
            sealed bytea NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        ) WITH (fillfactor = 80);
        CREATE INDEX logins_by_token ON logins (login_token, created_at) WHERE status = 0;
        CREATE INDEX logins_by_expiry ON logins (expires_at);
        CREATE INDEX logins_pending ON logins (expires_at) WHERE status = 0;

        CREATE TABLE handoffs (
            login bytea NOT NULL PRIMARY KEY CHECK (octet_length(login) = 32),
            key bytea NOT NULL UNIQUE CHECK (octet_length(key) = 32),
            created_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            kept_until bigint NOT NULL,
            sealed_key text NOT NULL,
            sealed bytea NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );
        CREATE INDEX handoffs_by_end ON handoffs (kept_until);

        CREATE TABLE exchanges (
            key bytea NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
            proof bytea CHECK (octet_length(proof) = 32),
            salt bytea NOT NULL,
            key_id text NOT NULL,
            fence bigint NOT NULL CHECK (fence > 0),
            claim bytea NOT NULL CHECK (octet_length(claim) = 16),
            claim_until bigint NOT NULL,
            attempts bigint NOT NULL CHECK (attempts >= 0),
            created_at bigint NOT NULL,
            outcome smallint NOT NULL CHECK (outcome BETWEEN 0 AND 4),
            outcome_digest bytea CHECK (octet_length(outcome_digest) = 32),
            spent_reason smallint,
            gate_kind smallint NOT NULL CHECK (gate_kind BETWEEN 0 AND 2),
            gate bytea CHECK (octet_length(gate) = 32),
            format integer NOT NULL DEFAULT 1 CHECK (format > 0),
            CHECK ((outcome IN (2, 3)) = (outcome_digest IS NOT NULL)),
            CHECK ((outcome = 4) = (spent_reason IS NOT NULL)),
            CHECK ((gate_kind = 0) = (gate IS NULL))
        ) WITH (fillfactor = 80);
        CREATE INDEX exchanges_by_creation ON exchanges (created_at);

        CREATE TABLE registrations (
            key bytea NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
            login_token bytea CHECK (octet_length(login_token) = 32),
            created_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            status smallint NOT NULL CHECK (status BETWEEN 0 AND 2),
            exchange bytea CHECK (octet_length(exchange) = 32),
            attempts bigint NOT NULL CHECK (attempts >= 0),
            sealed_key text NOT NULL,
            sealed bytea NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        ) WITH (fillfactor = 80);
        CREATE INDEX registrations_by_expiry ON registrations (expires_at);

        CREATE TABLE sessions (
            token bytea NOT NULL PRIMARY KEY CHECK (octet_length(token) = 32),
            handle text COLLATE "C" NOT NULL UNIQUE,
            subject bytea NOT NULL CHECK (octet_length(subject) = 32),
            subject_and_client bytea NOT NULL CHECK (octet_length(subject_and_client) = 32),
            sid bytea CHECK (octet_length(sid) = 32),
            provider bytea NOT NULL CHECK (octet_length(provider) = 32),
            client bytea NOT NULL CHECK (octet_length(client) = 32),
            created_at bigint NOT NULL,
            ended_at bigint,
            end_reason text,
            facts_key text NOT NULL,
            facts bytea NOT NULL,
            tokens_key text,
            tokens bytea,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0),
            CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
            CHECK ((tokens IS NULL) = (tokens_key IS NULL)),
            CHECK (ended_at IS NULL OR tokens IS NULL)
        ) WITH (fillfactor = 80);
        CREATE INDEX sessions_by_subject ON sessions (subject, created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_subject_and_client ON sessions (subject_and_client, created_at, handle)
            WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_sid ON sessions (sid, created_at, handle) WHERE ended_at IS NULL AND sid IS NOT NULL;
        CREATE INDEX sessions_by_provider ON sessions (provider, created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_client ON sessions (client, created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_creation ON sessions (created_at, handle) WHERE ended_at IS NULL;
        CREATE INDEX sessions_by_end ON sessions (ended_at, handle) WHERE ended_at IS NOT NULL;
        CREATE INDEX sessions_by_subject_and_end ON sessions (subject, ended_at, handle) WHERE ended_at IS NOT NULL;

        CREATE TABLE session_states (
            token bytea NOT NULL PRIMARY KEY CHECK (octet_length(token) = 32),
            last_used_at bigint NOT NULL,
            idle_expires_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            token_expires_at bigint,
            token_version bigint NOT NULL CHECK (token_version > 0),
            fence bigint NOT NULL CHECK (fence >= 0),
            claim bytea CHECK (octet_length(claim) = 16),
            claim_until bigint,
            taken_over_at bigint,
            hold_until bigint,
            first_empty_at bigint,
            empty_refusals bigint NOT NULL DEFAULT 0,
            taken_over_before boolean NOT NULL DEFAULT false,
            answer_lost boolean NOT NULL DEFAULT false,
            subject_unchecked boolean NOT NULL,
            refreshable boolean NOT NULL,
            ended boolean NOT NULL DEFAULT false,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0),
            lapse_hour bigint NOT NULL GENERATED ALWAYS AS (least(idle_expires_at, expires_at) / 3600000) STORED
        ) WITH (fillfactor = 70);
        CREATE INDEX session_states_by_lapse ON session_states (lapse_hour) WHERE NOT ended;

        CREATE TABLE outbox (
            key bytea NOT NULL PRIMARY KEY CHECK (octet_length(key) = 32),
            bound_to bytea NOT NULL CHECK (octet_length(bound_to) = 32),
            tokens_key text NOT NULL,
            tokens bytea NOT NULL,
            created_at bigint NOT NULL,
            next_attempt_at bigint NOT NULL,
            attempts bigint NOT NULL CHECK (attempts >= 0),
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );
        CREATE INDEX outbox_by_attempt ON outbox (next_attempt_at);

        CREATE TABLE logout_tokens (
            id bytea NOT NULL PRIMARY KEY CHECK (octet_length(id) = 32),
            until bigint NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );
        CREATE INDEX logout_tokens_by_end ON logout_tokens (until);

        CREATE TABLE leases (
            name text NOT NULL PRIMARY KEY,
            owner text NOT NULL,
            until bigint NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );

        CREATE TABLE key_seals (
            key text NOT NULL PRIMARY KEY,
            seals bigint NOT NULL CHECK (seals >= 0)
        );

        CREATE TABLE audit (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            at bigint NOT NULL,
            actor text NOT NULL,
            action text NOT NULL,
            target text NOT NULL,
            outcome text NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );
        CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''audit records are append-only''; END';
        CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
            FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

        ALTER TABLE logins ALTER COLUMN sealed SET STORAGE EXTERNAL;
        ALTER TABLE handoffs ALTER COLUMN sealed SET STORAGE EXTERNAL;
        ALTER TABLE registrations ALTER COLUMN sealed SET STORAGE EXTERNAL;
        ALTER TABLE sessions ALTER COLUMN facts SET STORAGE EXTERNAL, ALTER COLUMN tokens SET STORAGE EXTERNAL;
        ALTER TABLE outbox ALTER COLUMN tokens SET STORAGE EXTERNAL;
        """

    // Used proofs of calls with an unsafe method or with presence, so that no replica accepts them again. A row is needed for
    // eleven minutes only, so the table works without a write-ahead log.
    private static let proofs = """
        CREATE UNLOGGED TABLE taken_proofs (
            name bytea NOT NULL PRIMARY KEY CHECK (octet_length(name) = 32),
            until bigint NOT NULL,
            format integer NOT NULL DEFAULT 1 CHECK (format > 0)
        );
        CREATE INDEX taken_proofs_by_end ON taken_proofs (until);
        """

    // Child sessions. A trigger ends them with their parent, so every statement that ends a session ends its children, even in
    // a release without families. The trigger runs under the lock on the parent's row and sees the current children. These
    // include a child that was just made, because `insertChild` locks the same row. The index on children has a condition on
    // the end reason only, so queries test that column (decision 38).
    //
    // In existing rows, parent and place are NULL. `NOT VALID` omits the check of these rows, which avoids a scan of the
    // table under the lock. An operator may create the columns and the index beforehand, which avoids the scan for the index
    // (docs/operate/upgrades.md).
    private static let families = """
        ALTER TABLE sessions ADD COLUMN IF NOT EXISTS parent bytea, ADD COLUMN IF NOT EXISTS place bytea,
            ADD CONSTRAINT sessions_parent_check CHECK (octet_length(parent) = 32) NOT VALID,
            ADD CONSTRAINT sessions_place_check CHECK (octet_length(place) = 32) NOT VALID;
        CREATE INDEX IF NOT EXISTS sessions_by_parent ON sessions (parent, created_at, handle)
            WHERE parent IS NOT NULL AND end_reason IS NULL;
        CREATE FUNCTION children_end_with_their_parent() RETURNS trigger LANGUAGE plpgsql AS '
            BEGIN
                UPDATE session_states SET ended = true, claim = NULL, claim_until = NULL
                WHERE token = ANY (ARRAY (SELECT c.token FROM sessions c WHERE c.parent = NEW.token AND c.end_reason IS NULL));
                UPDATE sessions SET ended_at = NEW.ended_at, end_reason = ''parent_ended'', tokens_key = NULL, tokens = NULL
                WHERE parent = NEW.token AND end_reason IS NULL;
                RETURN NULL;
            END';
        CREATE TRIGGER children_end_with_their_parent AFTER UPDATE OF ended_at ON sessions
            FOR EACH ROW WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL AND NEW.parent IS NULL)
            EXECUTE FUNCTION children_end_with_their_parent();
        """

    // The token version at the beginning of the session's present grant. A step-up may begin another grant (decision 70). The
    // previous release uses the token version, which rises at the same time.
    private static let grants = """
        ALTER TABLE session_states ADD COLUMN grant_version bigint NOT NULL DEFAULT 0;
        """

    // The presence key, which the session's device uses only with its user's confirmation (decision 71). The previous release
    // ignores these columns.
    private static let presences = """
        ALTER TABLE sessions ADD COLUMN IF NOT EXISTS presence_key text, ADD COLUMN IF NOT EXISTS presence bytea;
        ALTER TABLE sessions ALTER COLUMN presence SET STORAGE EXTERNAL;
        """

    // The version of a session, from which an app knows the newer of two states. The previous release ignores this column.
    // The column is in the row that every change to a session locks first.
    private static let versions =
        "ALTER TABLE session_states ADD COLUMN IF NOT EXISTS version bigint NOT NULL DEFAULT 1"

    // Whether an export ended the session, whose stored reason is then `admin` (decision 100). The previous release ignores this
    // column.
    private static let exports =
        "ALTER TABLE sessions ADD COLUMN IF NOT EXISTS exported boolean NOT NULL DEFAULT false"

    // Indexes for the tombstones of a provider and of a client, by their end.
    private static let listings = """
        CREATE INDEX sessions_by_provider_and_end ON sessions (provider, ended_at, handle) WHERE ended_at IS NOT NULL;
        CREATE INDEX sessions_by_client_and_end ON sessions (client, ended_at, handle) WHERE ended_at IS NOT NULL;
        """
}
