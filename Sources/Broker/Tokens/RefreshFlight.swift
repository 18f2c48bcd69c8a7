/// Carries out the decisions of `RefreshStateMachine`, for one session and one goal.
///
/// The flight reads the row, claims it and calls the provider. All calls under one claim share a deadline. A new pair is
/// stored before anything else. If another flight has the claim, this one waits and reads the row repeatedly.
struct RefreshFlight: Sendable {
    let context: BrokerContext
    let flight: SharedFlight
    let session: Digest
    let need: RefreshStateMachine.Need
    let goal: any FlightGoal
    /// The party that requested a newer token; nil for a refresh because of the token's age.
    let asker: ForcedRefreshes.Asker?
    let claim: ClaimShell<ClaimedSession>

    /// The time for all provider calls of one claim together, counted from the moment before the claim is sent.
    ///
    /// The claim itself lasts longer.
    static let callBudget = Duration.seconds(15)
    /// The shortest time that must be left for a confirming call.
    private static let confirmingBudget = Duration.seconds(2)
    /// The time after a take-over in which the former owner of the claim may still store its pair.
    static let takeOverGrace = Duration.seconds(60)

    /// The session's row as it was read last, and the session if it lives.
    ///
    /// A session without `live` has ended or is missing, which is final.
    struct Found: Sendable {
        let row: SessionRow?
        let live: OpenSession?
    }

    /// A granted claim, and the deadline of its calls.
    struct Turn: Sendable {
        let grant: RefreshGrant
        let deadline: Duration
    }

    /// The kind of the last call under the claim, and the record of its requests.
    struct Sent: Sendable {
        let call: RefreshCall
        let record: RefreshSending
    }

    /// A provider's failure, and the call that failed.
    struct Failed: Sendable {
        let failure: ProviderFailure
        let call: RefreshCall
    }

    /// The values that the steps of a flight share.
    struct Work {
        var found = Found(row: nil, live: nil)
        var turn: Turn?
        /// The last call under the claim; nil before the first.
        var sent: Sent?
        var answer: AnswerInHand?
        /// The failures since the last claim, the newest last.
        var failures: [Failed] = []
        var answerLost = false
        var heldBackFor: Duration?
        var pause = DoublingPause(from: .milliseconds(50), to: .milliseconds(800))
        /// The result of writing a token since the last claim; nil before the first write.
        var written: Written?
        var hasWaited = false

        enum Written { case whole, withheld }

        var failure: ProviderFailure? { failures.last?.failure }

        /// The last failure of a call that proves nothing about the grant.
        var targetFailure: ProviderFailure? { failures.last { !$0.call.provesGrant }?.failure }
    }

    /// The part of the flight that its goal may see.
    func view(_ work: Work) -> FlightView {
        FlightView(
            context: context, session: session, grant: work.turn?.grant, isWithheld: work.written == .withheld)
    }

    // MARK: Running

    /// Runs the flight to its end, and answers callers whose patience is over.
    ///
    /// The result is the access token that the callers wait for, or a problem.
    func run() async -> SharedFlight.Outcome {
        await claim.whileRenewing(look: { flight.expire(at: $0) }) { await perform() }
    }

    private func perform() async -> SharedFlight.Outcome {
        let patience = context.clock.monotonic() + context.settings.waiterPatience
        var machine = RefreshStateMachine()
        var work = Work()
        do throws(BrokerProblem) {
            var action = machine.handle(try await read(&work, machine.progress))
            while true {
                switch action {
                case .finish(let outcome): return try await finish(outcome, work, machine.progress)
                case .release(let outcome):
                    await release(&work, isOfTarget: outcome == .targetRefused)
                    action = .finish(outcome)
                case .end(let reason, let version):
                    guard try await end(reason, ifStillAt: version, &work) else {
                        action = .finish(.unavailable)
                        continue
                    }
                    action = .finish(.sessionEnded)
                case .revoke:
                    await revoke(work)
                    action = .finish(.sessionEnded)
                case .wait:
                    let hasChanged = try await wait(&work, until: patience)
                    action = machine.handle(hasChanged ? try await read(&work, machine.progress) : .patienceOver)
                case .readAgain:
                    if work.written == nil {
                        // A damaged row may never match a claim. The pause and the patience prevent an endless loop.
                        guard context.clock.monotonic() < patience else {
                            action = machine.handle(.patienceOver)
                            continue
                        }
                        try? await work.pause.take(context.clock)
                    }
                    action = machine.handle(try await read(&work, machine.progress))
                case .claim(let version): action = machine.handle(await ask(version, &work))
                case .call(let confirming, let call):
                    action = machine.handle(await request(call, confirming: confirming, &work))
                case .commit: action = machine.handle(await commit(&work))
                case .keep: action = machine.handle(await keep(&work))
                case .checkSubject: action = machine.handle(await checkSubject(&work))
                case .condemn(let reason): action = machine.handle(await condemn(reason, &work))
                }
            }
        } catch { return .failure(error) }
    }

