/// Brings a PostgreSQL's schema up to date: under a lock, so that of many that begin at once one does the work.
struct Migrator {
    let connection: LibPQConnection
    let isPooled: Bool

    private static let limit = Duration.seconds(600)

    /// Returns the schema's version before and after, or says why it cannot be worked with.
    func run(migrating: Bool) throws(StoreOpenFailure) -> (from: Int, to: Int) {
        let found = try version()
        guard found < PostgreSQLSchema.newest else { return (found, found) }
        guard migrating else {
            throw .needsMigration(found: found, known: PostgreSQLSchema.newest)
        }
        try connection.execute("BEGIN", within: Self.limit)
        do throws(StoreOpenFailure) {
            let result = try migrate()
            try connection.execute("COMMIT", within: Self.limit)
            return result
        } catch {
            // The connection is closed by whoever opened it, which rolls back what this does not.
            _ = try? connection.execute("ROLLBACK", within: .seconds(5))
            throw error
        }
    }

    private func migrate() throws(StoreOpenFailure) -> (from: Int, to: Int) {
        try connection.execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0",
            within: Self.limit)
        try connection.execute("SELECT pg_advisory_xact_lock(\(PostgreSQLSchema.lock))", within: Self.limit)
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

    /// Sets for the role what a pooler's connections cannot be told one by one (note 22).
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
