package import Broker
import BrokerStore
import Synchronization

/// The store of tests, whose content is lost when the process ends.
///
/// The conformance suite of the engines tests this store, too.
package final class InMemoryStore: BrokerStore {
    /// Guards the store's whole content.
    private let state = Mutex(MemoryState())
    /// The number of transactions that succeed before one is refused; nil if none is refused.
    private let refusing = Mutex<Int?>(nil)
    /// Whether the answer to the next completed exchange is lost.
    private let losing = Mutex(false)
    /// Whether the answer to the next ending is lost.
    private let losingEnding = Mutex(false)
    /// Work that runs after the next logout token is stored, and before the store answers.
    private let meanwhile = Mutex<(@Sendable () async -> Void)?>(nil)

    /// The faults of the next calls, by operation.
    private let faults = Mutex<[FaultyOperation: [OperationFault]]>([:])

    /// The store's own clock, which times the claims.
    let monotonic: @Sendable () -> Duration

    /// Creates an empty store.
    package init(monotonic: @escaping @Sendable () -> Duration = MonotonicTime.now) { self.monotonic = monotonic }

    /// Makes the store refuse one transaction, after `count` others have succeeded; nil switches this off.
    package func refuse(after count: Int?) { refusing.withLock { $0 = count } }

    /// Makes the store carry out the next `completeExchange` and lose its answer.
    package func loseNextCompletion() { losing.withLock { $0 = true } }

    /// Makes the store carry out the next `endSessions` or `consumeLogoutToken` and lose its answer.
    package func loseNextEnding() { losingEnding.withLock { $0 = true } }

    /// Runs work between the next `consumeLogoutToken` and its answer.
    package func beforeNextLogoutAnswer(_ happens: @escaping @Sendable () async -> Void) {
        meanwhile.withLock { $0 = happens }
    }

    /// Returns the result of an ending.
    ///
    /// Throws instead if a test has demanded that the store's answer to this ending is lost.
    private func unlessLost<Value>(_ value: Value) throws(StoreFailure) -> Value {
        let isLost = losingEnding.withLock { losing in
            defer { losing = false }
            return losing
        }
        if isLost { throw .inDoubt("lost") }
        return value
    }

    /// Makes the next calls of an operation fail, each with the given fault.
    package func fail(_ operation: FaultyOperation, _ next: [OperationFault]) {
        faults.withLock { $0[operation] = next }
    }

    /// The number of an operation's faults that are still to come.
    package func failures(_ operation: FaultyOperation) -> Int { faults.withLock { $0[operation, default: []].count } }

    private func unlessFaulty<Value>(
        _ operation: FaultyOperation, _ body: () throws(StoreFailure) -> Value
    ) throws(StoreFailure) -> Value {
        let fault = faults.withLock { faults -> OperationFault? in
            guard faults[operation]?.isEmpty == false else { return nil }
            return faults[operation]?.removeFirst()
        }
        if fault == .refused { throw .unavailable("refused") }
        let value = try body()
        if fault == .lost { throw .inDoubt("lost") }
        return value
    }

    private var refuses: Bool {
        refusing.withLock { count in
            guard let left = count else { return false }
            count = left > 0 ? left - 1 : nil
            return left == 0
        }
    }

    func transaction<Result: Sendable>(
        _ body: (inout MemoryState) throws(StoreFailure) -> Result
    ) throws(StoreFailure) -> Result {
        if refuses { throw .unavailable("refused") }
        return try state.withLock { state throws(StoreFailure) in
            guard !state.closed else { throw .unavailable("closed") }
            // Each operation of `MemoryState` throws before it changes anything, so the store needs no rollback.
            return try body(&state)
        }
    }

    package func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        try transaction { state throws(StoreFailure) in try state.insertLogin(row, limits: limits) }
    }

    package func login(state digest: Digest) async throws(StoreFailure) -> LoginRow? {
        try transaction { $0.logins[digest] }
    }

    package func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try transaction { $0.pendingLogins(loginTokenDigest, now: now) }
    }

    package func burnLogin(state digest: Digest) async throws(StoreFailure) -> Bool {
        try transaction { $0.burnLogin(digest) }
    }

    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int, sparing: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        let moment = monotonic()
        return try unlessFaulty(.claimExchange) { () throws(StoreFailure) in
            try transaction {
                $0.claimExchange(row, maximumAttempts: maximumAttempts, sparing: sparing, at: moment)
            }
        }
    }

    package func claimImport(
        _ row: ExchangeRow, sparing: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        let moment = monotonic()
        return try transaction { $0.claimImport(row, sparing: sparing, at: moment) }
    }

    package func releaseImport(
        _ key: Digest, fence: Int64, _ release: ImportRelease
    ) async throws(StoreFailure) -> Bool {
        try transaction { $0.releaseImport(key, fence: fence, release) }
    }

    package func countImportCall(_ key: Digest, fence: Int64, calls: Int) async throws(StoreFailure) -> Bool {
        try transaction { $0.countImportCall(key, fence: fence, calls: calls) }
    }

    package func keepPair(
        _ pair: ImportPair, as number: Int, fence: Int64, at now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try transaction { $0.keepPair(pair, as: number, fence: fence, at: now) }
    }

    package func keptPair(_ key: Digest) async throws(StoreFailure) -> ImportPair? {
        try transaction { $0.importPairs[key] }
    }

    package func noteImportGrant(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try transaction { if $0.importGrants[key] == nil { $0.importGrants[key] = now } }
    }

    package func hasImportGrant(_ key: Digest) async throws(StoreFailure) -> Bool {
        try transaction { $0.importGrants[key] != nil }
    }

    package func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow? {
        let moment = monotonic()
        return try transaction { $0.exchange(key, at: moment) }
    }

    package func renewExchange(
        _ key: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        let moment = monotonic()
        return try unlessFaulty(.renewExchange) { () throws(StoreFailure) in
            try transaction { $0.renewExchange(key, fence: fence, for: lifetime, at: moment) }
        }
    }

    package func releaseExchange(
        _ key: Digest, fence: Int64, countingAttempt: Bool
    ) async throws(StoreFailure) -> Bool {
        try transaction { $0.releaseExchange(key, fence: fence, countingAttempt: countingAttempt) }
    }

    package func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        try transaction {
            $0.settleExchange(key, fence: fence, outcome: outcome, outbox: outbox, registration: registration)
        }
    }

    package func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        let ended = try unlessFaulty(.completeExchange) { () throws(StoreFailure) in
            try transaction { state throws(StoreFailure) in
                try state.completeExchange(
                    key, fence: fence, session: session, replacing: replacing, sessionLimit: sessionLimit)
            }
        }
        let isLost = losing.withLock { losing in
            defer { losing = false }
            return losing
        }
        if isLost { throw .inDoubt("lost") }
        return ended
    }

    package func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        try unlessFaulty(.completeStepUp) { () throws(StoreFailure) in try transaction { $0.completeStepUp(commit) } }
    }

    package func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        try transaction { $0.sessions[tokenDigest] }
    }

    package func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow? {
        try transaction { state in state.handles[handle].flatMap { state.sessions[$0] } }
    }

    package func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow] {
        try unlessFaulty(.sessions) { () throws(StoreFailure) in
            try transaction { $0.sessions(selector, state, after: after, limit: limit, now: now) }
        }
    }

    package func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow] {
        try transaction { $0.children(of: parents, now: now) }
    }

    package func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult {
        try transaction { $0.registerPresence(commit) }
    }

    package func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion {
        try transaction { $0.insertChild(row, places: places) }
    }

    package func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        try unlessLost(try transaction { $0.endSessions(selector, reason, now, limit: limit) })
    }

    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure) {
        try transaction { $0.slideSession(tokenDigest, lastUsedAt, idleExpiresAt, aliveAt: aliveAt) }
    }

    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        let moment = monotonic()
        return try unlessFaulty(.claimRefresh) { () throws(StoreFailure) in
            try transaction { $0.claimRefresh(claim, at: moment) }
        }
    }

    package func renewRefresh(
        tokenDigest: Digest, fence: Int64, for lifetime: Duration
    ) async throws(StoreFailure) -> Bool {
        let moment = monotonic()
        return try unlessFaulty(.renewRefresh) { () throws(StoreFailure) in
            try transaction { $0.renewRefresh(tokenDigest, fence: fence, for: lifetime, at: moment) }
        }
    }

    package func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        let moment = monotonic()
        return try transaction { $0.refreshState(tokenDigest, at: moment) }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        try unlessFaulty(.commitRefresh) { () throws(StoreFailure) in try transaction { $0.commitRefresh(commit) } }
    }

    package func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        let moment = monotonic()
        try transaction { $0.releaseRefresh(release, at: moment) }
    }

    package func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try unlessFaulty(.markSubjectChecked) { () throws(StoreFailure) in
            try transaction { $0.markSubjectChecked(tokenDigest, version: tokenVersion) }
        }
    }

    package func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try unlessFaulty(.condemnRefresh) { () throws(StoreFailure) in
            try transaction { $0.condemnRefresh(tokenDigest, version: tokenVersion, fence: fence, reason, now) }
        }
    }

    package func targetToken(_ key: Digest, of session: Digest) async throws(StoreFailure) -> TargetTokenRow? {
        try transaction { state in
            guard let row = state.targetTokens[key], row.session == session, let owner = state.sessions[session],
                owner.endedAt == nil, !owner.subjectUnchecked
            else { return nil }
            return row
        }
    }

    package func keepTargetToken(_ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?)
        async throws(StoreFailure)
        -> Bool
    {
        try transaction { $0.keepTargetToken(row, tokenVersion: tokenVersion, of: tokens) }
    }

    package func useTargetToken(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try transaction { $0.useTargetToken(key, at: now) }
    }

    /// The rows with sessions' tokens for other APIs.
    package var targetTokenRows: [TargetTokenRow] { state.withLock { Array($0.targetTokens.values) } }

    package func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        try transaction { $0.keepHandoff(row) }
    }

    package func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow? {
        try transaction { state in state.handoffs.values.first { $0.key == key } }
    }

    package func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow? {
        try transaction { $0.handoffs[login] }
    }

    package func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow? {
        try transaction { $0.registrations[key] }
    }

    package func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure) {
        try transaction { $0.insertRegistration(row) }
    }

    package func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        try transaction { $0.addOutbox(rows) }
    }

    package func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow] {
        try transaction { $0.takeOutbox(now: now, until: until, limit: limit) }
    }

    package func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure) {
        guard !work.isEmpty else { return }
        try transaction { state in
            for postponed in work {
                guard var row = state.outbox[postponed.id] else { continue }
                row.nextAttemptAt = postponed.until
                if !counting { row.attempts = max(row.attempts - 1, 0) }
                state.outbox[postponed.id] = row
            }
        }
    }

    package func removeOutbox(_ ids: [Digest]) async throws(StoreFailure) {
        guard !ids.isEmpty else { return }
        try transaction { state in for id in ids { state.outbox[id] = nil } }
    }

    package func outboxCount() async throws(StoreFailure) -> Int { try transaction { $0.outbox.count } }

    package func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult {
        let result = try unlessLost(
            try transaction { $0.consumeLogoutToken(id, until: until, ending: selector, now: now, limit: limit) })
        let happens = meanwhile.withLock { meanwhile in
            defer { meanwhile = nil }
            return meanwhile
        }
        await happens?()
        return result
    }

    package func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try transaction { $0.acquireLease(name, owner: owner, now: now, until: until) }
    }

    package func releaseLease(_ name: String, owner: String) async throws(StoreFailure) {
        try transaction { $0.releaseLease(name, owner: owner) }
    }

    package func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int] {
        try transaction { state in
            for (key, count) in counts { state.seals[key, default: 0] += count }
            return state.seals.filter { counts[$0.key] != nil }
        }
    }

    package func appendAudit(_ row: AuditRow) async throws(StoreFailure) { try transaction { $0.audit.append(row) } }

    package func lease(_ name: String) async throws(StoreFailure) -> WallTime? {
        try transaction { $0.leases[name]?.until }
    }

    package func sweep(
        now: WallTime, limit: Int, lapsedSince: WallTime?
    ) async throws(StoreFailure) -> SweepResult {
        let moment = monotonic()
        return try transaction { $0.sweep(now: now, limit: limit, lapsedSince: lapsedSince, at: moment) }
    }

    package func ping() async throws(StoreFailure) { try transaction { _ in } }

    package func close() async { state.withLock { $0.closed = true } }

    /// The number of rows in the outbox.
    package var outboxRows: Int { state.withLock { $0.outbox.count } }

    /// Replaces a session's row, as another process or a fault may have written it.
    package func replace(_ row: SessionRow) { state.withLock { $0.sessions[row.tokenDigest] = row } }

    /// The audit records, oldest first.
    package var auditRecords: [AuditRow] { state.withLock { $0.audit } }
}
