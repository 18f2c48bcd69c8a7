import Broker

/// Measures how long a store takes, by operation, traces it, counts what fails, and sees when its disk is full.
///
/// Every call is handed on unchanged.
struct TimedStore: BrokerStore {
    let base: any BrokerStore
    let metrics: MetricsRegistry
    let monotonic: @Sendable () -> Duration
    let disk: DiskState

    private func timed<Value: Sendable>(
        _ operation: String, writes: Bool = false, _ work: () async throws(StoreFailure) -> Value
    ) async throws(StoreFailure) -> Value {
        let begin = monotonic()
        let span = RequestScope.current?.span?.child("store \(operation)", .client)
        span?.set("db.operation.name", operation)
        defer {
            metrics.histogram("coatcheck_store_duration_seconds", [("operation", operation)])
                .recordNanoseconds((monotonic() - begin).nanoseconds)
        }
        do throws(StoreFailure) {
            let value = try await work()
            if writes { disk.wasWritten() }
            span?.end(nil)
            return value
        } catch {
            span?.end("store_unavailable")
            if case .full = error { disk.wasFull() }
            count(error, of: operation)
            throw error
        }
    }

    /// Counts what the store did not do.
    ///
    /// A caller that gave up says nothing of the store, and a row that a newer release wrote was found and left alone.
    private func count(_ failure: StoreFailure, of operation: String) {
        guard failure != .newerFormat, !Task.isCancelled else { return }
        metrics.counter("coatcheck_store_failures_total", [("operation", operation)]).increment(by: 1)
    }

    /// What may fail, for the metrics that are there from the start.
    static let operations = [
        "insertLogin", "login", "pendingLogins", "burnLogin", "claimExchange", "exchange", "renewExchange",
        "releaseExchange", "settleExchange", "completeExchange", "session", "sessions", "endSessions", "slideSession",
        "claimRefresh", "renewRefresh", "refreshState", "commitRefresh", "releaseRefresh", "markSubjectChecked",
        "condemnRefresh", "keepHandoff", "handoff", "handoffOfLogin", "registration", "insertRegistration", "addOutbox",
        "takeOutbox", "postponeOutbox", "removeOutbox", "outboxCount", "consumeLogoutToken", "acquireLease",
        "releaseLease", "countSeals", "appendAudit", "lease", "sweep",
    ]

    func insertLogin(_ row: LoginRow, limits: LoginLimits) async throws(StoreFailure) -> LoginInsertion {
        try await timed("insertLogin", writes: true) { () async throws(StoreFailure) in
            try await base.insertLogin(row, limits: limits)
        }
    }

    func login(state: Digest) async throws(StoreFailure) -> LoginRow? {
        try await timed("login") { () async throws(StoreFailure) in try await base.login(state: state) }
    }

    func pendingLogins(loginToken: Digest, now: WallTime) async throws(StoreFailure) -> [LoginRow] {
        try await timed("pendingLogins") { () async throws(StoreFailure) in
            try await base.pendingLogins(loginToken: loginToken, now: now)
        }
    }

    func burnLogin(state: Digest) async throws(StoreFailure) -> Bool {
        try await timed("burnLogin") { () async throws(StoreFailure) in try await base.burnLogin(state: state) }
    }

    func claimExchange(_ row: ExchangeRow, maximumAttempts: Int) async throws(StoreFailure) -> ExchangeClaimResult {
        try await timed("claimExchange", writes: true) { () async throws(StoreFailure) in
            try await base.claimExchange(row, maximumAttempts: maximumAttempts)
        }
    }

    func exchange(_ key: Digest) async throws(StoreFailure) -> ExchangeRow? {
        try await timed("exchange") { () async throws(StoreFailure) in try await base.exchange(key) }
    }

    func renewExchange(_ key: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await timed("renewExchange") { () async throws(StoreFailure) in
            try await base.renewExchange(key, fence: fence, for: lifetime)
        }
    }

    func releaseExchange(_ key: Digest, fence: Int64, countingAttempt: Bool) async throws(StoreFailure) -> Bool {
        try await timed("releaseExchange") { () async throws(StoreFailure) in
            try await base.releaseExchange(key, fence: fence, countingAttempt: countingAttempt)
        }
    }

