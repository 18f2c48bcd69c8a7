import Broker
import BrokerStore

extension MemoryState {
    mutating func addOutbox(_ rows: [OutboxRow]) {
        for row in rows where outbox[row.id] == nil { outbox[row.id] = row }
    }

    mutating func takeOutbox(now: WallTime, until: WallTime, limit: Int) -> [OutboxRow] {
        let impossible = now.advanced(by: RetentionPeriods.longestPostponement)
        let due = outbox.values.filter { $0.nextAttemptAt <= now || $0.nextAttemptAt > impossible }.sorted {
            $0.nextAttemptAt < $1.nextAttemptAt
        }
        return due.prefix(max(limit, 0)).map { row in
            var row = row
            row.nextAttemptAt = until
            row.attempts += 1
            outbox[row.id] = row
            return row
        }
    }

    mutating func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) -> LogoutTokenResult {
        if let known = logoutTokens[id], now < known { return .replayed }
        let batch = endSessions(selector, .providerLogout, now, limit: limit)
        if !batch.more { logoutTokens[id] = until }
        return .ended(batch)
    }

    mutating func acquireLease(_ name: String, owner: String, now: WallTime, until: WallTime) -> Bool {
        if let lease = leases[name], !["", owner].contains(lease.owner), now < lease.until, lease.until <= until {
            return false
        }
        leases[name] = Lease(owner: owner, until: until)
        return true
    }

    mutating func releaseLease(_ name: String, owner: String) {
        if leases[name]?.owner == owner { leases[name]?.owner = "" }
    }

    mutating func sweep(now: WallTime, limit: Int, lapsedSince: WallTime?, at moment: Duration) -> SweepResult {
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
        guard let lapsedSince else { return SweepResult(touched: touched) }
        for row in exchanges.values.filter({ $0.createdAt <= spent && $0.imported == nil }).prefix(limit) {
            exchanges[row.key] = nil
            exchangeClaims[row.key] = nil
            touched += 1
        }
        touched += sweepImports(now: now, limit: limit, at: moment)
        for (id, _) in logoutTokens.filter({ $0.value <= now }).prefix(limit) {
            logoutTokens[id] = nil
            touched += 1
        }
        for row in sessions.values.filter({ $0.endedAt.map { $0 <= buried } ?? false }).prefix(limit) {
            sessions[row.tokenDigest] = nil
            marks[row.tokenDigest] = nil
            handles[row.handle] = nil
            touched += 1
        }
        let ended = sessions.values.filter {
            $0.endedAt == nil && $0.isLive(at: lapsedSince) && !$0.isLive(at: now)
        }
        let certain = now.advanced(by: .zero - RetentionPeriods.lapsed)
        for row in sessions.values.filter({ $0.endedAt == nil && !$0.isLive(at: certain) }).prefix(limit) {
            end(row.tokenDigest, SessionEnds(row).reason, now)
            touched += 1
        }
        return SweepResult(
            touched: touched,
            ended: ended.map { EndedSession(tokenDigest: $0.tokenDigest, reason: SessionEnds($0).reason) })
    }
}
