package import Broker

extension PostgreSQLStore {
    package func ping() async throws(StoreFailure) {
        let version = try await read(PostgreSQLUpkeepSQL.version, [:]) { rows in
            try rows.first { try $0.small() } ?? 0
        }
        guard version >= PostgreSQLSchema.newest else { throw .unavailable("not migrated") }
    }

    /// Waits until the standby has confirmed all earlier commits, if commits wait for a standby.
    ///
    /// Call this before reporting work that was already done. PostgreSQL waits for the standby only after a write, and the
    /// first writer's commit may still be unconfirmed.
    func confirm() async throws(StoreFailure) {
        // Choose one of several rows, so that concurrent confirmations seldom wait for each other.
        let name = "confirmation-\(Int.random(in: 0..<Self.confirmations))"
        try await write(PostgreSQLUpkeepSQL.confirm, ["name": .text(name)])
    }

    private static let confirmations = 32

    package func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        guard !rows.isEmpty else { return }
        try await write(PostgreSQLUpkeepSQL.addOutbox, rows.parameters)
    }

    package func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow] {
        let rows = try await write(
            PostgreSQLUpkeepSQL.takeOutbox,
            [
                "now": .time(now), "until": .time(until), "limit": .integer(max(limit, 0)),
                "impossible": .time(now.advanced(by: RetentionPeriods.longestPostponement)),
            ]
        ) { rows in rows.map { try? OutboxRow(&$0) } }
        return rows.compactMap { $0 }.sorted { $0.createdAt < $1.createdAt }
    }

    package func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure) {
        guard !work.isEmpty else { return }
        try await write(
            PostgreSQLUpkeepSQL.postponeOutbox,
            [
                "keys": .digests(work.map(\.id)), "until": .times(work.map(\.until)),
                "uncounted": .integer(counting ? 0 : 1),
            ])
    }

    package func removeOutbox(_ ids: [Digest]) async throws(StoreFailure) {
        guard !ids.isEmpty else { return }
        try await write(PostgreSQLUpkeepSQL.removeOutbox, ["keys": .digests(ids)])
    }

    package func outboxCount() async throws(StoreFailure) -> Int {
        try await walk(PostgreSQLUpkeepSQL.countOutbox, [:]) { rows in try rows.first { try $0.small() } ?? 0 }
    }

    package func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await write(
            PostgreSQLUpkeepSQL.acquireLease,
            ["name": .text(name), "owner": .text(owner), "until": .time(until), "now": .time(now)]
        ) { $0.count == 1 }
    }

    package func releaseLease(_ name: String, owner: String) async throws(StoreFailure) {
        try await write(PostgreSQLUpkeepSQL.releaseLease, ["name": .text(name), "owner": .text(owner)])
    }

    package func lease(_ name: String) async throws(StoreFailure) -> WallTime? {
        try await read(PostgreSQLUpkeepSQL.lease, ["name": .text(name)]) { rows in try rows.first { try $0.time() } }
    }

    package func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int] {
        guard !counts.isEmpty else { return [:] }
        // All replicas change the rows in the order of their keys. Otherwise two replicas could wait for each other's rows.
        let sorted = counts.sorted { $0.key < $1.key }
        let values: Named<Parameter> = [
            "keys": .texts(sorted.map(\.key)), "seals": .integers(sorted.map(\.value)),
        ]
        return try await write(PostgreSQLUpkeepSQL.countSeals, values) { rows in
            try rows.map { (try $0.text(), try $0.small()) }.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
    }

    package func appendAudit(_ row: AuditRow) async throws(StoreFailure) {
        try await write(
            PostgreSQLUpkeepSQL.appendAudit, row.parameters)
    }

    package func sweep(
        now: WallTime, limit: Int, lapsedSince: WallTime?
    ) async throws(StoreFailure) -> SweepResult {
        let limit = max(limit, 0)
        let count: @Sendable (ResultRows) throws -> Int = { rows in try rows.first { try $0.small() } ?? 0 }
        let spent = now.advanced(by: .zero - RetentionPeriods.spent)
        let times: Named<Parameter> = ["spent": .time(spent), "now": .time(now), "limit": .integer(limit)]
        var result = SweepResult()
        result.touched += try await scan(
            PostgreSQLUpkeepSQL.sweepSpent, times, isWrite: true, count)
        guard let lapsedSince else { return result }
        result.touched += try await scan(
            PostgreSQLUpkeepSQL.sweepUsed, times, isWrite: true, count)
        result.touched += try await sweepImports(now: now, limit: limit)
        let buried = now.advanced(by: .zero - RetentionPeriods.tombstone)
        result.touched += try await scan(
            PostgreSQLUpkeepSQL.sweepTombstones, ["buried": .time(buried), "limit": .integer(limit)], isWrite: true,
            count)
        result.ended = try await scan(
            PostgreSQLUpkeepSQL.lapsedSince,
            [
                "now": .time(now), "since": .time(lapsedSince), "limit": .integer(RetentionPeriods.announcedLapses),
            ]
        ) { rows in try rows.map { try EndedSession(lapsed: &$0) } }
        // Only the sweeping replica finds lapsed sessions, so it notifies the other replicas' listeners.
        endings?.tell(result.ended)
        result.touched += try await buryLapsed(
            before: now.advanced(by: .zero - RetentionPeriods.lapsed), at: now, limit: limit)
        return result
    }

    /// Makes tombstones of at most `limit` sessions that lapsed before the time `certain`, and returns their number.
    private func buryLapsed(before certain: WallTime, at now: WallTime, limit: Int) async throws(StoreFailure) -> Int {
        let lapsed = try await scan(
            PostgreSQLUpkeepSQL.lapsed, ["certain": .time(certain), "limit": .integer(limit)]
        ) { rows in
            try rows.map { try EndedSession(lapsed: &$0) }
        }
        guard !lapsed.isEmpty else { return 0 }
        let values: Named<Parameter> = [
            "tokens": .digests(lapsed.map(\.tokenDigest)), "reasons": .texts(lapsed.map(\.reason.rawValue)),
            "now": .time(now), "certain": .time(certain),
        ]
        return try await scan(PostgreSQLUpkeepSQL.buryLapsed, values, isWrite: true) { rows in
            try rows.first { try $0.small() } ?? 0
        }
    }
}

extension PostgreSQLStore: SharedStore {
    package func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) {
        if let endings { endings.listen(handler) } else { handler(.deaf) }
    }

    package func time() async throws(StoreFailure) -> WallTime {
        let time = try await read(PostgreSQLUpkeepSQL.time, [:]) { rows in try rows.first { try $0.time() } }
        guard let time else { throw .unavailable("the server did not return its time") }
        return time
    }

    package func isElsewhere() async throws(StoreFailure) -> Bool {
        try await read(PostgreSQLUpkeepSQL.isElsewhere, [:]) { rows in try rows.first { try $0.truth() } ?? false }
    }

    package func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool {
        try await write(PostgreSQLUpkeepSQL.takeProof, ["name": .digest(name), "until": .time(until)]) { $0.count == 1 }
    }

    package func returnProof(_ name: Digest) async throws(StoreFailure) {
        try await write(PostgreSQLUpkeepSQL.returnProof, ["name": .digest(name)])
    }
}
