package import Broker

extension PostgreSQLStore {
    package func audience(_ key: Digest, of session: Digest) async throws(StoreFailure) -> AudienceRow? {
        try await read(PostgreSQLAudienceSQL.byKey, [.digest(key), .digest(session)]) { rows in
            try rows.first { try AudienceRow(&$0) }
        }
    }

    package func keepAudience(
        _ row: AudienceRow, tokenVersion: Int64, of tokens: Sealed?
    ) async throws(StoreFailure) -> Bool {
        let values: [Parameter] = row.parameters + [.integer(tokenVersion), .bytes(tokens?.envelope)]
        return try await write(PostgreSQLAudienceSQL.keep, values) { rows in
            try rows.first { try $0.small() } == 1
        }
    }

    package func useAudience(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await write(PostgreSQLAudienceSQL.use, [.digest(key), .time(now)])
    }
}