    // MARK: Reading and waiting

    func read(
        _ work: inout Work, _ progress: RefreshStateMachine.Progress
    ) async throws(BrokerProblem) -> RefreshStateMachine.Input {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(tokenDigest: session) } catch {
            claim.failed("session", error)
            throw BrokerProblem(error)
        }
        let standing = row.map { SessionStanding($0, context) }
        if row?.endedAt == nil, standing == .doubted { throw .clockDoubted }
        guard let row, row.endedAt == nil, standing == .lives, row.tokens != nil else {
            work.found = Found(row: row, live: nil)
            return .gone
        }
        let stored = try StoredTokens.open(row, context)
        guard context.providers.has(stored.provider, stored.client) else { throw .notConfigured }
        var open = OpenSession(
            row: row, stored: stored, provider: context.providers[stored.provider] as? any TokenRefreshing, kept: nil)
        work.found = Found(row: row, live: open)
        let token = try await goal.find(in: &open, view(work))
        work.found = Found(row: row, live: open)
        if let rest = token.rest { work.heldBackFor = rest }
        return .read(
            RefreshStateMachine.Reading(
                version: row.tokenVersion, isUnchecked: row.subjectUnchecked,
                isServable: token.isUsable && need == .expiring, next: goal.next(token, need, after: progress)))
    }

    /// Waits for another owner's claim by polling the row; returns whether the row has changed.
    private func wait(_ work: inout Work, until patience: Duration) async throws(BrokerProblem) -> Bool {
        if !work.hasWaited, let stored = work.found.live?.stored {
            work.hasWaited = true
            context.events.emit(.refreshWaited(provider: stored.provider, client: stored.client))
        }
        let version = work.found.row?.tokenVersion
        do throws(StoreFailure) {
            let end = try await claim.wait(until: patience, &work.pause) { () async throws(StoreFailure) in
                guard let state = try await context.store.refreshState(session) else { return false }
                return !state.isEnded && state.claimFor != nil && state.tokenVersion == version
            }
            guard case .lapsed = end else { return false }
            return true
        } catch {
            claim.failed("refreshState", error)
            throw BrokerProblem(error)
        }
    }

    // MARK: Claiming

    private func ask(_ version: Int64, _ work: inout Work) async -> RefreshStateMachine.Input {
        let memory = context.memory
        // While a refreshed pair is unwritten, only a trial claim may begin a new refresh (`mayClaim`).
        let moment = context.clock.monotonic()
        guard memory.store.mayClaim(at: moment), let bytes = try? context.vault.random(16) else { return .storeFailed }
        // The result of the previous claim has been written, so forget its calls.
        (work.sent, work.answer, work.failures, work.written) = (nil, nil, [], nil)
        let wanted = RefreshClaim(
            tokenDigest: session, tokenVersion: version, name: ClaimID(random: bytes),
            lifetime: context.settings.claimLifetime, takesOver: memory.store.isCalm(at: moment),
            now: work.found.row.map(context.aliveTime) ?? context.lapseTime)
        do throws(StoreFailure) {
            var hasAskedAgain = false
            let result = try await claim.ask(wanted) { failure in
                guard !hasAskedAgain else { return false }
                hasAskedAgain = true
                claim.failed("claimRefresh", failure)
                return true
            }
            memory.store.took()
            switch result {
            case .claimed(let grant):
                work.turn = Turn(grant: grant, deadline: moment + Self.callBudget)
                claim.held.take(grant.fence, at: moment)
                return .claimed(
                    RefreshStateMachine.Claimed(
                        isLossKnown: grant.answerLost || grant.takenOverBefore || grant.takenOverFor != nil,
                        isSettled: grant.takenOverFor.map { $0 >= Self.takeOverGrace } ?? true))
            case .busy: return .busy
            case .heldBack(let rest):
                work.heldBackFor = rest
                memory.flights.holdBack(session, until: context.clock.monotonic() + rest)
                return .heldBack
            case .moved: return .moved
            case .gone: return .gone
            }
        } catch {
            claim.failed("claimRefresh", error)
            return .storeFailed
        }
    }

    // MARK: Calling

    private func request(
        _ call: RefreshCall, confirming: Bool, _ work: inout Work
    ) async -> RefreshStateMachine.Input {
        guard let session = work.found.live, let turn = work.turn, await mayCall(isFirst: work.sent == nil, turn) else {
            return .notSent
        }
        // A call of another kind gets an empty record, so it begins without the previous call's nonce.
        let sent = work.sent.flatMap { $0.call == call ? $0 : nil } ?? Sent(call: call, record: RefreshSending())
        work.sent = sent
        let terms = RefreshTurn(
            session: session, grant: turn.grant, deadline: turn.deadline, isConfirming: confirming,
            sending: sent.record)
        // A flight for another API may refresh the session's own tokens first.
        let caller: any FlightGoal = call == goal.call ? goal : OwnToken()
        do throws(RefreshCallFailure) {
            let answer = try await caller.request(terms, view(work))
            work.answer = answer
            if case .exchanged = answer { return .exchanged }
            return .refreshed
        } catch {
            work.failures.append(Failed(failure: error.failure, call: call))
            if error.isAnswerLost { work.answerLost = true }
            return error.meaning
        }
    }

    /// Returns whether there is enough time left for a call.
    ///
    /// Before each call after the first, the claim is renewed.
    private func mayCall(isFirst: Bool, _ turn: Turn) async -> Bool {
        guard !isFirst else { return context.clock.monotonic() < turn.deadline }
        guard await claim.renew(turn.grant.fence) == true else { return false }
        let moment = context.clock.monotonic()
        claim.held.renewed(at: moment)
        return turn.deadline - moment >= Self.confirmingBudget
    }

    // MARK: Storing

    /// The pair that the last call brought, or nil.
    private func pair(_ work: Work) -> PairInHand? {
        guard case .tokens(let fresh, let arrivedAt, let goal) = work.answer, let session = work.found.live,
            let grant = work.turn?.grant
        else { return nil }
        return PairInHand(
            context: context, flight: flight, goal: goal, fresh: fresh, arrivedAt: arrivedAt, grant: grant,
            answerLost: work.answerLost, session: session, isLent: false, overwrites: false)
    }

    /// Stores the new pair, however long the store is away, because the old refresh token is spent.
    private func commit(_ work: inout Work) async -> RefreshStateMachine.Input {
        guard let pair = pair(work) else { return .storeFailed }
        switch await pair.commit(claim) {
        case .committed(let session, let isWithheld):
            work.found = Found(row: session.row, live: session)
            work.answerLost = false
            work.written = isWithheld ? .withheld : .whole
            wasWritten(pair.fresh, by: pair.goal, isWithheld: isWithheld, in: session, work)
            return .committed
        case .superseded, .outgrown:
            (work.answer, work.written) = (nil, .whole)
            return .superseded
        case .ended(let session):
            work.found = Found(row: session.row, live: session)
            return .ended
        case .storeFailed: return .storeFailed
        }
    }

    /// Stores the exchanged token if the claim is still this flight's own, and releases the claim in the same transaction.
    private func keep(_ work: inout Work) async -> RefreshStateMachine.Input {
        guard let session = work.found.live, case .exchanged(let row) = work.answer else { return .storeFailed }
        do throws(StoreFailure) {
            let version = session.row.tokenVersion
            if try await context.store.keepTargetToken(row, tokenVersion: version, of: session.row.tokens) {
                work.written = .whole
                wasWritten(nil, by: goal, isWithheld: false, in: session, work)
                claim.held.drop()
            } else {
                // If a step-up has changed the tokens but kept the grant, this claim still exists, so release it.
                await release(&work, isOfTarget: true)
            }
            return .kept
        } catch {
            claim.failed("keepAudience", error)
            await release(&work, isOfTarget: true)
            return .storeFailed
        }
    }

    /// Notifies the goal of a stored token.
    ///
    /// A forced refresh is noted too. If the upstream keeps refusing newer tokens, an event is emitted.
    private func wasWritten(
        _ answer: TokenSet?, by writer: any FlightGoal, isWithheld: Bool, in session: OpenSession, _ work: Work
    ) {
        writer.wasWritten(answer, isWithheld: isWithheld, in: session, view(work))
        guard let asker, writer.call == goal.call, let grant = work.turn?.grant else { return }
        let pause = context.memory.forced.forced(
            self.session, goal.key, bringing: goal.version(in: session, grant), for: asker,
            at: context.clock.monotonic(), pause: context.settings.forcedRefreshPause)
        guard let pause, case .upstream(let upstream) = asker else { return }
        context.events.emit(
            .upstreamKeepsRefusing(
                provider: session.stored.provider, client: session.stored.client, session: session.row.handle,
                upstream: upstream, pause: pause))
    }

    /// Puts a new pair into the outbox, to be revoked, because its session has ended (SEC-64).
    private func revoke(_ work: Work) async {
        await pair(work)?.revoke(
            of: nil, meanwhile: BrokerProblem(.sessionEnded, with: .ended(work.found.row?.endReason ?? .expired)))
    }
}
