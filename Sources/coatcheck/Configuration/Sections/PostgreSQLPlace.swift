import BrokerStore
import Foundation

/// A PostgreSQL database and the connections to it.
struct PostgreSQLPlace: Sendable {
    let connection: ConnectionSettings
    /// The connection for other replicas' notices; nil in two cases: the configuration has only a pooler's address; or the URL
    /// is from the command line.
    let listening: ConnectionSettings?
    let connections: Int
}
