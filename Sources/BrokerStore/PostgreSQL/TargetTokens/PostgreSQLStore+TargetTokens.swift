package import Broker

extension PostgreSQLStore {
    package func targetToken(_ key: Digest, of session: Digest) async throws(StoreFailure) -> TargetTokenRow? {
        try await read(PostgreSQLTargetTokenSQL.byKey, ["key": .digest(key), "session": .digest(session)]) { rows in
            try rows.first { try TargetTokenRow(&$0) }
        }
    }

    package func keepTargetToken(
        _ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?
    ) async throws(StoreFailure) -> Bool {
        let values =
            row.parameters
            + ["token_version": .integer(tokenVersion), "tokens": .bytes(tokens?.envelope)]
        return try await write(PostgreSQLTargetTokenSQL.keep, values) { rows in
            try rows.first { try $0.small() } == 1
        }
    }

    package func useTargetToken(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await write(PostgreSQLTargetTokenSQL.use, ["key": .digest(key), "used_at": .time(now)])
    }
}
