import Broker
import BrokerStore

/// The whole content of the in-memory store.
///
/// The content is changed under one lock, so each operation is a transaction.
struct MemoryState {
    struct Lease {
        var owner: String
        var until: WallTime
    }

    var closed = false
    var logins: [Digest: LoginRow] = [:]
    var exchanges: [Digest: ExchangeRow] = [:]
    /// The end of each exchange's claim, on the store's monotonic clock.
    var exchangeClaims: [Digest: Duration] = [:]
    /// The kept pairs of imports, by exchange.
    var importPairs: [Digest: ImportPair] = [:]
    /// The times of the first granted imports, by provider and client.
    var importGrants: [Digest: WallTime] = [:]
    var sessions: [Digest: SessionRow] = [:]
    /// The marks of refreshes, by session.
    var marks: [Digest: RefreshMarks] = [:]
    /// The token version with which the session's present grant began, by session.
    var grantVersions: [Digest: Int64] = [:]
    var handles: [SessionHandle: Digest] = [:]
    var registrations: [Digest: RegistrationRow] = [:]
    /// The handoffs, by login.
    var handoffs: [Digest: HandoffRow] = [:]
    var outbox: [Digest: OutboxRow] = [:]
    /// The tokens for other APIs.
    var targetTokens: [Digest: TargetTokenRow] = [:]
    /// The number of seals by each key.
    var seals: [String: Int] = [:]
    var logoutTokens: [Digest: WallTime] = [:]
    var leases: [String: Lease] = [:]
    var audit: [AuditRow] = []
}

// MARK: - Logins and registrations

extension MemoryState {
    mutating func insertLogin(_ row: LoginRow, limits: LoginLimits) throws(StoreFailure) -> LoginInsertion {
        let pending = logins.values.filter { $0.status == .pending && row.createdAt < $0.expiresAt }
        if pending.count(where: { $0.loginTokenDigest == row.loginTokenDigest }) >= limits.pendingPerToken {
            return .tooManyForToken
        }
        if pending.count >= limits.pending { return .tooManyPending }
        guard logins[row.state] == nil else { throw .unavailable("constraint") }
        logins[row.state] = row
        return .inserted
    }

    func pendingLogins(_ loginTokenDigest: Digest, now: WallTime) -> [LoginRow] {
        let rows = logins.values.filter {
            $0.loginTokenDigest == loginTokenDigest && $0.status == .pending && now < $0.expiresAt
        }
        return Array(rows.sorted { $0.createdAt > $1.createdAt }.prefix(RetentionPeriods.pendingLogins))
    }

    mutating func burnLogin(_ state: Digest) -> Bool {
        guard logins[state]?.status == .pending else { return false }
        logins[state]?.status = .burned
        return true
    }

    mutating func keepHandoff(_ row: HandoffRow) -> Bool {
        if let standing = handoffs[row.login], row.createdAt < standing.expiresAt { return standing.key == row.key }
        var row = row
        row.keptUntil = max(row.keptUntil, handoffs[row.login]?.keptUntil ?? row.keptUntil)
        handoffs[row.login] = row
        return true
    }

    mutating func insertRegistration(_ row: RegistrationRow) {
        if registrations[row.key] == nil { registrations[row.key] = row }
    }
}

// MARK: - Exchanges

extension MemoryState {
    /// Returns an exchange, with the remaining time of its claim.
    func exchange(_ key: Digest, at moment: Duration) -> ExchangeRow? {
        guard var row = exchanges[key] else { return nil }
        row.claimFor = (exchangeClaims[key] ?? moment) - moment
        return row
    }

    mutating func renewExchange(_ key: Digest, fence: Int64, for lifetime: Duration, at moment: Duration) -> Bool {
        guard owned(key, fence) != nil else { return false }
        exchangeClaims[key] = moment + lifetime
        return true
    }

