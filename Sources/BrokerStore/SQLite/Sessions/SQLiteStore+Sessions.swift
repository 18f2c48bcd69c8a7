package import Broker
import GRDB
import Synchronization

extension SQLiteStore {
    package func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        let pending = endings.snapshot()
        let row = try await readers.read { database in
            try database.first(SessionSQL.byToken, ["token": tokenDigest.sql]) { try SessionRow(&$0) }
        }
        return row.map { pending.applied(to: $0) }
    }

    package func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow? {
        let pending = endings.snapshot()
        let row = try await readers.read { database in
            try database.first(SessionSQL.byHandle, ["handle": handle.text.databaseValue]) { try SessionRow(&$0) }
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
            try database.rows(
                SessionSQL.named(selector), selector.values + ["limit": (-1).databaseValue], NamedSession.init
            )
            .compactMap { $0.tokenDigest }
        }
        let fresh = named.filter { endings.ending($0) == nil }
        endings.add(fresh, PendingEndings.Ending(reason: reason, at: now))
        writer.retrySoon()
        return EndedBatch(ended: fresh, more: false, isWritten: false)
    }

    package func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult {
        let result: LogoutTokenResult
        let note = noting(.providerLogout, now)
        do throws(StoreFailure) {
            result = try await writer.write(
                .ending,
                committed: { if case .ended(let batch) = $0 { note(batch.ended) } }
            ) { database in
                let known = try database.first(
                    SessionSQL.knownLogoutToken, ["id": id.sql, "now": now.sql]
                ) { _ in true }
                if known == true { return .replayed }
                let batch = try database.endSessions(selector, .providerLogout, now, limit: limit)
                if !batch.more {
                    try database.change(
                        SessionSQL.rememberLogoutToken, ["id": id.sql, "until": until.sql, "now": now.sql])
                }
                return .ended(batch)
            }
        } catch { return .ended(try await refused(selector, .providerLogout, now, after: error)) }
        var batch = EndedBatch(ended: [], more: false)
        if case .ended(let ended) = result {
            batch = ended
        } else if !unkeptNotices.withLock({ $0.contains(id) }) {
            return result
        }
        batch.isWritten = await areKept(selector, batch.ended)
        let isKept = batch.isWritten
        unkeptNotices.withLock { unkept in
            if isKept { unkept.remove(id) } else { unkept.insert(id) }
        }
        return .ended(batch)
    }

    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure) {
        guard endings.ending(tokenDigest) == nil else { return }
        try await writer.write { database in
            let changed = try database.change(
                SessionSQL.slide,
                [
                    "last_used_at": lastUsedAt.sql, "idle_expires_at": idleExpiresAt.sql, "token": tokenDigest.sql,
                    "alive_at": aliveAt.sql,
                ])
            if changed == 0 { try database.requireKnownFormat(tokenDigest) }
        }
    }
}

extension Database {
    /// Returns at most `limit` rows of a list.
    ///
    /// Unreadable rows are left out, and further rows are read in their place.
    fileprivate func page(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) throws -> [SessionRow] {
        let time: Named<DatabaseValue> = state == .live ? ["now": now.sql] : [:]
        var place = after.map { (moment: $0.moment.sql, handle: $0.handle.text.databaseValue) }
        var found: [SessionRow] = []
        while found.count < limit {
            let wanted = limit - found.count
            let cursor: Named<DatabaseValue> =
                place.map { ["after_moment": $0.moment, "after_handle": $0.handle] } ?? [:]
            let values = selector.values + cursor + time + ["limit": wanted.databaseValue]
            let listed = try rows(SessionSQL.page(selector, state, after: place != nil), values) { columns in
                let place = (moment: try columns.integer().databaseValue, handle: try columns.text().databaseValue)
                return (place: place, row: try? SessionRow(&columns))
            }
            found += listed.compactMap { $0.row }
            guard listed.count == wanted, let last = listed.last else { break }
            place = last.place
        }
        return found
    }

    /// Ends the selected sessions, at most `limit`.
    func endSessions(
        _ selector: SessionSelector, _ reason: EndReason, _ now: WallTime, limit: Int
    ) throws -> EndedBatch {
        let values = selector.values + ["limit": limit.databaseValue]
        let named = try rows(SessionSQL.named(selector), values, NamedSession.init)
        let ended = try named.filter { try end($0, reason, now) }
        return EndedBatch(ended: ended.compactMap { $0.tokenDigest }, more: named.count == limit)
    }

    /// Ends one session: its tokens go to the outbox, and its row becomes a tombstone.
    ///
    /// The tokens of an exported session are only deleted.
    ///
    /// If a damaged column violates a constraint of the session's table or of the outbox, the row is deleted, so that it
    /// cannot block other endings. Returns false if the session had already ended.
    func end(_ name: NamedSession, _ reason: EndReason, _ now: WallTime) throws -> Bool {
        do {
            if reason.revokesTokens {
                try change(SessionSQL.toOutbox, ["now": now.sql, "id": name.id.databaseValue])
            }
            let values: Named = [
                "now": now.sql, "reason": reason.stored.databaseValue, "id": name.id.databaseValue,
                "exported": (reason == .exported).databaseValue,
            ]
            return try change(SessionSQL.bury, values) == 1
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return try change(SessionSQL.remove, ["id": name.id.databaseValue]) == 1
        }
    }

    /// Throws `newerFormat` if a newer version wrote the session's row.
    func requireKnownFormat(_ tokenDigest: Digest) throws {
        _ = try first(SessionSQL.exists, ["token": tokenDigest.sql]) { try $0.requireFormat() }
    }
}
