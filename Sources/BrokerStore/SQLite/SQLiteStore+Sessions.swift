package import Broker
import GRDB

extension SQLiteStore {
    package func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        let pending = endings.snapshot()
        let row = try await readers.read { database in
            try database.first(SessionSQL.byToken, [tokenDigest.sql]) { try SessionRow(&$0) }
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
        let pending = endings.snapshot()
        let lane = selector.isScan(state) ? scans : readers
        let rows = try await lane.read { database in
            try database.page(selector, state, after: after, limit: max(limit, 0), now: now)
        }
        // A session whose ending waits for the disk is left out here. The list of ended sessions shows it after the ending is
        // written.
        return state == .live ? rows.filter { pending.applied(to: $0).endedAt == nil } : rows
    }

    package func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow] {
        guard !parents.isEmpty else { return [] }
        let pending = endings.snapshot()
        let rows = try await readers.read { database in
            try parents.flatMap { parent in
                try database.rows(SessionSQL.children, [parent.sql, now.sql]) { try? SessionRow(&$0) }
            }
        }
        return rows.compactMap { $0 }.filter { pending.applied(to: $0).endedAt == nil }
    }

    package func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion {
        guard let lineage = row.lineage, endings.ending(lineage.parent) == nil else { return .parentEnded }
        let note = noting(.replaced, row.createdAt)
        return try await writer.write(committed: { if case .made(let replaced) = $0 { note(replaced) } }) { database in
            let now = row.createdAt
            guard try database.first(SessionSQL.parent, [lineage.parent.sql, now.sql], { _ in true }) == true else {
                return .parentEnded
            }
            if try database.first(SessionSQL.exists, [row.tokenDigest.sql], { _ in true }) == true {
                return .made(replaced: [])
            }
            let place = [lineage.parent.sql, lineage.place.sql]
            let others = try database.first(SessionSQL.otherPlaces, place + [now.sql]) { try $0.small() } ?? 0
            guard others < places else { return .full }
            let before = try database.rows(SessionSQL.inPlace, place, NamedSession.init)
            let replaced = try before.filter { try database.end($0, .replaced, now) }
            try database.change(SessionSQL.insert, row.values)
            return .made(replaced: replaced.compactMap { $0.tokenDigest })
        }
    }

    package func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult {
        guard endings.ending(commit.tokenDigest) == nil else { return .ended }
        return try await writer.write { database in
            let (token, sealed) = (commit.tokenDigest.sql, commit.sealed)
            let values = [token, sealed.keyID.databaseValue, sealed.envelope.sql, 1.databaseValue]
            guard try database.change(SessionSQL.registerPresence, values) == 0 else {
                try database.change(MaintenanceSQL.appendAudit, commit.audit.values)
                return .committed
            }
            return try database.first(SessionSQL.standingPresence, [token]) { try PresenceCommitResult(&$0) } ?? .ended
        }
    }

    package func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        let batch: EndedBatch
        let note = noting(reason, now)
        do throws(StoreFailure) {
            batch = try await writer.write(.ending, committed: { note($0.ended) }) { database in
                try database.endSessions(selector, reason, now, limit: limit)
            }
        } catch { return try await refused(selector, reason, now, after: error) }
        // Endings that waited for the disk were announced when they were refused, so report only the others.
        let fresh = endings.count == 0 ? batch.ended : batch.ended.filter { endings.ending($0) == nil }
        endings.remove(batch.ended)
        return EndedBatch(ended: fresh, more: batch.more, isWritten: await areKept(selector, batch.ended))
    }

    /// Returns a closure that queues endings for the endings file, if there is one.
    func noting(_ reason: EndReason, _ now: WallTime) -> @Sendable ([Digest]) -> Void {
        { [endingsLog] tokenDigests in
            endingsLog?.note(tokenDigests.map { EndingEntry(tokenDigest: $0, at: now, reason: reason) })
        }
    }

    /// Waits for the endings file, and returns whether the file has these endings; true without an endings file.
    ///
    /// A `token` selector names one session. Its ending is checked even if this call did not end it, because an earlier call
    /// may have ended it and found it not yet in the file.
    func areKept(_ selector: SessionSelector, _ ended: [Digest]) async -> Bool {
        guard let endingsLog else { return true }
        if case .token(let tokenDigest) = selector { return await endingsLog.isWritten([tokenDigest] + ended) }
        // Earlier calls with this selector may have ended sessions that are unknown here. So wait for all endings that the
        // file lacks.
        return await endingsLog.isWritten(nil)
    }

    /// Refuses the selected sessions from now on, because their endings could not be written to disk.
    ///
    /// The writer retries until the endings are written.
    func refused(
        _ selector: SessionSelector, _ reason: EndReason, _ now: WallTime, after failure: StoreFailure
    ) async throws(StoreFailure) -> EndedBatch {
        guard failure != .unavailable("closed") else { throw failure }
        // Note only sessions that exist in the store. Otherwise a stranger's invented tokens could fill the memory.
        let named = try await readers.read { database in
            try database.rows(SessionSQL.named(selector), selector.values + [(-1).databaseValue], NamedSession.init)
                .compactMap { $0.tokenDigest }
        }
        let fresh = named.filter { endings.ending($0) == nil }
        endings.add(fresh, PendingEndings.Ending(reason: reason, at: now))
        writer.retrySoon()
        return EndedBatch(ended: fresh, more: false, isWritten: false)
    }

    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure) {
        guard endings.ending(tokenDigest) == nil else { return }
        try await writer.write { database in
            let changed = try database.change(
                SessionSQL.slide, [lastUsedAt.sql, idleExpiresAt.sql, tokenDigest.sql, aliveAt.sql])
            if changed == 0 { try database.requireKnownFormat(tokenDigest) }
        }
    }

    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        guard endings.ending(claim.tokenDigest) == nil else { return .gone }
        let claimClock = claimClock
        return try await writer.write { database in
            let clock = claimClock()
            let moment = clock.moment
            guard
                var stored = try database.first(
                    SessionSQL.marks, [claim.tokenDigest.sql], { try StoredMarks(&$0, clock) }),
                stored.isLive(at: claim.now)
            else { return .gone }
            guard stored.tokenVersion == claim.tokenVersion else { return .moved }
            switch stored.marks.claim(claim.name, for: claim.lifetime, takesOver: claim.takesOver, at: moment) {
            case .busy(let rest): return .busy(for: rest)
            case .heldBack(let rest): return .heldBack(for: rest)
            case .granted(let again): if !again { stored.fence += 1 }
            }
            guard try database.change(SessionSQL.mark, stored.values(claim.tokenDigest, clock)) == 1 else {
                return .gone
            }
            return .claimed(stored.marks.grant(fence: stored.fence, at: moment))
        }
    }

    package func renewRefresh(
        tokenDigest: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        let (epoch, monotonic) = (epoch, monotonic)
        return try await writer.write { database in
            try database.change(
                SessionSQL.renew,
                [
                    Optional(monotonic() + lifetime).sql, tokenDigest.sql, fence.databaseValue, epoch.databaseValue,
                ]) == 1
        }
    }

    package func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        let claimClock = claimClock
        let isEnding = endings.ending(tokenDigest) != nil
        return try await readers.read { database in
            let clock = claimClock()
            let stored = try database.first(SessionSQL.marks, [tokenDigest.sql]) { try StoredMarks(&$0, clock) }
            return stored.map { stored in
                RefreshState(
                    tokenVersion: stored.tokenVersion,
                    claimRest: stored.marks.claimUntil.map { $0 - clock.moment },
                    isEnded: stored.isEnded || isEnding)
            }
        }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        guard endings.ending(commit.tokenDigest) == nil else { return .ended }
        return try await writer.write { database in
            let values = [
                commit.answerLost.databaseValue, commit.subjectUnchecked.databaseValue,
                commit.tokens.keyID.databaseValue, commit.tokens.envelope.sql,
                commit.facts?.keyID.databaseValue ?? .null, commit.facts?.envelope.sql ?? .null,
                commit.tokenExpiresAt.sql, commit.refreshable.databaseValue, commit.expiresAt.sql,
                commit.tokenDigest.sql,
                commit.tokenVersion.databaseValue, commit.formerFacts?.envelope.sql ?? .null,
                commit.formerTokens?.envelope.sql ?? .null,
            ]
            if try database.change(SessionSQL.commit, values) == 1 {
                if let token = commit.targetToken { try database.store(token) }
                return .committed
            }
            // Read only these columns, so that damage in another column does not make every attempt to commit fail.
            return try database.first(SessionSQL.standing, [commit.tokenDigest.sql]) { columns in
                try columns.requireFormat()
                guard columns.optionalInteger() == nil else { return .ended }
                if commit.tokenVersion < (try columns.integer()) { return .outgrown }
                return try columns.integer() == commit.tokenVersion ? .changed : .superseded
            } ?? .ended
        }
    }

    package func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        let claimClock = claimClock
        try await writer.write { database in
            let clock = claimClock()
            guard
                var stored = try database.first(
                    SessionSQL.marks, [release.tokenDigest.sql], { try StoredMarks(&$0, clock) }),
                stored.tokenVersion == release.tokenVersion, stored.fence == release.fence
            else { return }
            stored.marks.release(release, at: clock.moment)
            try database.change(SessionSQL.mark, stored.values(release.tokenDigest, clock))
        }
    }

    package func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await writer.write { database in
            _ = try database.change(SessionSQL.subjectChecked, [tokenDigest.sql, tokenVersion.databaseValue])
        }
    }

    package func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        guard endings.ending(tokenDigest) == nil else { return false }
        let note = noting(reason, now)
        return try await writer.write(committed: { if $0 { note([tokenDigest]) } }) { database in
            let values = [tokenDigest.sql, tokenVersion.databaseValue, fence.databaseValue]
            guard let name = try database.first(SessionSQL.condemnable, values, NamedSession.init) else {
                return false
            }
            return try database.end(name, reason, now)
        }
    }
}

