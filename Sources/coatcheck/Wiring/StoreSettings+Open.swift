import Broker
import BrokerStore

extension StoreSettings {
    /// The place of the rows, for people.
    var place: String {
        switch self {
        case .sqlite(let path, _): path
        case .postgresql(let place): place.connection.place
        }
    }

    /// Opens the store and migrates it; no session lives longer than `longestLifetime`.
    func open(longestLifetime: Duration) async throws(StoreOpenFailure) -> any AdministeredStore {
        switch self {
        case .sqlite(let path, let endings):
            try await SQLiteStore.open(
                path: path,
                endings: endings.map {
                    EndingsPlace(path: $0, longestLifetime: longestLifetime, now: SystemClock.wallTime())
                })
        case .postgresql(let place):
            try await PostgreSQLStore.open(
                place.connection, listening: place.listening, connections: place.connections)
        }
    }

    /// Opens the store, migrated, for a command that walks it; nobody is told of endings.
    func openForCopy() async throws(StoreOpenFailure) -> any AdministeredStore {
        switch self {
        case .sqlite(let path, _): try await SQLiteStore.open(path: path, migrating: false, reserve: 0)
        case .postgresql(let place):
            try await PostgreSQLStore.open(
                place.connection, listening: nil, connections: PostgreSQLStore.allowedConnections.lowerBound,
                migrating: false)
        }
    }

    /// Whether whoever has the store open keeps everybody else out.
    var isLocked: Bool { if case .sqlite = self { true } else { false } }

    /// Migrates the store and returns the schema's versions before and after.
    func migrate() async throws(StoreOpenFailure) -> (from: Int, to: Int) {
        switch self {
        case .sqlite(let path, _): try await SQLiteStore.migrate(path: path, waiting: .seconds(10))
        case .postgresql(let place): try await PostgreSQLStore.migrate(place.connection)
        }
    }
}
