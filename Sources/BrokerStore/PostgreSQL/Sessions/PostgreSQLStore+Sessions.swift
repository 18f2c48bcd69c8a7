package import Broker

extension PostgreSQLStore {
    package func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        try await read(PostgreSQLSessionSQL.byToken, ["token": .digest(tokenDigest)]) { rows in
            try rows.first { try SessionRow(&$0) }
        }
    }

    package func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow? {
        try await read(PostgreSQLSessionSQL.byHandle, ["handle": .text(handle.text)]) { rows in
            try rows.first { try SessionRow(&$0) }
        }
    }

    package func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow] {
        let limit = max(limit, 0)
        let lane = selector.isOfMany ? lanes.walks : lanes.scans
        var place = after.map { (moment: $0.moment, handle: $0.handle.text) }
        var found: [SessionRow] = []
        // Unreadable rows are left out, and further rows are read in their place.
        while found.count < limit {
            let wanted = limit - found.count
            let cursor: Named<Parameter> =
                place.map { ["after_moment": .time($0.moment), "after_handle": .text($0.handle)] } ?? [:]
            let values =
                selector.parameters + cursor + (state == .live ? ["now": .time(now)] : [:])
                + ["limit": .integer(wanted)]
            let statement = PostgreSQLSessionSQL.page(selector, state, after: place != nil)
            let listed = try await run(lane, [BoundStatement(statement, values)], isWrite: false) { rows in
                try rows.map { row in
                    let place = (moment: try row.time(), handle: try row.text())
                    return (place: place, row: try? SessionRow(&row))
                }
            }
            found += listed.compactMap { $0.row }
            guard listed.count == wanted, let last = listed.last else { break }
            place = last.place
        }
        return found
    }

    package func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        let values =
            selector.parameters
            + ["reason": .text(reason.rawValue), "now": .time(now), "limit": .integer(max(limit, 0))]
        let batch = try await write(PostgreSQLSessionSQL.end(selector), values) { rows -> EndedBatch in
            let named = try rows.first { try $0.small() } ?? 0
            let ended = try rows.map { row -> Digest? in
                _ = try row.integer()
                return try row.optionalDigest()
            }
            return EndedBatch(ended: ended.compactMap { $0 }, more: named == limit && limit > 0)
        }
        if batch.ended.isEmpty { try await confirm() } else { endings?.tell(batch.ended, reason) }
        return batch
    }

    package func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult {
        let values =
            selector.parameters
            + [
                "reason": .text(EndReason.providerLogout.rawValue), "now": .time(now), "limit": .integer(max(limit, 1)),
                "id": .digest(id), "until": .time(until),
            ]
        let result = try await write(PostgreSQLSessionSQL.consume(selector), values) { rows -> LogoutTokenResult in
            let counts = try rows.first { (try $0.small(), try $0.small(), try $0.small()) }
            guard let (known, named, remembered) = counts, known == 0 else { return .replayed }
            let ended = try rows.map { row -> Digest? in
                for _ in 0..<3 { _ = try row.integer() }
                return try row.optionalDigest()
            }.compactMap { $0 }
            let hasMore = named >= max(limit, 1)
            // The id was stored by another request with the same token since this statement began.
            if !hasMore, remembered == 0, ended.isEmpty { return .replayed }
            return .ended(EndedBatch(ended: ended, more: hasMore))
        }
        switch result {
        case .ended(let batch): endings?.tell(batch.ended, .providerLogout)
        case .replayed: try await confirm()
        }
        return result
    }

    package func tokenVersions(
        of tokenDigests: [Digest]
    ) async throws(StoreFailure) -> [StandingSession] {
        guard !tokenDigests.isEmpty else { return [] }
        return try await scan(PostgreSQLSessionSQL.tokenVersions, ["tokens": .digests(tokenDigests)]) { rows in
            try rows.map { row in
                StandingSession(
                    tokenDigest: try row.digest(), version: try row.integer(), hasPresence: try row.truth())
            }
        }
    }

    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure) {
        try await write(
            PostgreSQLSessionSQL.slide,
            [
                "token": .digest(tokenDigest), "last_used_at": .time(lastUsedAt),
                "idle_expires_at": .time(idleExpiresAt), "alive_at": .time(aliveAt),
            ]
        ) { rows in _ = try rows.first { try $0.requireFormat() } }
    }
}

extension SessionSelector {
    /// Whether the selector can match sessions of many users.
    ///
    /// Only operators use such selectors.
    fileprivate var isOfMany: Bool {
        switch self {
        case .token, .handle, .subject, .subjectExcept: false
        case .sid, .logout, .provider, .client, .all: true
        }
    }
}
