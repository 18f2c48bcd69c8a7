/// A store that forwards each operation to another store, for example to measure it or to simulate faults.
package protocol AroundStore: BrokerStore {
    /// The store that executes the operations.
    var base: any BrokerStore { get }

    /// Runs `work` on `base`. An implementation may instead return or throw a result without calling `base`.
    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value
}

extension AroundStore {
    package func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        try await around(.insertLogin) { store throws(StoreFailure) in
            try await store.insertLogin(row, limits: limits)
        }
    }

    package func login(state: Digest) async throws(StoreFailure) -> LoginRow? {
        try await around(.login) { store throws(StoreFailure) in try await store.login(state: state) }
    }

    package func pendingLogins(loginTokenDigest: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try await around(.pendingLogins) { store throws(StoreFailure) in
            try await store.pendingLogins(loginTokenDigest: loginTokenDigest, now: now)
        }
    }

    package func burnLogin(state: Digest) async throws(StoreFailure) -> Bool {
        try await around(.burnLogin) { store throws(StoreFailure) in try await store.burnLogin(state: state) }
    }

    package func claimExchange(
        _ row: ExchangeRow, maximumAttempts: Int, sparing: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        try await around(.claimExchange) { store throws(StoreFailure) in
            try await store.claimExchange(row, maximumAttempts: maximumAttempts, sparing: sparing)
        }
    }

    package func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow? {
        try await around(.exchange) { store throws(StoreFailure) in try await store.exchange(key) }
    }

    package func renewExchange(_ key: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await around(.renewExchange) { store throws(StoreFailure) in
            try await store.renewExchange(key, fence: fence, for: lifetime)
        }
    }

    package func releaseExchange(_ key: Digest, fence: Int64, countingAttempt: Bool) async throws(StoreFailure) -> Bool
    {
        try await around(.releaseExchange) { store throws(StoreFailure) in
            try await store.releaseExchange(key, fence: fence, countingAttempt: countingAttempt)
        }
    }

    package func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        try await around(.settleExchange) { store throws(StoreFailure) in
            try await store.settleExchange(
                key, fence: fence, outcome: outcome, outbox: outbox, registration: registration)
        }
    }

    package func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        try await around(.completeExchange) { store throws(StoreFailure) in
            try await store.completeExchange(
                key, fence: fence, session: session, replacing: replacing, sessionLimit: sessionLimit)
        }
    }

    package func claimImport(
        _ row: ExchangeRow, sparing: SparedClaims
    ) async throws(StoreFailure) -> ExchangeClaimResult {
        try await around(.claimImport) { store throws(StoreFailure) in
            try await store.claimImport(row, sparing: sparing)
        }
    }

    package func releaseImport(_ key: Digest, fence: Int64, _ release: ImportRelease) async throws(StoreFailure) -> Bool
    {
        try await around(.releaseImport) { store throws(StoreFailure) in
            try await store.releaseImport(key, fence: fence, release)
        }
    }

    package func countImportCall(_ key: Digest, fence: Int64, calls: Int) async throws(StoreFailure) -> Bool {
        try await around(.countImportCall) { store throws(StoreFailure) in
            try await store.countImportCall(key, fence: fence, calls: calls)
        }
    }

    package func keepPair(
        _ pair: ImportPair, as number: Int, fence: Int64, at now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await around(.keepPair) { store throws(StoreFailure) in
            try await store.keepPair(pair, as: number, fence: fence, at: now)
        }
    }

    package func keptPair(_ key: Digest) async throws(StoreFailure) -> ImportPair? {
        try await around(.keptPair) { store throws(StoreFailure) in try await store.keptPair(key) }
    }

    package func noteImportGrant(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await around(.noteImportGrant) { store throws(StoreFailure) in
            try await store.noteImportGrant(key, at: now)
        }
    }

    package func hasImportGrant(_ key: Digest) async throws(StoreFailure) -> Bool {
        try await around(.hasImportGrant) { store throws(StoreFailure) in try await store.hasImportGrant(key) }
    }

    package func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        try await around(.completeStepUp) { store throws(StoreFailure) in try await store.completeStepUp(commit) }
    }

    package func registerPresence(_ commit: PresenceCommit) async throws(StoreFailure) -> PresenceCommitResult {
        try await around(.registerPresence) { store throws(StoreFailure) in try await store.registerPresence(commit) }
    }

    package func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        try await around(.session) { store throws(StoreFailure) in try await store.session(tokenDigest: tokenDigest) }
    }

    package func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow? {
        try await around(.session) { store throws(StoreFailure) in try await store.session(handle: handle) }
    }

    package func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow] {
        try await around(.sessions) { store throws(StoreFailure) in
            try await store.sessions(selector, state, after: after, limit: limit, now: now)
        }
    }

    package func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow] {
        try await around(.children) { store throws(StoreFailure) in try await store.children(of: parents, now: now) }
    }

    package func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion {
        try await around(.insertChild) { store throws(StoreFailure) in
            try await store.insertChild(row, places: places)
        }
    }

    package func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        try await around(.endSessions) { store throws(StoreFailure) in
            try await store.endSessions(selector, reason: reason, now: now, limit: limit)
        }
    }

    package func slideSession(
        tokenDigest: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime, aliveAt: WallTime
    ) async throws(StoreFailure) {
        try await around(.slideSession) { store throws(StoreFailure) in
            try await store.slideSession(
                tokenDigest: tokenDigest, lastUsedAt: lastUsedAt, idleExpiresAt: idleExpiresAt, aliveAt: aliveAt)
        }
    }

    package func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        try await around(.claimRefresh) { store throws(StoreFailure) in try await store.claimRefresh(claim) }
    }

    package func renewRefresh(tokenDigest: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure)
        -> Bool
    {
        try await around(.renewRefresh) { store throws(StoreFailure) in
            try await store.renewRefresh(tokenDigest: tokenDigest, fence: fence, for: lifetime)
        }
    }

    package func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        try await around(.refreshState) { store throws(StoreFailure) in try await store.refreshState(tokenDigest) }
    }

    package func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        try await around(.commitRefresh) { store throws(StoreFailure) in try await store.commitRefresh(commit) }
    }

    package func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        try await around(.releaseRefresh) { store throws(StoreFailure) in try await store.releaseRefresh(release) }
    }

    package func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await around(.markSubjectChecked) { store throws(StoreFailure) in
            try await store.markSubjectChecked(tokenDigest: tokenDigest, tokenVersion: tokenVersion)
        }
    }

    package func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await around(.condemnRefresh) { store throws(StoreFailure) in
            try await store.condemnRefresh(
                tokenDigest: tokenDigest, tokenVersion: tokenVersion, fence: fence, reason: reason, now: now)
        }
    }

    package func targetToken(_ key: Digest, of session: Digest) async throws(StoreFailure) -> TargetTokenRow? {
        try await around(.targetToken) { store throws(StoreFailure) in try await store.targetToken(key, of: session) }
    }

    package func keepTargetToken(_ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?)
        async throws(StoreFailure)
        -> Bool
    {
        try await around(.keepTargetToken) { store throws(StoreFailure) in
            try await store.keepTargetToken(row, tokenVersion: tokenVersion, of: tokens)
        }
    }

    package func useTargetToken(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await around(.useTargetToken) { store throws(StoreFailure) in try await store.useTargetToken(key, at: now) }
    }

    package func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        try await around(.keepHandoff) { store throws(StoreFailure) in try await store.keepHandoff(row) }
    }

    package func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await around(.handoff) { store throws(StoreFailure) in try await store.handoff(key) }
    }

    package func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await around(.handoffOfLogin) { store throws(StoreFailure) in try await store.handoff(login: login) }
    }

    package func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow? {
        try await around(.registration) { store throws(StoreFailure) in try await store.registration(key) }
    }

    package func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure) {
        try await around(.insertRegistration) { store throws(StoreFailure) in
            try await store.insertRegistration(row)
        }
    }

    package func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        try await around(.addOutbox) { store throws(StoreFailure) in try await store.addOutbox(rows) }
    }

    package func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow] {
        try await around(.takeOutbox) { store throws(StoreFailure) in
            try await store.takeOutbox(now: now, until: until, limit: limit)
        }
    }

    package func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure) {
        try await around(.postponeOutbox) { store throws(StoreFailure) in
            try await store.postponeOutbox(work, counting: counting)
        }
    }

    package func removeOutbox(_ ids: [Digest]) async throws(StoreFailure) {
        try await around(.removeOutbox) { store throws(StoreFailure) in try await store.removeOutbox(ids) }
    }

    package func outboxCount() async throws(StoreFailure) -> Int {
        try await around(.outboxCount) { store throws(StoreFailure) in try await store.outboxCount() }
    }

    package func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult {
        try await around(.consumeLogoutToken) { store throws(StoreFailure) in
            try await store.consumeLogoutToken(id, until: until, ending: selector, now: now, limit: limit)
        }
    }

    package func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await around(.acquireLease) { store throws(StoreFailure) in
            try await store.acquireLease(name, owner: owner, now: now, until: until)
        }
    }

    package func releaseLease(_ name: String, owner: String) async throws(StoreFailure) {
        try await around(.releaseLease) { store throws(StoreFailure) in
            try await store.releaseLease(name, owner: owner)
        }
    }

    package func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int] {
        try await around(.countSeals) { store throws(StoreFailure) in try await store.countSeals(counts) }
    }

    package func appendAudit(_ row: AuditRow) async throws(StoreFailure) {
        try await around(.appendAudit) { store throws(StoreFailure) in try await store.appendAudit(row) }
    }

    package func lease(_ name: String) async throws(StoreFailure) -> WallTime? {
        try await around(.lease) { store throws(StoreFailure) in try await store.lease(name) }
    }

    package func sweep(now: WallTime, limit: Int, lapsedSince: WallTime?) async throws(StoreFailure) -> SweepResult {
        try await around(.sweep) { store throws(StoreFailure) in
            try await store.sweep(now: now, limit: limit, lapsedSince: lapsedSince)
        }
    }

    package func ping() async throws(StoreFailure) { try await base.ping() }
    package func close() async { await base.close() }
}
