package import Broker

extension PostgreSQLStore {
    package func audience(_ key: Digest, of session: Digest) async throws(StoreFailure) -> AudienceRow? {
        try await read(PostgreSQLAudienceSQL.byKey, [.digest(key), .digest(session)]) { rows in
            try rows.first { try AudienceRow(&$0) }
        }
    }

    package func keepAudience(_ row: AudienceRow, tokenVersion: Int64) async throws(StoreFailure) -> Bool {
        try await write(PostgreSQLAudienceSQL.keep, row.parameters + [.integer(tokenVersion)]) { rows in
            try rows.first { try $0.small() } == 1
        }
    }

    package func useAudience(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await write(PostgreSQLAudienceSQL.use, [.digest(key), .time(now)])
    }
}
