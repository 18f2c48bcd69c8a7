/// Migrates the PostgreSQL schema to the newest version.
///
/// A lock ensures that one of several processes does the work. A migration may wait for a table that a transaction is
/// reading, and all later users of the table wait behind the migration. Therefore the migration waits only briefly. If the
/// wait ends without the lock, the migration is rolled back, other transactions proceed for a while, and the migration is
/// tried again.
struct Migrator {
    let connection: LibPQConnection
    let isPooled: Bool

    private static let limit = Duration.seconds(600)
    /// The longest time in milliseconds that a migration waits for a table, with all the table's later users queued behind it.
    private static let lockTimeout = 800
    /// The first pause between two attempts.
    ///
    /// Each pause is twice the pause before, up to the longest pause.
    private static let pause = Duration.seconds(1)
    private static let longestPause = Duration.seconds(8)
    /// The SQLSTATE codes of a lock timeout and a deadlock, after which the migration is tried again.
    private static let busy = ["55P03", "40P01"]

    /// Returns the schema's version before and after; throws the reason if the schema cannot be used.
    func run(migrating: Bool) throws(StoreOpenFailure) -> (from: Int, to: Int) {
        let found = try version()
        guard found < PostgreSQLSchema.newest else { return (found, found) }
        guard migrating else {
            throw .needsMigration(found: found, known: PostgreSQLSchema.newest)
        }
        let end = MonotonicTime.now() + Self.limit
        var pause = Self.pause
        while true {
            try connection.execute("BEGIN", within: Self.limit)
            do throws(StoreOpenFailure) {
                let result = try migrate()
                try connection.execute("COMMIT", within: Self.limit)
                return result
            } catch {
                let state = connection.faultState
                // If this command fails, the caller closes the connection, which rolls back as well.
                _ = try? connection.execute("ROLLBACK", within: .seconds(5))
                guard let state, Self.busy.contains(state) else { throw error }
                guard MonotonicTime.now() + pause < end else {
                    throw .server("a table that is to be migrated is held by another transaction: \(error)")
                }
            }
            connection.pause(for: pause)
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func migrate() throws(StoreOpenFailure) -> (from: Int, to: Int) {
        try connection.execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0",
            within: Self.limit)
        // Only migrators wait behind this lock.
        try connection.execute("SELECT pg_advisory_xact_lock(\(PostgreSQLSchema.lock))", within: Self.limit)
        try connection.execute("SET LOCAL lock_timeout = \(Self.lockTimeout)", within: Self.limit)
        try connection.execute(PostgreSQLSchema.versionTable, within: Self.limit)
        // Read the version again, because another migrator may have migrated the schema while this one waited for the lock.
        let found = try version()
        for migration in PostgreSQLSchema.migrations where migration.version > found {
            try connection.execute(migration.sql, within: Self.limit)
            try connection.execute(
                """
                INSERT INTO schema_version (version, readable_from)
                VALUES (\(migration.version), \(migration.readableFrom))
                """, within: Self.limit)
        }
        return (found, PostgreSQLSchema.newest)
    }

    /// Stores, on the database role, the settings that cannot be sent through a pooler.
    func setRole() throws(StoreOpenFailure) {
        guard isPooled else { return }
        for (name, value) in SessionSetup.values {
            let known = try connection.execute("SELECT 1 FROM pg_settings WHERE name = '\(name)'", within: .seconds(10))
            guard !known.isEmpty else { continue }
            try connection.execute("ALTER ROLE CURRENT_USER SET \(name) = '\(value)'", within: .seconds(10))
        }
    }

    /// Refuses a server that answers commits before they are on disk (guarantee 4).
    func requireDurability() throws(StoreOpenFailure) {
        guard isPooled else { return }
        let found = try connection.execute("SHOW synchronous_commit", within: .seconds(10)).first ?? nil
        guard let found, SessionSetup.durable.contains(found) else {
            throw .server(
                "synchronous_commit is \(found ?? "unknown"): behind a pooler set it to on for the role or the server")
        }
    }

    private func version() throws(StoreOpenFailure) -> Int {
        let table = try connection.execute("SELECT to_regclass('schema_version')::text", within: Self.limit)
        guard let name = table.first, name != nil else { return 0 }
        let row = try connection.execute(
            "SELECT coalesce(max(version), 0), coalesce(max(readable_from), 0) FROM schema_version", within: Self.limit)
        let numbers = row.map { $0.flatMap { Int($0) } ?? 0 }
        let (found, readableFrom) = (numbers.first ?? 0, numbers.last ?? 0)
        guard readableFrom <= PostgreSQLSchema.newest else {
            throw .tooNew(found: found, known: PostgreSQLSchema.newest)
        }
        return found
    }
}
