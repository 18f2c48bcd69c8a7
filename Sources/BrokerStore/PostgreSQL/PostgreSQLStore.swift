package import Broker

/// The store for replicas: PostgreSQL, reached through libpq (decision 22).
///
/// Each operation is one statement, right at READ COMMITTED by itself: rows are locked and judged as they are then, and
/// the server's clock times claims. A few connections with a thread each share round trips among what waits.
package final class PostgreSQLStore: BrokerStore {
    let lanes: PostgreSQLLanes
    let pendingLogins: PendingLoginEstimate
    /// What replicas tell one another of endings; nil where nobody is told.
    let endings: EndingExchange?
    /// Times the claims in place of the server's clock, for tests.
    private let testClock: (@Sendable () -> Duration)?

    init(lanes: PostgreSQLLanes, endings: EndingExchange?, testClock: (@Sendable () -> Duration)?) {
        self.lanes = lanes
        self.endings = endings
        self.testClock = testClock
        pendingLogins = PendingLoginEstimate(monotonic: MonotonicTime.now)
    }

    /// The value of a statement's moment: NULL leaves it to the server's clock.
    var moment: Parameter { .duration(testClock?()) }

    /// How many connections stand, and how many were lost since the start; for metrics.
    package var connections: (standing: Int, lost: Int) { (lanes.observer.standing, lanes.observer.losses) }

    /// How many operations wait for a connection; for metrics.
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

    /// Walks many rows, beside which nothing else must wait.
    func walk<Value: Sendable>(
        _ statement: Statement, _ values: [Parameter], isWrite: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.walks, [BoundStatement(statement, values)], isWrite: isWrite, decode)
    }

    /// Reads or changes several rows, beside which single ones must not wait.
    func scan<Value: Sendable>(
        _ statement: Statement, _ values: [Parameter], isWrite: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.scans, [BoundStatement(statement, values)], isWrite: isWrite, decode)
    }

    /// Changes rows; `repeatingDuplicates` is for statements that fail when another inserts the same row meanwhile.
    func write<Value: Sendable>(
        _ statement: Statement, _ values: [Parameter], repeatingDuplicates: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(
            lanes.writes, [BoundStatement(statement, values)], isWrite: true, repeatingDuplicates: repeatingDuplicates,
            decode)
    }

    /// Changes rows, and nobody asks how many.
    func write(_ statement: Statement, _ values: [Parameter]) async throws(StoreFailure) {
        try await write(statement, values) { _ in () }
    }

    /// Waits until the standby, where commits wait for one, has all that was committed before.
    ///
    /// For what was found done already: a transaction that writes nothing waits for nobody, and whoever did it may have
    /// been told that the standby lacks it.
    func confirm() async throws(StoreFailure) {
        // Several rows, so that those who confirm at the same time seldom wait for each other.
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

    /// How often a statement that others got in the way of is tried.
    private static let attempts = 12
}
