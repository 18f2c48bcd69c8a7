import Broker

/// A fault that the server reported.
///
/// Only this type interprets SQLSTATE codes.
struct ServerFault: Error, Sendable, Equatable {
    /// The way to handle a fault.
    enum Kind: Sendable, Equatable {
        /// A conflict with another transaction, or a lost prepared statement. The statement changed nothing, so it is sent
        /// again (40001, 40P01, 26000, 42P05).
        case `repeat`
        /// The connection is unusable, so the statement is sent again on another connection (08…, 57P0…, 25006).
        ///
        /// The statement changed nothing, unless `leavesDoubt`.
        case reconnect
        /// The row already exists (23505).
        case duplicate
        /// The statement changed nothing, and an immediate retry would fail too.
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

    /// Whether the statement may have taken effect although it failed (08…).
    ///
    /// The pooler pgbouncer reports 08P01 for a server that it lost and that may have committed.
    var leavesDoubt: Bool { state.hasPrefix("08") }

    /// Whether the server ends the connection after this fault, and skips the statements that were sent later (57P0…).
    var endsConnection: Bool { state.hasPrefix("57P0") }

    /// The failure that the store's caller receives.
    ///
    /// The failure contains no values of the statement.
    var failure: StoreFailure {
        switch state {
        case "53100": .full
        case "25006": .unavailable("PostgreSQL 25006: it is read only")
        case "26000", "42P05":
            .unavailable(
                "PostgreSQL \(state): prepared statements fail, probably behind a pooler; set store.pooler to transaction"
            )
        case "42P01": .unavailable("PostgreSQL 42P01: not migrated")
        default: .unavailable("PostgreSQL \(state)")
        }
    }
}
