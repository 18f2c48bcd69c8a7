import Broker
import BrokerStore

extension StoreSettings {
    /// The address of the store, in a form for people.
    var place: String {
        switch self {
        case .sqlite(let path, _): path
        case .postgresql(let place): place.connection.place
        }
    }

    /// Opens the store and migrates it.
    ///
    /// `longestLifetime` is the longest lifetime of any session.
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

    /// Opens the store for a command that reads or writes its rows.
    ///
    /// The schema must be up to date.
    ///
    /// A store opened in this way sends other replicas no notices of endings.
    func openForCopy() async throws(StoreOpenFailure) -> any AdministeredStore {
        switch self {
        case .sqlite(let path, _): try await SQLiteStore.open(path: path, migrating: false, reserve: 0)
        case .postgresql(let place):
            try await PostgreSQLStore.open(
                place.connection, listening: nil, connections: PostgreSQLStore.allowedConnections.lowerBound,
                migrating: false)
        }
    }

    /// Whether only one process at a time can open the store.
    ///
    /// This process then holds the store's lock.
    var isLocked: Bool { if case .sqlite = self { true } else { false } }

    /// Migrates the store and returns the schema's versions before and after.
    func migrate() async throws(StoreOpenFailure) -> (from: Int, to: Int) {
        switch self {
        case .sqlite(let path, _): try await SQLiteStore.migrate(path: path, waiting: .seconds(10))
        case .postgresql(let place): try await PostgreSQLStore.migrate(place.connection)
        }
    }
}
