import Broker

/// The server's fault, judged by its SQLSTATE: the one place where codes are told apart.
struct ServerFault: Error, Sendable, Equatable {
    /// The remedy for a fault.
    enum Kind: Sendable, Equatable {
        /// Nothing was done because of others, or of how the statement was prepared: it is done again (40001, 40P01, 26000,
        /// 42P05).
        case `repeat`
        /// The connection is of no use any more: again on another (08…, 57P0…, 25006). Nothing was done, but for what
        /// `leavesDoubt`.
        case reconnect
        /// The row stands already (23505).
        case duplicate
        /// Nothing was done, and doing it again now would not help.
        case refused
    }

    let state: String

    var kind: Kind {
        switch state {
        case "40001", "40P01", "26000", "42P05": .repeat
        case "57P01", "57P02", "57P03", "57P05", "25006": .reconnect
        case "23505": .duplicate
        case _ where state.hasPrefix("08"): .reconnect
        default: .refused
        }
    }

    /// Whether it does not say what the server did (08…): pgbouncer says 08P01 of a server that it lost, which may have
    /// committed.
    var leavesDoubt: Bool { state.hasPrefix("08") }

    /// Whether the server ends the connection with it, and begins nothing that was sent behind (57P0…).
    var endsConnection: Bool { state.hasPrefix("57P0") }

    /// The failure that a caller of the store is told; no value is in it.
    var failure: StoreFailure {
        switch state {
        case "53100": .full
        case "25006": .unavailable("PostgreSQL 25006: it is read only")
        case "26000", "42P05":
            .unavailable("PostgreSQL \(state): a pooler stands between; set store.pooler to transaction")
        case "42P01": .unavailable("PostgreSQL 42P01: not migrated")
        default: .unavailable("PostgreSQL \(state)")
        }
    }
}
