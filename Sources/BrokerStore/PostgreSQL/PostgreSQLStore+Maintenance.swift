package import Broker

extension PostgreSQLStore {
    package func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        guard !rows.isEmpty else { return }
        try await write(PostgreSQLMaintenanceSQL.addOutbox, rows.parameters)
    }

    package func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow] {
        let rows = try await write(
            PostgreSQLMaintenanceSQL.takeOutbox,
            [
                .time(now), .time(until), .integer(max(limit, 0)),
                .time(now.advanced(by: RetentionPeriods.longestPostponement)),
            ]
        ) { rows in rows.map { try? OutboxRow(&$0) } }
        return rows.compactMap { $0 }.sorted { $0.createdAt < $1.createdAt }
    }

    package func postponeOutbox(_ id: Digest, until: WallTime, counting: Bool) async throws(StoreFailure) {
        try await write(
            PostgreSQLMaintenanceSQL.postponeOutbox, [.digest(id), .time(until), .integer(counting ? 0 : 1)])
    }

    package func removeOutbox(_ id: Digest) async throws(StoreFailure) {
        try await write(PostgreSQLMaintenanceSQL.removeOutbox, [.digest(id)])
    }

    package func outboxCount() async throws(StoreFailure) -> Int {
        try await walk(PostgreSQLMaintenanceSQL.countOutbox, []) { rows in try rows.first { try $0.small() } ?? 0 }
    }

    package func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult {
        let values =
            selector.parameters
            + [
                .text(EndReason.providerLogout.rawValue), .time(now), .integer(max(limit, 1)), .digest(id),
                .time(until),
            ]
        let result = try await write(PostgreSQLSessionSQL.consume(selector), values) { rows -> LogoutTokenResult in
            let counts = try rows.first { (try $0.small(), try $0.small(), try $0.small()) }
            guard let (known, named, remembered) = counts, known == 0 else { return .replayed }
            let ended = try rows.map { row -> Digest? in
                for _ in 0..<3 { _ = try row.integer() }
                return try row.optionalDigest()
            }.compactMap { $0 }
            let hasMore = named >= max(limit, 1)
            // Another was first with the same token, at the same time.
            if !hasMore, remembered == 0, ended.isEmpty { return .replayed }
            return .ended(EndedBatch(ended: ended, more: hasMore))
        }
        switch result {
        case .ended(let batch): endings?.tell(batch.ended, .providerLogout)
        case .replayed: try await confirm()
        }
        return result
    }

    package func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLMaintenanceSQL.acquireLease, [.text(name), .text(owner), .time(until), .time(now)]
        ) { $0.count == 1 }
    }

    package func releaseLease(_ name: String, owner: String) async throws(StoreFailure) {
        try await write(PostgreSQLMaintenanceSQL.releaseLease, [.text(name), .text(owner)])
    }

    package func lease(_ name: String) async throws(StoreFailure) -> WallTime? {
        try await read(PostgreSQLMaintenanceSQL.lease, [.text(name)]) { rows in try rows.first { try $0.time() } }
    }

    package func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int] {
        guard !counts.isEmpty else { return [:] }
        // In one order everywhere: two that wait for each other's rows would be a deadlock.
        let sorted = counts.sorted { $0.key < $1.key }
        let values: [Parameter] = [
            .list(of: .text, sorted.map { .text($0.key) }), .list(of: .integer, sorted.map { .integer($0.value) }),
        ]
        return try await write(PostgreSQLMaintenanceSQL.countSeals, values) { rows in
            try rows.map { (try $0.text(), try $0.small()) }.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
    }

    package func appendAudit(_ row: AuditRow) async throws(StoreFailure) {
        try await write(
            PostgreSQLMaintenanceSQL.appendAudit,
            [.time(row.at), .text(row.actor), .text(row.action), .text(row.target), .text(row.outcome)])
    }

    package func sweep(
        now: WallTime, limit: Int, lapsedSince: WallTime?
    ) async throws(StoreFailure) -> SweepResult {
        let limit = max(limit, 0)
        let count: @Sendable (ResultRows) throws -> Int = { rows in try rows.first { try $0.small() } ?? 0 }
        let spent = now.advanced(by: .zero - RetentionPeriods.spent)
        var result = SweepResult()
        result.touched += try await scan(
            PostgreSQLMaintenanceSQL.sweepSpent, [.time(spent), .time(now), .integer(limit)], isWrite: true, count)
        guard let lapsedSince else { return result }
        result.touched += try await scan(
            PostgreSQLMaintenanceSQL.sweepUsed, [.time(spent), .time(now), .integer(limit)], isWrite: true, count)
        let buried = now.advanced(by: .zero - RetentionPeriods.tombstone)
        result.touched += try await scan(
            PostgreSQLMaintenanceSQL.sweepTombstones, [.time(buried), .integer(limit)], isWrite: true, count)
        result.ended = try await scan(
            PostgreSQLMaintenanceSQL.lapsedSince,
            [.time(now), .time(lapsedSince), .integer(RetentionPeriods.announcedLapses)]
        ) { rows in try rows.map { try EndedSession(lapsed: &$0) } }
        // Listeners of other replicas hear of lapses by whoever sweeps.
        endings?.tell(result.ended)
        result.touched += try await buryLapsed(
            before: now.advanced(by: .zero - RetentionPeriods.lapsed), at: now, limit: limit)
        return result
    }

    /// Makes tombstones of sessions that lapsed before a time, at most `limit`; returns of how many.
    private func buryLapsed(before certain: WallTime, at now: WallTime, limit: Int) async throws(StoreFailure) -> Int {
        let lapsed = try await scan(PostgreSQLMaintenanceSQL.lapsed, [.time(certain), .integer(limit)]) { rows in
            try rows.map { try EndedSession(lapsed: &$0) }
        }
        guard !lapsed.isEmpty else { return 0 }
        let values: [Parameter] = [
            .list(of: .bytes, lapsed.map { .digest($0.token) }),
            .list(of: .text, lapsed.map { .text($0.reason.rawValue) }), .time(now), .time(certain),
        ]
        return try await scan(PostgreSQLMaintenanceSQL.buryLapsed, values, isWrite: true) { rows in
            try rows.first { try $0.small() } ?? 0
        }
    }
}
