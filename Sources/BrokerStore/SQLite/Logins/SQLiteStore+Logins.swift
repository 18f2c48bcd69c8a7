package import Broker
import GRDB

extension SQLiteStore {
    package func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        let pending = pendingLogins
        return try await writer.write { database in
            let ofToken =
                try database.first(
                    LoginSQL.countPendingOfToken, ["login_token": row.loginTokenDigest.sql, "now": row.createdAt.sql]
                ) { try $0.small() } ?? 0
            if ofToken >= limits.pendingPerToken { return .tooManyForToken }
            guard try pending.hasRoom(limits.pending, at: row.createdAt, database) else { return .tooManyPending }
            try database.change(LoginSQL.insert, row.values)
            if row.status == .pending { pending.added(expiresAt: row.expiresAt) }
            return .inserted
        }
    }

    package func login(state: Digest) async throws(StoreFailure) -> LoginRow? {
        try await readers.read { database in
            try database.first(LoginSQL.byState, ["state": state.sql]) { try LoginRow(&$0) }
        }
    }

    package func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try await readers.read { database in
            try database.rows(
                LoginSQL.pending,
                [
                    "login_token": loginTokenDigest.sql, "now": now.sql,
                    "limit": RetentionPeriods.pendingLogins.databaseValue,
                ]
            ) { try? LoginRow(&$0) }.compactMap { $0 }
        }
    }

    package func burnLogin(state: Digest) async throws(StoreFailure) -> Bool {
        let pending = pendingLogins
        return try await writer.write { database in
            guard let expiresAt = try database.first(LoginSQL.burn, ["state": state.sql], { try $0.time() }) else {
                // The login is gone or taken, or a newer version wrote the row. Reading the row throws in the last case.
                _ = try database.first(LoginSQL.byState, ["state": state.sql]) { try LoginRow(&$0) }
                return false
            }
            pending.removed(expiresAt: expiresAt)
            return true
        }
    }

    package func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        try await writer.write { database in
            if try database.change(HandoffSQL.keep, row.values) == 1 { return true }
            return try database.first(HandoffSQL.byLogin, ["login": row.login.sql]) { try HandoffRow(&$0) }?.key
                == row.key
        }
    }

    package func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await readers.read { database in
            try database.first(HandoffSQL.byKey, ["key": key.sql]) { try HandoffRow(&$0) }
        }
    }

    package func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await readers.read { database in
            try database.first(HandoffSQL.byLogin, ["login": login.sql]) { try HandoffRow(&$0) }
        }
    }

    package func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow? {
        try await readers.read { database in
            try database.first(RegistrationSQL.byKey, ["key": key.sql]) { try RegistrationRow(&$0) }
        }
    }

    package func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure) {
        try await writer.write { database in _ = try database.change(RegistrationSQL.insert, row.values) }
    }
}
