import Broker

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

    package func close() async {
        endings?.flush()
        await lanes.close()
        endings?.close()
    }

    // MARK: Running statements

    /// Reads single rows.
    func read<Value: Sendable>(
        _ statement: Statement, _ values: Named<Parameter>, _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.points, [BoundStatement(statement, values)], isWrite: false, decode)
    }

    /// Reads many rows in a walk over a table.
    ///
    /// Walks have a connection of their own, so that other operations do not wait behind them.
    func walk<Value: Sendable>(
        _ statement: Statement, _ values: Named<Parameter>, isWrite: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.walks, [BoundStatement(statement, values)], isWrite: isWrite, decode)
    }

    /// Reads or changes several rows.
    ///
    /// Scans have a connection of their own, so that operations on single rows do not wait behind them.
    func scan<Value: Sendable>(
        _ statement: Statement, _ values: Named<Parameter>, isWrite: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(lanes.scans, [BoundStatement(statement, values)], isWrite: isWrite, decode)
    }

    /// Changes rows.
    ///
    /// `repeatingDuplicates` repeats a statement that fails because another transaction inserts the same row meanwhile.
    func write<Value: Sendable>(
        _ statement: Statement, _ values: Named<Parameter>, repeatingDuplicates: Bool = false,
        _ decode: @escaping @Sendable (ResultRows) throws -> Value
    ) async throws(StoreFailure) -> Value {
        try await run(
            lanes.writes, [BoundStatement(statement, values)], isWrite: true, repeatingDuplicates: repeatingDuplicates,
            decode)
    }

    /// Runs a statement that changes rows and returns none.
    func write(_ statement: Statement, _ values: Named<Parameter>) async throws(StoreFailure) {
        try await write(statement, values) { _ in () }
    }

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