    mutating func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int, sparing: SparedClaims, at moment: Duration
    ) -> ExchangeClaimResult {
        guard var standing = exchange(row.key, at: moment) else {
            guard takeGate(row.gate, for: row.key, now: row.createdAt) else { return .gateClosed }
            exchanges[row.key] = row
            exchangeClaims[row.key] = moment + row.claimFor
            return .claimed(row)
        }
        switch standing.outcome {
        case .calling where standing.claim == row.claim: return .claimed(standing)
        case .calling where standing.claimFor <= .zero && !sparing.contains(lapsedFor: .zero - standing.claimFor):
            standing.outcome = .spent(.unknown)
            exchanges[row.key] = standing
            closeGate(standing.gate)
            return .existing(standing)
        case .released where standing.hasProof(of: row) && standing.attempts < maximumAttempts:
            guard takeGate(row.gate, for: row.key, now: row.createdAt) else { return .gateClosed }
            standing.outcome = .calling
            standing.fence += 1
            standing.attempts += 1
            standing.claim = row.claim
            standing.claimFor = row.claimFor
            exchangeClaims[row.key] = moment + row.claimFor
            standing.gate = row.gate
            exchanges[row.key] = standing
            return .claimed(standing)
        default: return .existing(standing)
        }
    }

    mutating func releaseExchange(_ key: Digest, fence: Int64, countingAttempt: Bool) -> Bool {
        guard var row = owned(key, fence) else { return false }
        row.outcome = .released
        if !countingAttempt { row.attempts = max(row.attempts - 1, 0) }
        exchanges[key] = row
        switch row.gate {
        case .none: break
        case .login(let state):
            guard logins[state]?.status == .claimed, logins[state]?.exchange == key else { break }
            logins[state]?.status = .pending
            logins[state]?.exchange = nil
        case .registration(let registration):
            if registrations[registration]?.status == .claimed { registrations[registration]?.status = .open }
        }
        return true
    }

    mutating func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox rows: [OutboxRow],
        registration: RegistrationRow?
    ) -> Bool {
        addOutbox(rows)
        guard var row = owned(key, fence) else { return false }
        row.outcome = outcome
        exchanges[key] = row
        endImport(key)
        if outcome == .spent(.registrationRejected), case .registration(let gate) = row.gate,
            registrations[gate]?.status == .claimed, registrations[gate]?.attempts == 0
        {
            registrations[gate]?.status = .open
            registrations[gate]?.attempts = 1
        } else {
            closeGate(row.gate)
        }
        if let registration { insertRegistration(registration) }
        return true
    }

    mutating func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) throws(StoreFailure) -> EndedSessions? {
        guard var row = owned(key, fence) else { return nil }
        guard sessions[session.tokenDigest] == nil, handles[session.handle] == nil else {
            throw .unavailable("constraint")
        }
        row.outcome = .session(session.tokenDigest)
        exchanges[key] = row
        endImport(key)
        if case .registration = row.gate { closeGate(row.gate) }
        let now = session.createdAt
        var ended = EndedSessions()
        if let replacing, end(replacing, .replaced, now) { ended.replaced = [replacing] }
        let others = sessions.values
            .filter { $0.subjectAndClient == session.subjectAndClient && $0.isLive(at: now) }
            .sorted(by: Self.newestFirst)
        for excess in others.dropFirst(max(sessionLimit - 1, 0)) where end(excess.tokenDigest, .sessionLimit, now) {
            ended.beyondLimit.append(excess.tokenDigest)
        }
        sessions[session.tokenDigest] = session
        handles[session.handle] = session.tokenDigest
        return ended
    }

    func owned(_ key: Digest, _ fence: Int64) -> ExchangeRow? {
        guard let row = exchanges[key], row.outcome == .calling, row.fence == fence else { return nil }
        return row
    }

    private mutating func takeGate(_ gate: ExchangeGate, for key: Digest, now: WallTime) -> Bool {
        switch gate {
        case .none: return true
        case .login(let state):
            guard let login = logins[state], login.status == .pending, now < login.expiresAt else { return false }
            logins[state]?.status = .claimed
            logins[state]?.exchange = key
            let kept = now.advanced(by: RetentionPeriods.spent)
            if let handoff = handoffs[state] { handoffs[state]?.keptUntil = max(handoff.keptUntil, kept) }
            return true
        case .registration(let registration):
            guard let row = registrations[registration], row.status == .open, now < row.expiresAt else { return false }
            registrations[registration]?.status = .claimed
            registrations[registration]?.exchange = key
            return true
        }
    }

    private mutating func closeGate(_ gate: ExchangeGate) {
        switch gate {
        case .none: break
        case .login(let state): logins[state]?.status = .burned
        case .registration(let key): registrations[key]?.status = .closed
        }
    }
}
