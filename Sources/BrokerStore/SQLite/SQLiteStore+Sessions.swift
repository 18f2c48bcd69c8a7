package import Broker
import GRDB

extension SQLiteStore {
    /// How many sessions one transaction ends; the next goes on, so that ending all does not hold up the others.
    private static let endingBatch = 200

    package func session(token: Digest) async throws(StoreFailure) -> SessionRow? {
        let pending = endings.snapshot()
        let row = try await readers.read { database in
            try database.first(SessionSQL.byToken, [token.sql]) { try SessionRow(&$0) }
        }
        return row.map { pending.applied(to: $0) }
    }

    package func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow? {
        let pending = endings.snapshot()
        let row = try await readers.read { database in
            try database.first(SessionSQL.byHandle, [handle.text.databaseValue]) { try SessionRow(&$0) }
        }
        return row.map { pending.applied(to: $0) }
    }

    package func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow] {
        let cursor = after.map { [$0.moment.sql, $0.handle.text.databaseValue] } ?? []
        let times = state == .live ? [now.sql, now.sql] : []
        let values = selector.values + cursor + times + [max(limit, 0).databaseValue]
        let pending = endings.snapshot()
        let rows = try await readers.read { database in
            try database.rows(SessionSQL.page(selector, state, after: after != nil), values) { try SessionRow(&$0) }
        }
        // One whose ending waits for the disk is neither live nor a tombstone yet.
        return state == .live ? rows.filter { pending.applied(to: $0).endedAt == nil } : rows
    }

    package func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> [Digest] {
        var ended: [Digest] = []
        do throws(StoreFailure) {
            while true {
                let batch = try await writer.write { database in
                    try database.endSessions(selector, reason, now, limit: Self.endingBatch)
                }
                ended += batch
                if batch.count < Self.endingBatch { return ended }
            }
        } catch {
            guard case .unavailable(let cause) = error, cause.hasPrefix("SQLite ") else { throw error }
            // The disk would not take it: the sessions are refused from memory until it does (note 20).
            let named = try await readers.read { database in
                try database.rows(SessionSQL.named(selector), selector.values + [(-1).databaseValue], NamedSession.init)
            }
            let fresh = named.map { $0.token }.filter { endings.ending($0) == nil }
            endings.add(fresh, PendingEndings.Ending(reason: reason, at: now))
            return ended + fresh
        }
    }

    package func slideSession(
        token: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime
    ) async throws(StoreFailure) {
        guard endings.ending(token) == nil else { return }
        try await writer.write { database in
            let changed = try database.change(SessionSQL.slide, [lastUsedAt.sql, idleExpiresAt.sql, token.sql])
            if changed == 0 { try database.requireKnownFormat(token) }
        }
    }

    package func claimRefresh(
        token: Digest, tokenVersion: Int64, now: WallTime, claimUntil: WallTime
    ) async throws(StoreFailure) -> RefreshClaimResult {
        guard endings.ending(token) == nil else { return .gone }
        return try await writer.write { database in
            let values = [claimUntil.sql, token.sql, tokenVersion.databaseValue, now.sql]
            if let fence = try database.first(SessionSQL.claimFree, values, { try $0.integer() }) {
                return .claimed(fence: fence, takenOver: false)
            }
            if let fence = try database.first(SessionSQL.claimLapsed, values, { try $0.integer() }) {
                return .claimed(fence: fence, takenOver: true)
            }
            // Not granted; the row says why.
            guard let row = try database.first(SessionSQL.byToken, [token.sql], { try SessionRow(&$0) }),
                row.isLive(at: now)
            else { return .gone }
            guard row.tokenVersion == tokenVersion, let until = row.claimUntil else { return .moved }
            return .busy(until: until)
        }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        guard endings.ending(commit.token) == nil else { return .ended }
        return try await writer.write { database in
            let values = [
                commit.tokens.keyID.databaseValue, commit.tokens.envelope.sql,
                commit.facts?.keyID.databaseValue ?? .null, commit.facts?.envelope.sql ?? .null,
                commit.tokenExpiresAt.sql, commit.refreshable.databaseValue, commit.expiresAt.sql, commit.token.sql,
                commit.tokenVersion.databaseValue,
            ]
            if try database.change(SessionSQL.commit, values) == 1 { return .committed }
            let row = try database.first(SessionSQL.byToken, [commit.token.sql]) { try SessionRow(&$0) }
            guard let row, row.endedAt == nil else { return .ended }
            return .superseded
        }
    }

    package func releaseRefresh(token: Digest, tokenVersion: Int64, fence: Int64) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(
                SessionSQL.releaseClaim, [token.sql, tokenVersion.databaseValue, fence.databaseValue])
        }
    }

    package func condemnRefresh(
        token: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        guard endings.ending(token) == nil else { return false }
        return try await writer.write { database in
            let values = [token.sql, tokenVersion.databaseValue, fence.databaseValue]
            guard let name = try database.first(SessionSQL.condemnable, values, NamedSession.init) else {
                return false
            }
            return try database.end(name, reason, now)
        }
    }
}

/// A session to be ended: where it lies and its digest.
struct NamedSession {
    let id: Int64
    let token: Digest

    /// Reads `format, id, token`.
    init(_ columns: inout Columns) throws {
        try columns.requireFormat()
        id = try columns.integer()
        token = try columns.digest()
    }
}

extension Database {
    /// Ends what the selector names, at most `limit`, and returns the token digests of those it ended.
    func endSessions(
        _ selector: SessionSelector, _ reason: EndReason, _ now: WallTime, limit: Int
    ) throws -> [Digest] {
        let named = try rows(SessionSQL.named(selector), selector.values + [limit.databaseValue], NamedSession.init)
        return try named.filter { try end($0, reason, now) }.map { $0.token }
    }

    /// Ends one session: its tokens to the outbox, its row a tombstone.
    ///
    /// False when it had ended.
    func end(_ name: NamedSession, _ reason: EndReason, _ now: WallTime) throws -> Bool {
        try change(SessionSQL.toOutbox, [name.id.databaseValue, now.sql])
        return try change(SessionSQL.bury, [now.sql, reason.rawValue.databaseValue, name.id.databaseValue]) == 1
    }

    /// Throws `newerFormat` when the session's row is a newer version's.
    func requireKnownFormat(_ token: Digest) throws {
        _ = try first(SessionSQL.exists, [token.sql]) { try $0.requireFormat() }
    }
}
