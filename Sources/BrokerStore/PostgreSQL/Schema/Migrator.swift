/// Brings a PostgreSQL's schema up to date: under a lock, so that of many that begin at once one does the work.
///
/// Whoever wants a table waits behind a migration that waits for it, for whatever transaction reads it. So the wait is short;
/// then everything is rolled back, others go on for a while, and it is tried again.
struct Migrator {
    let connection: LibPQConnection
    let isPooled: Bool

    private static let limit = Duration.seconds(600)
    /// The milliseconds for which a table is waited for, with everybody else behind.
    private static let lockTimeout = 800
    /// The first pause between two tries; each is twice as long as the one before, up to the longest.
    private static let pause = Duration.seconds(1)
    private static let longestPause = Duration.seconds(8)
    /// A lock that did not come in time, and a deadlock.
    private static let busy = ["55P03", "40P01"]

    /// Returns the schema's version before and after, or says why it cannot be worked with.
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
                // The connection is closed by whoever opened it, which rolls back what this does not.
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
        // Nobody but migrators waits behind this one.
        try connection.execute("SELECT pg_advisory_xact_lock(\(PostgreSQLSchema.lock))", within: Self.limit)
        try connection.execute("SET LOCAL lock_timeout = \(Self.lockTimeout)", within: Self.limit)
        try connection.execute(PostgreSQLSchema.versionTable, within: Self.limit)
        // Another may have been first.
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

    /// Sets for the role what a pooler's connections cannot be told one by one.
    func setRole() throws(StoreOpenFailure) {
        guard isPooled else { return }
        for (name, value) in SessionSetup.values {
            let known = try connection.execute("SELECT 1 FROM pg_settings WHERE name = '\(name)'", within: .seconds(10))
            guard !known.isEmpty else { continue }
            try connection.execute("ALTER ROLE CURRENT_USER SET \(name) = '\(value)'", within: .seconds(10))
        }
    }

    /// Refuses a server whose commits are not on disk when they are answered (guarantee 4).
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
