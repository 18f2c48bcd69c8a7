package import Broker

extension PostgreSQLStore: SharedStore {
    package func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) {
        if let endings { endings.listen(handler) } else { handler(.deaf) }
    }

    package func time() async throws(StoreFailure) -> WallTime {
        let time = try await read(PostgreSQLMaintenanceSQL.time, []) { rows in try rows.first { try $0.time() } }
        guard let time else { throw .unavailable("the server does not say its time") }
        return time
    }

    package func tokenVersions(
        of tokens: [Digest]
    ) async throws(StoreFailure) -> [(token: Digest, version: Int64)] {
        guard !tokens.isEmpty else { return [] }
        return try await scan(PostgreSQLSessionSQL.tokenVersions, [.list(of: .bytes, tokens.map { .digest($0) })]) {
            rows in try rows.map { (token: try $0.digest(), version: try $0.integer()) }
        }
    }

    package func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool {
        try await write(PostgreSQLMaintenanceSQL.takeProof, [.digest(name), .time(until)]) { $0.count == 1 }
    }
}

extension PostgreSQLStore {
    /// Returns what the clock of a server says.
    package static func time(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> WallTime? {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            let row = try connection.execute(PostgreSQLMaintenanceSQL.time.sql, within: .seconds(5))
            return row.first.flatMap { $0 }.flatMap { Int64($0) }.map { WallTime(milliseconds: $0) }
        }
    }
}
