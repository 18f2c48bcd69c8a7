import Broker
import BrokerStore

extension StoreSettings {
    /// Where the rows are, for people.
    var place: String {
        switch self {
        case .sqlite(let path): path
        case .postgresql(let place): place.connection.place
        }
    }

    /// Opens the store and migrates it.
    func open() async throws(StoreOpenFailure) -> any BrokerStore {
        switch self {
        case .sqlite(let path): try await SQLiteStore.open(path: path)
        case .postgresql(let place):
            try await PostgreSQLStore.open(
                place.connection, listening: place.listening, connections: place.connections)
        }
    }

    /// Migrates the store and returns the schema's versions before and after.
    func migrate() async throws(StoreOpenFailure) -> (from: Int, to: Int) {
        switch self {
        case .sqlite(let path): try await SQLiteStore.migrate(path: path)
        case .postgresql(let place): try await PostgreSQLStore.migrate(place.connection)
        }
    }
}
