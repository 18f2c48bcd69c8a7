import Broker

extension MemoryState {
    mutating func addOutbox(_ rows: [OutboxRow]) {
        for row in rows where outbox[row.id] == nil { outbox[row.id] = row }
    }

    mutating func takeOutbox(now: WallTime, until: WallTime, limit: Int) -> [OutboxRow] {
        let due = outbox.values.filter { $0.nextAttemptAt <= now }.sorted { $0.nextAttemptAt < $1.nextAttemptAt }
        return due.prefix(max(limit, 0)).map { row in
            var row = row
            row.nextAttemptAt = until
            row.attempts += 1
            outbox[row.id] = row
            return row
        }
    }

    mutating func rememberLogoutToken(_ id: Digest, until: WallTime, now: WallTime) -> Bool {
        if let known = logoutTokens[id], now < known { return false }
        logoutTokens[id] = until
        return true
    }

    mutating func acquireLease(_ name: String, owner: String, now: WallTime, until: WallTime) -> Bool {
        if let lease = leases[name], lease.owner != owner, now < lease.until { return false }
        leases[name] = Lease(owner: owner, until: until)
        return true
    }

    mutating func sweep(now: WallTime, limit: Int) -> Int {
        let limit = max(limit, 0)
        let spent = now.advanced(by: .zero - RetentionPeriods.spent)
        let buried = now.advanced(by: .zero - RetentionPeriods.tombstone)
        var touched = 0
        for row in logins.values.filter({ $0.expiresAt <= spent }).prefix(limit) {
            logins[row.state] = nil
            touched += 1
        }
        for row in registrations.values.filter({ $0.expiresAt <= spent }).prefix(limit) {
            registrations[row.key] = nil
            touched += 1
        }
        for row in handoffs.values.filter({ $0.keptUntil <= now }).prefix(limit) {
            handoffs[row.login] = nil
            touched += 1
        }
        for row in exchanges.values.filter({ $0.createdAt <= spent }).prefix(limit) {
            exchanges[row.key] = nil
            exchangeClaims[row.key] = nil
            touched += 1
        }
        for (id, _) in logoutTokens.filter({ $0.value <= now }).prefix(limit) {
            logoutTokens[id] = nil
            touched += 1
        }
        for row in sessions.values.filter({ $0.endedAt.map { $0 <= buried } ?? false }).prefix(limit) {
            sessions[row.token] = nil
            marks[row.token] = nil
            handles[row.handle] = nil
            touched += 1
        }
        for row in sessions.values.filter({ $0.endedAt == nil && !$0.isLive(at: now) }).prefix(limit) {
            end(row.token, row.lapseReason, now)
            touched += 1
        }
        return touched
    }
}