    func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        try await timed("settleExchange") { () async throws(StoreFailure) in
            try await base.settleExchange(
                key, fence: fence, outcome: outcome, outbox: outbox, registration: registration)
        }
    }

    func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        try await timed("completeExchange") { () async throws(StoreFailure) in
            try await base.completeExchange(
                key, fence: fence, session: session, replacing: replacing, sessionLimit: sessionLimit)
        }
    }

    func session(token: Digest) async throws(StoreFailure) -> SessionRow? {
        try await timed("session") { () async throws(StoreFailure) in try await base.session(token: token) }
    }

    func session(handle: SessionHandle) async throws(StoreFailure) -> SessionRow? {
        try await timed("session") { () async throws(StoreFailure) in try await base.session(handle: handle) }
    }

    func sessions(
        _ selector: SessionSelector, _ state: SessionState, after: SessionCursor?, limit: Int, now: WallTime
    ) async throws(StoreFailure) -> [SessionRow] {
        try await timed("sessions") { () async throws(StoreFailure) in
            try await base.sessions(selector, state, after: after, limit: limit, now: now)
        }
    }

    func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        try await timed("endSessions") { () async throws(StoreFailure) in
            try await base.endSessions(selector, reason: reason, now: now, limit: limit)
        }
    }

    func slideSession(token: Digest, lastUsedAt: WallTime, idleExpiresAt: WallTime) async throws(StoreFailure) {
        try await timed("slideSession") { () async throws(StoreFailure) in
            try await base.slideSession(token: token, lastUsedAt: lastUsedAt, idleExpiresAt: idleExpiresAt)
        }
    }

    func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        try await timed("claimRefresh") { () async throws(StoreFailure) in try await base.claimRefresh(claim) }
    }

    func renewRefresh(token: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await timed("renewRefresh") { () async throws(StoreFailure) in
            try await base.renewRefresh(token: token, fence: fence, for: lifetime)
        }
    }

    func refreshState(_ token: Digest) async throws(StoreFailure) -> RefreshState? {
        try await timed("refreshState") { () async throws(StoreFailure) in try await base.refreshState(token) }
    }

    func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        try await timed("commitRefresh") { () async throws(StoreFailure) in try await base.commitRefresh(commit) }
    }

    func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        try await timed("releaseRefresh") { () async throws(StoreFailure) in try await base.releaseRefresh(release) }
    }

    func markSubjectChecked(token: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await timed("markSubjectChecked") { () async throws(StoreFailure) in
            try await base.markSubjectChecked(token: token, tokenVersion: tokenVersion)
        }
    }

    func condemnRefresh(
        token: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await timed("condemnRefresh") { () async throws(StoreFailure) in
            try await base.condemnRefresh(
                token: token, tokenVersion: tokenVersion, fence: fence, reason: reason, now: now)
        }
    }

    func keepHandoff(_ row: HandoffRow) async throws(StoreFailure) -> Bool {
        try await timed("keepHandoff") { () async throws(StoreFailure) in try await base.keepHandoff(row) }
    }

    func handoff(_ key: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await timed("handoff") { () async throws(StoreFailure) in try await base.handoff(key) }
    }

    func handoff(login: Digest) async throws(StoreFailure) -> HandoffRow? {
        try await timed("handoffOfLogin") { () async throws(StoreFailure) in try await base.handoff(login: login) }
    }

    func registration(_ key: Digest) async throws(StoreFailure) -> RegistrationRow? {
        try await timed("registration") { () async throws(StoreFailure) in try await base.registration(key) }
    }

    func insertRegistration(_ row: RegistrationRow) async throws(StoreFailure) {
        try await timed("insertRegistration") { () async throws(StoreFailure) in
            try await base.insertRegistration(row)
        }
    }

    func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        try await timed("addOutbox") { () async throws(StoreFailure) in try await base.addOutbox(rows) }
    }

    func takeOutbox(now: WallTime, until: WallTime, limit: Int) async throws(StoreFailure) -> [OutboxRow] {
        try await timed("takeOutbox") { () async throws(StoreFailure) in
            try await base.takeOutbox(now: now, until: until, limit: limit)
        }
    }

    func postponeOutbox(_ id: Digest, until: WallTime, counting: Bool) async throws(StoreFailure) {
        try await timed("postponeOutbox") { () async throws(StoreFailure) in
            try await base.postponeOutbox(id, until: until, counting: counting)
        }
    }

    func removeOutbox(_ id: Digest) async throws(StoreFailure) {
        try await timed("removeOutbox") { () async throws(StoreFailure) in try await base.removeOutbox(id) }
    }

    func outboxCount() async throws(StoreFailure) -> Int {
        try await timed("outboxCount") { () async throws(StoreFailure) in try await base.outboxCount() }
    }

    func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult {
        try await timed("consumeLogoutToken") { () async throws(StoreFailure) in
            try await base.consumeLogoutToken(id, until: until, ending: selector, now: now, limit: limit)
        }
    }

    func acquireLease(
        _ name: String, owner: String, now: WallTime, until: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await timed("acquireLease", writes: true) { () async throws(StoreFailure) in
            try await base.acquireLease(name, owner: owner, now: now, until: until)
        }
    }

    func releaseLease(_ name: String, owner: String) async throws(StoreFailure) {
        try await timed("releaseLease", writes: true) { () async throws(StoreFailure) in
            try await base.releaseLease(name, owner: owner)
        }
    }

    func countSeals(_ counts: [String: Int]) async throws(StoreFailure) -> [String: Int] {
        try await timed("countSeals") { () async throws(StoreFailure) in try await base.countSeals(counts) }
    }

    func appendAudit(_ row: AuditRow) async throws(StoreFailure) {
        try await timed("appendAudit") { () async throws(StoreFailure) in try await base.appendAudit(row) }
    }

    func lease(_ name: String) async throws(StoreFailure) -> WallTime? {
        try await timed("lease") { () async throws(StoreFailure) in try await base.lease(name) }
    }

    func sweep(now: WallTime, limit: Int, lapsedSince: WallTime?) async throws(StoreFailure) -> SweepResult {
        try await timed("sweep", writes: true) { () async throws(StoreFailure) in
            try await base.sweep(now: now, limit: limit, lapsedSince: lapsedSince)
        }
    }

    func ping() async throws(StoreFailure) { try await base.ping() }
    func close() async { await base.close() }
}
