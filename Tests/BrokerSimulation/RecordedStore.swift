import Broker

/// A process's store that records each operation in the `PortTrace`.
///
/// Operations for refreshes and endings are recorded with their arguments and results. All other operations are recorded with
/// their names only.
struct RecordedStore: AroundStore {
    let base: any BrokerStore
    let process: SimulatedProcess
    private var words: TraceWords { TraceWords(vault: process.world.vault) }

    init(_ base: any BrokerStore, of process: SimulatedProcess) {
        self.base = base
        self.process = process
    }

    private func recording<Value>(
        _ call: @autoclosure () -> String, _ result: (Value) -> String,
        _ work: () async throws(StoreFailure) -> Value
    ) async throws(StoreFailure) -> Value {
        try await process.recording(call(), result, failure: { words.of($0) }, work)
    }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await recording(operation.rawValue, { _ in "done" }) { () async throws(StoreFailure) in
            try await work(base)
        }
    }

    func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        try await recording("session \(words.of(tokenDigest))", { words.of($0) }) { () async throws(StoreFailure) in
            try await base.session(tokenDigest: tokenDigest)
        }
    }

    func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        try await recording("endSessions \(reason.rawValue)", { words.of($0.ended) }) {
            () async throws(StoreFailure) in
            try await base.endSessions(selector, reason: reason, now: now, limit: limit)
        }
    }

    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        try await recording("completeStepUp \(words.of(commit))", { words.of($0 == .committed) }) {
            () async throws(StoreFailure) in
            try await base.completeStepUp(commit)
        }
    }

    // MARK: Refreshes

    func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        try await recording("claimRefresh \(words.of(claim))", { words.of($0) }) { () async throws(StoreFailure) in
            try await base.claimRefresh(claim)
        }
    }

    func renewRefresh(tokenDigest: Digest, fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await recording("renewRefresh \(words.of(tokenDigest)) \(fence) \(words.of(lifetime))", { words.of($0) }) {
            () async throws(StoreFailure) in
            try await base.renewRefresh(tokenDigest: tokenDigest, fence: fence, for: lifetime)
        }
    }

    func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        try await recording("refreshState \(words.of(tokenDigest))", { words.of($0) }) {
            () async throws(StoreFailure) in
            try await base.refreshState(tokenDigest)
        }
    }

    func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        try await recording("commitRefresh \(words.of(commit))", { words.of($0) }) { () async throws(StoreFailure) in
            try await base.commitRefresh(commit)
        }
    }

    func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        try await recording("releaseRefresh \(words.of(release))", { "done" }) { () async throws(StoreFailure) in
            try await base.releaseRefresh(release)
        }
    }

    func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        try await recording("markSubjectChecked \(words.of(tokenDigest)) \(tokenVersion)", { "done" }) {
            () async throws(StoreFailure) in
            try await base.markSubjectChecked(tokenDigest: tokenDigest, tokenVersion: tokenVersion)
        }
    }

    func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        try await recording(
            "condemnRefresh \(words.of(tokenDigest)) \(tokenVersion) \(fence) \(reason.rawValue) \(words.of(now))",
            { words.of($0) }
        ) { () async throws(StoreFailure) in
            try await base.condemnRefresh(
                tokenDigest: tokenDigest, tokenVersion: tokenVersion, fence: fence, reason: reason, now: now)
        }
    }

    // MARK: Tokens for other APIs

    func targetToken(_ key: Digest, of session: Digest) async throws(StoreFailure) -> TargetTokenRow? {
        try await recording("audience \(words.of(key)) \(words.of(session))", { words.of($0) }) {
            () async throws(StoreFailure) in
            try await base.targetToken(key, of: session)
        }
    }

    func keepTargetToken(_ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?) async throws(StoreFailure)
        -> Bool
    {
        try await recording(
            "keepAudience \(words.of(row)) \(tokenVersion) \(words.of(tokens, .tokens, row.session))", { words.of($0) }
        ) { () async throws(StoreFailure) in
            try await base.keepTargetToken(row, tokenVersion: tokenVersion, of: tokens)
        }
    }

    func useTargetToken(_ key: Digest, at now: WallTime) async throws(StoreFailure) {
        try await recording("useAudience \(words.of(key)) \(words.of(now))", { "done" }) {
            () async throws(StoreFailure) in
            try await base.useTargetToken(key, at: now)
        }
    }

    // MARK: Revocations

    func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        try await recording("addOutbox \(rows.map { words.of($0) })", { "done" }) { () async throws(StoreFailure) in
            try await base.addOutbox(rows)
        }
    }

    func postponeOutbox(_ work: [PostponedWork], counting: Bool) async throws(StoreFailure) {
        try await recording("postponeOutbox \(words.of(work.map(\.id))) \(words.of(counting))", { "done" }) {
            () async throws(StoreFailure) in
            try await base.postponeOutbox(work, counting: counting)
        }
    }

    func removeOutbox(_ ids: [Digest]) async throws(StoreFailure) {
        try await recording("removeOutbox \(words.of(ids))", { "done" }) { () async throws(StoreFailure) in
            try await base.removeOutbox(ids)
        }
    }
}
