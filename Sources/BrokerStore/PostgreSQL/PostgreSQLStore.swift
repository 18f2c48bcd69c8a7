package import Broker

/// The store for replicas: PostgreSQL, reached through libpq (decision 22).
///
/// Nearly each operation is one statement that is correct at READ COMMITTED. The statement locks rows, judges their current
/// state, and times claims by the server's clock. A few connections, each with a thread, execute the waiting operations.
/// Several operations share a round trip.
package final class PostgreSQLStore: BrokerStore {
    let lanes: PostgreSQLLanes
    let pendingLogins: PendingLoginEstimate
    /// The exchange of notices with other replicas; nil if this process sends and receives none.
    let endings: EndingExchange?
    /// The clock that times claims instead of the server's clock, in tests.
    private let testClock: (@Sendable () -> Duration)?

    init(lanes: PostgreSQLLanes, endings: EndingExchange?, testClock: (@Sendable () -> Duration)?) {
        self.lanes = lanes
        self.endings = endings
        self.testClock = testClock
        pendingLogins = PendingLoginEstimate(monotonic: MonotonicTime.now)
    }

    /// The time of the engine's clock as a statement's value.
    ///
    /// NULL selects the server's clock.
    var moment: Parameter { .duration(testClock?()) }

    /// The number of open connections, and the number of connections lost since the start, for metrics.
    package var connections: (standing: Int, lost: Int) { (lanes.observer.standing, lanes.observer.losses) }

    /// The number of operations that wait for a connection, for metrics.
    package var waiting: Int { lanes.all.reduce(0) { $0 + $1.waitingCount } }

    package func ping() async throws(StoreFailure) {
        let version = try await read(PostgreSQLMaintenanceSQL.version, []) { rows in
            try rows.first { try $0.small() } ?? 0
        }
        guard version >= PostgreSQLSchema.newest else { throw .unavailable("not migrated") }
    }

    package func close() async {
        endings?.flush()
        await lanes.close()
        endings?.close()
    }

    // MARK: Running statements

    /// Reads single rows.
    func read<Value: Sendable>(
        _ statement: Statement, _ values: [Parameter], _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.points, [BoundStatement(statement, values)], isWrite: false, decode)
    }

    /// Reads many rows in a walk over a table.
    ///
    /// Walks have a connection of their own, so that other operations do not wait behind them.
    func walk<Value: Sendable>(
        _ statement: Statement, _ values: [Parameter], isWrite: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.walks, [BoundStatement(statement, values)], isWrite: isWrite, decode)
    }

    /// Reads or changes several rows.
    ///
    /// Scans have a connection of their own, so that operations on single rows do not wait behind them.
    func scan<Value: Sendable>(
        _ statement: Statement, _ values: [Parameter], isWrite: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.scans, [BoundStatement(statement, values)], isWrite: isWrite, decode)
    }

    /// Changes rows.
    ///
    /// `repeatingDuplicates` repeats a statement that fails because another transaction inserts the same row meanwhile.
    func write<Value: Sendable>(
        _ statement: Statement, _ values: [Parameter], repeatingDuplicates: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(
            lanes.writes, [BoundStatement(statement, values)], isWrite: true, repeatingDuplicates: repeatingDuplicates,
            decode)
    }

    /// Runs a statement that changes rows and returns none.
    func write(_ statement: Statement, _ values: [Parameter]) async throws(StoreFailure) {
        try await write(statement, values) { _ in () }
    }

    /// Waits until the standby has confirmed all earlier commits, if commits wait for a standby.
    ///
    /// Call this before reporting work that was already done. PostgreSQL waits for the standby only after a write, and the
    /// first writer's commit may still be unconfirmed.
    func confirm() async throws(StoreFailure) {
        // Choose one of several rows, so that concurrent confirmations seldom wait for each other.
        let name = "confirmation-\(Int.random(in: 0..<Self.confirmations))"
        try await write(PostgreSQLMaintenanceSQL.confirm, [.text(name)])
    }

    private static let confirmations = 32

    func run<Value: Sendable>(
        _ lane: PipelineLane, _ statements: [BoundStatement], isWrite: Bool, repeatingDuplicates: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        var attempt = 0
        while true {
            switch await lane.run(statements, isWrite: isWrite, decode) {
            case .success(let value): return value
            case .failure(let failure):
                attempt += 1
                guard attempt < Self.attempts, case .server(let fault) = failure,
                    fault.kind == .repeat || (repeatingDuplicates && fault.kind == .duplicate)
                else { throw failure.failure }
            }
        }
    }

    /// The largest number of attempts of a statement that conflicts with other transactions.
    private static let attempts = 12
}

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

extension PostgreSQLStore: SharedStore {
    package func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) {
        if let endings { endings.listen(handler) } else { handler(.deaf) }
    }

    package func time() async throws(StoreFailure) -> WallTime {
        let time = try await read(PostgreSQLMaintenanceSQL.time, []) { rows in try rows.first { try $0.time() } }
        guard let time else { throw .unavailable("the server did not return its time") }
        return time
    }

    package func isElsewhere() async throws(StoreFailure) -> Bool {
        try await read(PostgreSQLMaintenanceSQL.isElsewhere, []) { rows in try rows.first { try $0.truth() } ?? false }
    }

    package func tokenVersions(
        of tokenDigests: [Digest]
    ) async throws(StoreFailure) -> [StandingSession] {
        guard !tokenDigests.isEmpty else { return [] }
        return try await scan(PostgreSQLSessionSQL.tokenVersions, [.list(of: .bytes, tokenDigests.map { .digest($0) })])
        {
            rows in
            try rows.map { row in
                StandingSession(
                    tokenDigest: try row.digest(), version: try row.integer(), hasPresence: try row.truth())
            }
        }
    }

    package func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool {
        try await write(PostgreSQLMaintenanceSQL.takeProof, [.digest(name), .time(until)]) { $0.count == 1 }
    }

    package func returnProof(_ name: Digest) async throws(StoreFailure) {
        try await write(PostgreSQLMaintenanceSQL.returnProof, [.digest(name)])
    }
}

extension PostgreSQLStore {
    /// Returns the time of a server's clock.
    package static func time(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> WallTime? {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            let row = try connection.execute(PostgreSQLMaintenanceSQL.time.sql, within: .seconds(5))
            return row.first.flatMap { $0 }.flatMap { Int64($0) }.map { WallTime(milliseconds: $0) }
        }
    }
}