/// A session that is to be ended: its row's id and its digest.
///
/// The digest is nil if its column is damaged. The row's format is ignored, because an ending changes only columns that every
/// format keeps.
struct NamedSession {
    let id: Int64
    let tokenDigest: Digest?

    /// Reads `id, token`.
    init(_ columns: inout Columns) throws {
        id = try columns.integer()
        tokenDigest = try? columns.digest()
    }
}

extension Database {
    /// Returns at most `limit` rows of a list.
    ///
    /// Unreadable rows are left out, and further rows are read in their place.
    fileprivate func page(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) throws -> [SessionRow] {
        let times = state == .live ? [now.sql, now.sql] : []
        var cursor = after.map { [$0.moment.sql, $0.handle.text.databaseValue] } ?? []
        var found: [SessionRow] = []
        while found.count < limit {
            let wanted = limit - found.count
            let values = selector.values + cursor + times + [wanted.databaseValue]
            let listed = try rows(SessionSQL.page(selector, state, after: !cursor.isEmpty), values) { columns in
                let place = [try columns.integer().databaseValue, try columns.text().databaseValue]
                return (place: place, row: try? SessionRow(&columns))
            }
            found += listed.compactMap { $0.row }
            guard listed.count == wanted, let last = listed.last else { break }
            cursor = last.place
        }
        return found
    }

