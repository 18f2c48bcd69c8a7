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

    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        guard endings.ending(claim.token) == nil else { return .gone }
        let (epoch, monotonic) = (epoch, monotonic)
        return try await writer.write { database in
            let moment = monotonic()
            guard
                var stored = try database.first(
                    SessionSQL.marks, [claim.token.sql], { try StoredMarks(&$0, epoch: epoch, now: moment) }),
                stored.isLive(at: claim.now)
            else { return .gone }
            guard stored.tokenVersion == claim.tokenVersion else { return .moved }
            switch stored.marks.claim(claim.name, for: claim.lifetime, takesOver: claim.takesOver, at: moment) {
            case .busy(let rest): return .busy(for: rest)
            case .heldBack(let rest): return .heldBack(for: rest)
            case .granted(let again): if !again { stored.fence += 1 }
            }
            guard try database.change(SessionSQL.mark, stored.values(claim.token, epoch: epoch)) == 1 else {
                return .gone
            }
            return .claimed(stored.marks.grant(fence: stored.fence, at: moment))
        }
    }

    package func renewRefresh(
        token: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        let (epoch, monotonic) = (epoch, monotonic)
        return try await writer.write { database in
            try database.change(
                SessionSQL.renew,
                [
                    Optional(monotonic() + lifetime).sql, token.sql, fence.databaseValue, epoch.databaseValue,
                ]) == 1
        }
    }

    package func refreshState(_ token: Digest) async throws(StoreFailure) -> RefreshState? {
        let (epoch, monotonic) = (epoch, monotonic)
        let isEnding = endings.ending(token) != nil
        return try await readers.read { database in
            let moment = monotonic()
            let stored = try database.first(SessionSQL.marks, [token.sql]) {
                try StoredMarks(&$0, epoch: epoch, now: moment)
            }
            return stored.map { stored in
                let rest = stored.marks.claimUntil.map { $0 - moment }
                return RefreshState(
                    tokenVersion: stored.tokenVersion, claimFor: rest.flatMap { $0 > .zero ? $0 : nil },
                    isEnded: stored.isEnded || isEnding)
            }
        }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        guard endings.ending(commit.token) == nil else { return .ended }
        return try await writer.write { database in
            let values = [
                commit.subjectUnchecked.databaseValue, commit.tokens.keyID.databaseValue, commit.tokens.envelope.sql,
                commit.facts?.keyID.databaseValue ?? .null, commit.facts?.envelope.sql ?? .null,
                commit.tokenExpiresAt.sql, commit.refreshable.databaseValue, commit.expiresAt.sql, commit.token.sql,
                commit.tokenVersion.databaseValue,
            ]
            if try database.change(SessionSQL.commit, values) == 1 { return .committed }
            // Nothing else of the row is read: a damaged one must not keep its pair waiting for ever.
            let isLive = try database.first(SessionSQL.standing, [commit.token.sql]) { columns in
                try columns.requireFormat()
                return columns.optionalInteger() == nil
            }
            return isLive ?? false ? .superseded : .ended
        }
    }

    package func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        let (epoch, monotonic) = (epoch, monotonic)
        try await writer.write { database in
            let moment = monotonic()
            guard
                var stored = try database.first(
                    SessionSQL.marks, [release.token.sql], { try StoredMarks(&$0, epoch: epoch, now: moment) }),
                stored.tokenVersion == release.tokenVersion, stored.fence == release.fence
            else { return }
            stored.marks.release(release, at: moment)
            try database.change(SessionSQL.mark, stored.values(release.token, epoch: epoch))
        }
    }

    package func markSubjectChecked(token: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(SessionSQL.subjectChecked, [token.sql, tokenVersion.databaseValue])
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
