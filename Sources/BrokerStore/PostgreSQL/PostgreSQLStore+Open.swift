import Broker

extension PostgreSQLStore {
    /// How many connections a process keeps unless told otherwise.
    package static let standardConnections = 8
    /// How many it may keep.
    package static let allowedConnections = PostgreSQLLanes.fewest...64

    /// Connects, migrates unless told not to, and starts the connections.
    ///
    /// Every fault is a sentence for the operator. `listening` is how endings of other replicas are heard: a direct
    /// connection, or nil where there is none.
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

    /// Asks whether the database is reached, durable and migrated; returns its version.
    package static func check(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> Int {
        try await prepare(settings, migrating: false).to
    }

    /// Returns whether commits wait for a standby: where they do not, failing over to one loses what was answered last.
    package static func waitsForStandby(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> Bool {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            let names = try connection.execute("SHOW synchronous_standby_names", within: .seconds(5))
            return names.first.map { $0?.isEmpty == false } ?? false
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

    /// Runs `body` with a connection of its own, on a thread of its own.
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