    /// Ends the selected sessions, at most `limit`.
    func endSessions(
        _ selector: SessionSelector, _ reason: EndReason, _ now: WallTime, limit: Int
    ) throws -> EndedBatch {
        let named = try rows(SessionSQL.named(selector), selector.values + [limit.databaseValue], NamedSession.init)
        let ended = try named.filter { try end($0, reason, now) }
        return EndedBatch(ended: ended.compactMap { $0.tokenDigest }, more: named.count == limit)
    }

    /// Ends one session: its tokens go to the outbox, and its row becomes a tombstone.
    ///
    /// If a damaged column violates a constraint of the session's table or of the outbox, the row is deleted, so that it
    /// cannot block other endings. Returns false if the session had already ended.
    func end(_ name: NamedSession, _ reason: EndReason, _ now: WallTime) throws -> Bool {
        do {
            try change(SessionSQL.toOutbox, [name.id.databaseValue, now.sql])
            return try change(SessionSQL.bury, [now.sql, reason.rawValue.databaseValue, name.id.databaseValue]) == 1
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return try change(SessionSQL.remove, [name.id.databaseValue]) == 1
        }
    }

    /// Throws `newerFormat` if a newer version wrote the session's row.
    func requireKnownFormat(_ tokenDigest: Digest) throws {
        _ = try first(SessionSQL.exists, [tokenDigest.sql]) { try $0.requireFormat() }
    }
}
