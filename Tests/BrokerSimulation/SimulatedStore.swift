import Broker
import BrokerTestSupport

/// One process's connection to the shared store.
///
/// The store's answers can be late or lost, and writes can fail or remain in doubt.
final class SimulatedStore: AroundStore, SharedStore, @unchecked Sendable {
    let process: SimulatedProcess
    let world: Simulation
    private var scheduler: Scheduler { world.scheduler }

    init(_ process: SimulatedProcess, _ world: Simulation) {
        self.process = process
        self.world = world
    }

    var base: any BrokerStore { world.memory }

    /// The operations that can be slow (`slowReads`).
    private static let slow: Set<StoreOperation> = [.session]
    /// The operations that write sealed tokens of sessions.
    ///
    /// A lock on the tables of sealed values stops them.
    private static let writingTokens: Set<StoreOperation> = [
        .completeExchange, .completeStepUp, .commitRefresh, .keepTargetToken,
    ]
    /// The longest time that a statement waits for a locked table, in milliseconds.
    private static let lockPatience = 4_000

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await perform(operation, work)
    }

    /// Performs an operation in the store, which goes on even if the process dies or is paused meanwhile.
    func perform<Value: Sendable>(
        _ operation: StoreOperation?, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        do throws(StoreFailure) { return try await attempt(operation, work) } catch {
            process.storeFailedAt = scheduler.now
            world.noteTrouble()
            throw error
        }
    }

    private func attempt<Value: Sendable>(
        _ operation: StoreOperation?, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        typealias Answer = Result<Value, StoreFailure>
        let gone = Answer.failure(.unavailable("the process died"))
        guard !process.isDead else { throw .unavailable("the process died") }
        let answer = process.promise(gone)
        let (world, scheduler, process) = (world, scheduler, process)
        let isSlow = operation.map(Self.slow.contains) ?? false
        let writesTokens = operation.map(Self.writingTokens.contains) ?? false
        func strikes(_ chance: Double) -> Bool { world.isFoul && scheduler.random.chance(chance) }
        let away = Answer.failure(.unavailable("away"))
        let doubt = Answer.failure(.inDoubt("the answer was lost"))
        if strikes(world.weather.storeFails) {
            scheduler.after(scheduler.random.number(0...50)) { answer.resolve(away) }
        } else {
            let inDoubt = strikes(world.weather.storeInDoubt)
            let isDone = !inDoubt || scheduler.random.chance(0.5)
            let isLate = isSlow && strikes(world.weather.slowReads)
            if isLate { world.noteTrouble() }
            let back = scheduler.random.number(isLate ? 50...1_500 : 0...10)
            // If a table is locked, the callers wait for a while. If the store is away, they either wait or are refused almost
            // at once.
            let patience = scheduler.random.chance(0.5) ? 5_000 : 20
            let held = writesTokens ? min(world.heldFor, Self.lockPatience) : 0
            let waiting = scheduler.random.number(0...10) + max(min(process.storeAwayFor, patience), held)
            scheduler.after(waiting) {
                guard process.storeAwayFor == 0, !writesTokens || world.heldFor == 0 else {
                    return answer.resolve(away)
                }
                guard isDone, !(process.isDead && scheduler.random.chance(0.5)) else { return answer.resolve(doubt) }
                world.lane.start {
                    let result: Answer
                    do throws(StoreFailure) { result = .success(try await work(world.memory)) } catch {
                        result = .failure(error)
                    }
                    scheduler.after(back) { answer.resolve(inDoubt || process.storeAwayFor > 0 ? doubt : result) }
                }
            }
        }
        return try await answer.wait(orCancelled: .failure(.inDoubt("the caller gave up"))).get()
    }

    func settleExchange(
        _ key: Digest, fence: Int64, outcome: ExchangeRow.Outcome, outbox: [OutboxRow], registration: RegistrationRow?
    ) async throws(StoreFailure) -> Bool {
        let (world, process) = (world, process)
        return try await around(.settleExchange) { store throws(StoreFailure) in
            let settled = try await store.settleExchange(
                key, fence: fence, outcome: outcome, outbox: outbox, registration: registration)
            if settled, case .session = outcome { world.stepUps.settles(key) }
            for row in outbox {
                if case .session(let session) = outcome {
                    if settled { world.overtaken(row, of: session) }
                } else {
                    world.gaveUp(row, by: process)
                }
            }
            return settled
        }
    }

    func completeExchange(
        _ key: Digest, fence: Int64, session: SessionRow, replacing: Digest?, sessionLimit: Int
    ) async throws(StoreFailure) -> EndedSessions? {
        let (world, process) = (world, process)
        return try await around(.completeExchange) { store throws(StoreFailure) in
            let ended = try await store.completeExchange(
                key, fence: fence, session: session, replacing: replacing, sessionLimit: sessionLimit)
            if let ended {
                world.wrote(session.tokens, of: session.tokenDigest)
                world.stored(session)
                world.storedTokens(session.tokens, of: session.tokenDigest)
                world.ended(ended.beyondLimit, .sessionLimit, by: process)
            }
            return ended
        }
    }

    func completeStepUp(_ commit: StepUpCommit) async throws(StoreFailure) -> StepUpCommitResult {
        let (world, process) = (world, process)
        return try await around(.completeStepUp) { store throws(StoreFailure) in
            let result = try await store.completeStepUp(commit)
            if result == .committed { world.steppedUp(commit, by: process) }
            return result
        }
    }

    func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion {
        let (world, process) = (world, process)
        return try await around(.insertChild) { store throws(StoreFailure) in
            let parent = await world.parent(of: row)
            let inserted = try await store.insertChild(row, places: places)
            if case .made(let replaced) = inserted {
                world.rules.inserted(row, of: parent)
                world.ended(replaced, .replaced, by: process)
            }
            return inserted
        }
    }

    func markSubjectChecked(tokenDigest: Digest, tokenVersion: Int64) async throws(StoreFailure) {
        let world = world
        try await around(.markSubjectChecked) { store throws(StoreFailure) in
            try await store.markSubjectChecked(tokenDigest: tokenDigest, tokenVersion: tokenVersion)
            let row = try await store.session(tokenDigest: tokenDigest)
            world.standing.marks(
                tokenDigest, isUnchecked: row?.subjectUnchecked ?? false, at: world.scheduler.now)
        }
    }

    func endSessions(
        _ selector: SessionSelector, reason: EndReason, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> EndedBatch {
        let (world, process) = (world, process)
        if case .token(let tokenDigest) = selector { world.rules.touches(tokenDigest, by: process) }
        return try await around(.endSessions) { store throws(StoreFailure) in
            let batch = try await store.endSessions(selector, reason: reason, now: now, limit: limit)
            world.ended(batch.ended, reason, by: process)
            return batch
        }
    }

    func claimRefresh(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        let (world, process) = (world, process)
        let isNew = world.rules.isNew(claim)
        world.rules.asks(claim, by: process)
        if isNew { world.rules.begins(claim.tokenDigest, in: process) }
        defer { if isNew { world.rules.ends(claim.tokenDigest, in: process) } }
        return try await around(.claimRefresh) { store throws(StoreFailure) in
            let result = try await store.claimRefresh(claim)
            world.say("process \(process.number) claims version \(claim.tokenVersion): \(result)")
            if case .claimed = result {
                world.rules.granted(claim, of: try? await store.session(tokenDigest: claim.tokenDigest), to: process)
            }
            return result
        }
    }

    func refreshState(_ tokenDigest: Digest) async throws(StoreFailure) -> RefreshState? {
        // An exchange and the token check of a step-up read the state of a refresh, too. But they are no flight, so the read
        // does not count as a step of a flight.
        let isFlight = SimulatedProcess.work.map { !["exchange", "tokensInQuestion"].contains($0) } ?? true
        if isFlight { world.rules.begins(tokenDigest, in: process) }
        defer { if isFlight { world.rules.ends(tokenDigest, in: process) } }
        return try await around(.refreshState) { store throws(StoreFailure) in
            try await store.refreshState(tokenDigest)
        }
    }

    func commitRefresh(_ commit: RefreshCommit) async throws(StoreFailure) -> RefreshCommitResult {
        let (world, process) = (world, process)
        world.rules.touches(commit.tokenDigest, by: process)
        world.rules.begins(commit.tokenDigest, in: process)
        defer { world.rules.ends(commit.tokenDigest, in: process) }
        do throws(StoreFailure) {
            let result = try await around(.commitRefresh) { store throws(StoreFailure) in
                let result = try await store.commitRefresh(commit)
                if result == .committed { world.refreshed(commit) }
                return result
            }
            if result == .committed {
                world.rules.knows(process, commit.tokenDigest, version: world.accessVersion(commit))
            }
            return result
        } catch {
            world.rules.notWritten(commit.tokenDigest, by: process)
            throw error
        }
    }

    func keepTargetToken(_ row: TargetTokenRow, tokenVersion: Int64, of tokens: Sealed?) async throws(StoreFailure)
        -> Bool
    {
        let world = world
        world.rules.touches(row.session, by: process)
        world.rules.begins(row.session, in: process)
        defer { world.rules.ends(row.session, in: process) }
        return try await around(.keepTargetToken) { store throws(StoreFailure) in
            let isKept = try await store.keepTargetToken(row, tokenVersion: tokenVersion, of: tokens)
            if isKept { world.stored(row) }
            return isKept
        }
    }

    func releaseRefresh(_ release: RefreshRelease) async throws(StoreFailure) {
        world.rules.touches(release.tokenDigest, by: process)
        try await around(.releaseRefresh) { store throws(StoreFailure) in try await store.releaseRefresh(release) }
    }

    func condemnRefresh(
        tokenDigest: Digest, tokenVersion: Int64, fence: Int64, reason: EndReason, now: WallTime
    ) async throws(StoreFailure) -> Bool {
        let (world, process) = (world, process)
        world.rules.touches(tokenDigest, by: process)
        return try await around(.condemnRefresh) { store throws(StoreFailure) in
            let condemned = try await store.condemnRefresh(
                tokenDigest: tokenDigest, tokenVersion: tokenVersion, fence: fence, reason: reason, now: now)
            if condemned {
                world.rules.condemned(world.family(of: tokenDigest), by: process, reason, world.authority.calls)
                world.ended([tokenDigest], reason, by: process)
            }
            return condemned
        }
    }

    func addOutbox(_ rows: [OutboxRow]) async throws(StoreFailure) {
        let world = world
        try await around(.addOutbox) { store throws(StoreFailure) in
            try await store.addOutbox(rows)
            // A token pair in the outbox will be revoked. So it does not make up for a pair that the session has lost.
            for row in rows { world.wrote(row.tokens, of: row.boundTo, inVain: true) }
        }
    }

    func consumeLogoutToken(
        _ id: Digest, until: WallTime, ending selector: SessionSelector, now: WallTime, limit: Int
    ) async throws(StoreFailure) -> LogoutTokenResult {
        let (world, process) = (world, process)
        return try await around(.consumeLogoutToken) { store throws(StoreFailure) in
            let result = try await store.consumeLogoutToken(id, until: until, ending: selector, now: now, limit: limit)
            if case .ended(let batch) = result { world.ended(batch.ended, .providerLogout, by: process) }
            return result
        }
    }

    func ping() async throws(StoreFailure) {
        try await perform(nil) { store throws(StoreFailure) in try await store.ping() }
    }

    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) { process.notices?.listen(handler) }

    /// Returns no versions, because each process notifies its own listeners of refreshes.
    func tokenVersions(of tokenDigests: [Digest]) async throws(StoreFailure) -> [StandingSession] { [] }

    /// Returns the time on the store's own clock.
    ///
    /// Each process asks for this time regularly, even without other work. So each process notices if the store is away.
    func time() async throws(StoreFailure) -> WallTime {
        try await ping()
        return world.storeTime
    }

    func close() async {}
}
