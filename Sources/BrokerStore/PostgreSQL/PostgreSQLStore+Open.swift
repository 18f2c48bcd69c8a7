package import Broker

extension PostgreSQLStore {
    /// The default number of connections of a process.
    package static let standardConnections = 8
    /// The allowed numbers of connections.
    package static let allowedConnections = PostgreSQLLanes.fewest...64

    /// Connects, migrates unless `migrating` is false, and starts the connections.
    ///
    /// Every error is a sentence for the operator. `listening` is a direct connection for other replicas' notices, if there is
    /// one.
    package static func open(
        _ settings: ConnectionSettings, listening: ConnectionSettings?, connections: Int = standardConnections,
        migrating: Bool = true, testClock: (@Sendable () -> Duration)? = nil
    ) async throws(StoreOpenFailure) -> PostgreSQLStore {
        _ = try await prepare(settings, migrating: migrating)
        guard let ticker = StoreTicker(),
            let lanes = PostgreSQLLanes(settings, connections: connections, ticker: ticker)
        else { throw .server("the system has no descriptors or threads left") }
        let endings = EndingExchange(lane: lanes.writes, ticker: ticker, listening: listening)
        return PostgreSQLStore(lanes: lanes, endings: endings, testClock: testClock)
    }

    /// Migrates the database and returns the schema's versions before and after.
    package static func migrate(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> (from: Int, to: Int) {
        try await prepare(settings, migrating: true, isMigration: true)
    }

    /// Checks that the database is reachable, durable and migrated, and returns its version.
    package static func check(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> Int {
        try await prepare(settings, migrating: false).to
    }

    /// Returns whether the server's commits wait for a standby.
    ///
    /// If they do not wait, a fail-over to a standby loses the last answered writes.
    package static func waitsForStandby(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> Bool {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            let names = try connection.execute("SHOW synchronous_standby_names", within: .seconds(5))
            return names.first.map { $0?.isEmpty == false } ?? false
        }
    }

    /// Returns whether the connection leads to a standby, whose reads show ended sessions as live.
    package static func isStandby(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> Bool {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            try connection.execute("SELECT pg_is_in_recovery()", within: .seconds(5)).first == "t"
        }
    }

    private static func prepare(
        _ settings: ConnectionSettings, migrating: Bool, isMigration: Bool = false
    ) async throws(StoreOpenFailure) -> (from: Int, to: Int) {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            let migrator = Migrator(connection: connection, isPooled: settings.isPooled)
            if isMigration { try migrator.setRole() } else { try migrator.requireDurability() }
            return try migrator.run(migrating: migrating)
        }
    }

    /// Runs `body` with a new connection on a thread of its own.
    static func connected<Value: Sendable>(
        _ settings: ConnectionSettings,
        _ body: @escaping @Sendable (LibPQConnection) throws(StoreOpenFailure) -> Value
    ) async throws(StoreOpenFailure) -> Value {
        let answer: Result<Value, StoreOpenFailure> = await withUnsafeContinuation { waiter in
            let began = OSThread.start {
                do throws(StoreOpenFailure) {
                    guard let wakeup = Wakeup() else { throw .server("the system has no descriptors left") }
                    waiter.resume(returning: .success(try body(try LibPQConnection(settings, wakeup: wakeup))))
                } catch {
                    waiter.resume(returning: .failure(error))
                }
            }
            if !began { waiter.resume(returning: .failure(.server("the system has no threads left"))) }
        }
        return try answer.get()
    }
}

extension PostgreSQLStore {
    /// Returns the time of a server's clock.
    package static func time(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> WallTime? {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            let row = try connection.execute(PostgreSQLUpkeepSQL.time.sql, within: .seconds(5))
            return row.first.flatMap { $0 }.flatMap { Int64($0) }.map { WallTime(milliseconds: $0) }
        }
    }
}
