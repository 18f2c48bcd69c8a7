import BrokerStore
import Foundation

/// A PostgreSQL database and the connections to it.
struct PostgreSQLPlace: Sendable {
    let connection: ConnectionSettings
    /// The connection for other replicas' notices; nil if only a pooler's address is known, and for commands.
    let listening: ConnectionSettings?
    let connections: Int
}
