package import Broker

extension PostgreSQLStore {
    package func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        guard try await hasRoom(limits.pending, at: row.createdAt) else { return .tooManyPending }
        let turn = row.loginTokenDigest.bytes.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) }
        let isInserted = try await run(
            lanes.writes,
            [
                BoundStatement(PostgreSQLLoginSQL.turn, ["turn": .integer(turn)]),
                BoundStatement(PostgreSQLLoginSQL.insert, row.parameters + ["limit": .integer(limits.pendingPerToken)]),
            ], isWrite: true
        ) { $0.count == 1 }
        guard isInserted else { return .tooManyForToken }
        if row.status == .pending { pendingLogins.added(expiresAt: row.expiresAt) }
        return .inserted
    }

    private func hasRoom(_ limit: Int, at now: WallTime) async throws(StoreFailure) -> Bool {
        if let known = pendingLogins.hasRoom(limit, at: now) { return known }
        let (count, nextExpiry) = try await scan(
            PostgreSQLLoginSQL.countPending, ["now": .time(now), "limit": .integer(limit + Self.countedBeyond)]
        ) { rows -> (Int, WallTime?) in
            try rows.first { (try $0.small(), $0.optionalTime()) } ?? (0, nil)
        }
        pendingLogins.counted(count, nextExpiry: nextExpiry, at: now)
        return count < limit
    }

    /// The number of logins above the cap at which counting stops.
    private static let countedBeyond = 1_000

    package func login(state: Digest) async throws(StoreFailure) -> LoginRow? {
        try await read(PostgreSQLLoginSQL.byState, ["state": .digest(state)]) { rows in
            try rows.first { try LoginRow(&$0) }
        }
    }

    package func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try await read(
            PostgreSQLLoginSQL.pending,
            [
                "login_token": .digest(loginTokenDigest), "now": .time(now),
                "limit": .integer(RetentionPeriods.pendingLogins),
            ]
        ) { rows in rows.map { try? LoginRow(&$0) }.compactMap { $0 } }
    }

    package func burnLogin(state: Digest) async throws(StoreFailure) -> Bool {
        let expiresAt = try await write(PostgreSQLLoginSQL.burn, ["state": .digest(state)]) { rows -> WallTime? in
            try rows.first { row -> WallTime? in
                try row.requireFormat()
                return row.optionalTime()
            } ?? nil
        }
        guard let expiresAt else { return false }
        pendingLogins.removed(expiresAt: expiresAt)
        return true
    }

    package func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        if try await write(PostgreSQLLoginSQL.keepHandoff, row.parameters, { $0.count == 1 }) { return true }
        return try await handoff(login: row.login)?.key == row.key
    }

    package func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await read(PostgreSQLLoginSQL.handoffByKey, ["key": .digest(key)]) { rows in
            try rows.first { try HandoffRow(&$0) }
        }
    }

    package func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await read(PostgreSQLLoginSQL.handoffByLogin, ["login": .digest(login)]) { rows in
            try rows.first { try HandoffRow(&$0) }
        }
    }

    package func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow? {
        try await read(PostgreSQLLoginSQL.registration, ["key": .digest(key)]) { rows in
            try rows.first { try RegistrationRow(&$0) }
        }
    }

    package func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure) {
        try await write(PostgreSQLLoginSQL.insertRegistration, row.parameters)
    }
}
