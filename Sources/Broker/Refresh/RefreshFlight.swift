/// Carries out the decisions of `RefreshStateMachine`, for one session and one of its access tokens.
///
/// The flight reads and claims the row, and calls the provider before one deadline. A new pair is stored before anything else.
/// If another flight has the claim, this one waits and reads the row repeatedly.
struct RefreshFlight: Sendable {
    let context: BrokerContext
    let flight: SharedFlight
    let session: Digest
    let need: RefreshStateMachine.Need
    /// The API that the access token is for; nil for the session's own token.
    let audience: Audience?
    /// The party that requested a newer token; nil for a refresh because of the token's age.
    let asker: ForcedRefreshes.Asker?

    let claim: ClaimShell<ClaimedSession>

    init(
        context: BrokerContext, flight: SharedFlight, session: Digest, need: RefreshStateMachine.Need,
        audience: Audience? = nil, asker: ForcedRefreshes.Asker? = nil
    ) {
        self.context = context
        self.flight = flight
        self.session = session
        self.need = need
        self.audience = audience
        self.asker = asker
        claim = ClaimShell(ClaimedSession(store: context.store, tokenDigest: session), context)
    }

    /// The common deadline of all provider calls of one claim, measured from before the claim is sent.
    ///
    /// The claim lasts longer.
    static let callBudget = Duration.seconds(15)
    /// The shortest time that must be left for a confirming call.
    private static let confirmingBudget = Duration.seconds(2)
    /// The time after a take-over in which the former owner of the claim may still store its pair.
    static let takeOverGrace = Duration.seconds(60)
    /// The number of refusals that may mean a dead grant, and the time that they must span, before the session ends (guarantee
    /// 2).
    private static let countedRefusals = 3
    private static let countedPeriod = Duration.seconds(300)
    private static let countedPause = Duration.seconds(30)

    /// The values that the steps of a flight share.
    struct Work {
        var row: SessionRow?
        var stored: StoredTokens?
        var provider: (any TokenRefreshing)?
        var grant: RefreshGrant?
        var deadline: Duration = .zero
        var fresh: TokenSet?
        /// The time at which the fresh tokens arrived.
        var arrivedAt: WallTime?
        var failure: ProviderFailure?
        /// Whether the failure belongs to a call with a target, and therefore does not count against the grant.
        var isFailureOfTarget = false
        /// The last failure of a call with a target.
        var targetFailure: ProviderFailure?
        var answerLost = false
        /// The call that was made last under the claim; nil before the first.
        var call: RefreshStateMachine.Call?
        /// The record of the last request that was sent to the provider.
        var sending = RefreshSending()
        /// The stored access token for another API.
        var kept: KeptAudience?
        /// The exchanged token, which is to be stored.
        var exchanged: AudienceRow?
        /// Whether the provider left the access token for another API unbound, although the session has a key.
        var isTargetWithheld = false
        /// Whether a step-up has replaced the access token since the claim, and kept the grant.
        var isLent = false
        /// Whether this process lacks the key to the stored tokens, so that the new pair replaces them unread.
        var overwrites = false
        var heldBackFor: Duration?
        var pause = DoublingPause(from: .milliseconds(50), to: .milliseconds(800))
        var isWritten = false
        /// Whether the new pair belongs to a grant that a step-up has replaced.
        var isOutgrown = false
        /// The token version whose subject was checked.
        var lookedAt: Int64 = 0
        var hasWaited = false

        /// Whether the failure is the answer to a call with a target, and therefore proves nothing about the endpoint.
        var isTargetsOwn: Bool {
            guard isFailureOfTarget, let failure else { return false }
            switch failure {
            case .rejected, .unusable, .identityRejected: return true
            case .notSent, .retryable, .lost: return false
            }
        }

        /// The error code of a refusal that may mean a dead grant; empty if the answer had an empty body, and nil for other
        /// failures.
        var countedRefusal: String? {
            guard !isFailureOfTarget, case .rejected(let refusal) = failure, refusal.mayMeanDeadGrant else {
                return nil
            }
            return refusal.code
        }
    }

    /// Runs the flight to its end, and answers callers whose patience is over.
    ///
    /// The result is the session's row with the tokens to use, and the access token for another API if one was wanted.
    func run() async -> SharedFlight.Outcome {
        await claim.whileRenewing(look: { flight.expire(at: $0) }) { await perform() }
    }

    private func perform() async -> SharedFlight.Outcome {
        let patience = context.clock.monotonic() + context.settings.waiterPatience
        var machine = RefreshStateMachine(need: need, purpose: audience?.purpose ?? .own)
        var work = Work()
        var action: RefreshStateMachine.Action
        do throws(BrokerProblem) {
            action = machine.handle(try await read(&work))
            while true {
                switch action {
                case .claim(let version): action = machine.handle(await ask(version, &work))
                case .call(let confirming, .exchange):
                    action = machine.handle(await exchange(confirming: confirming, &work))
                case .call(let confirming, let kind):
                    action = machine.handle(await call(kind, confirming: confirming, &work))
                case .keep: action = machine.handle(await keep(&work))
                case .commit: action = machine.handle(await commit(&work))
                case .checkSubject: action = machine.handle(await checkSubject(&work))
                case .end(let reason):
                    guard try await end(reason, ifStillAt: work.lookedAt, work) else {
                        action = .finish(.unavailable)
                        continue
                    }
                    note(ending: reason, work)
                    work.row?.endReason = reason
                    action = .finish(.sessionEnded)
                case .condemn(let reason): action = machine.handle(await condemn(reason, &work))
                case .release(let outcome):
                    await release(&work, isOfTarget: outcome == .targetRefused)
                    action = .finish(outcome)
                case .wait: action = machine.handle(try await wait(&work, until: patience))
                case .readAgain:
                    // A damaged row may never match a claim. The pause and the patience prevent an endless loop.
                    guard context.clock.monotonic() < patience || work.isWritten else {
                        action = machine.handle(.patienceOver)
                        continue
                    }
                    if !work.isWritten { try? await work.pause.take(context.clock) }
                    action = machine.handle(try await read(&work))
                case .revoke:
                    await revoke(work)
                    action = .finish(.sessionEnded)
                case .finish(let outcome): return try await finish(outcome, work)
                }
            }
        } catch { return .failure(error) }
    }

    // MARK: Reading and waiting

    private func read(_ work: inout Work) async throws(BrokerProblem) -> RefreshStateMachine.Input {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(tokenDigest: session) } catch {
            _ = failed("session", error)
            throw BrokerProblem(error)
        }
        let standing = row.map { SessionStanding($0, context) }
        if row?.endedAt == nil, standing == .doubted { throw .clockDoubted }
        guard let row, row.endedAt == nil, standing == .lives, row.tokens != nil else {
            work.row = row
            return .read(version: 0, live: false, fresh: false, usable: false, refreshable: false)
        }
        let stored = try StoredTokens.open(row, context)
        let access = stored.access(version: row.tokenVersion)
        guard context.providers.has(stored.provider, stored.client) else { throw .notConfigured }
        work.row = row
        work.stored = stored
        work.provider = context.providers[stored.provider] as? any TokenRefreshing
        if let audience { return try await read(audience, row, stored, &work) }
        let now = context.clock.now()
        let isShown = context.shows(access.certificate, stored.provider, stored.client)
        let rest = stored.withheldFor(at: now)
        if let rest {
            work.heldBackFor = rest
            context.memory.flights.holdBack(session, until: context.clock.monotonic() + rest)
        }
        return .read(
            version: row.tokenVersion, live: true,
            fresh: isShown
                && RefreshTiming.isFresh(access, session, margin: context.settings.refreshMargin, at: now),
            usable: isShown && RefreshTiming.isUsable(access, at: now),
            refreshable: work.provider != nil && stored.tokens.refreshToken != nil, unchecked: row.subjectUnchecked,
            withheld: stored.tokens.isWithheld ? (rest == nil ? .before : .lately) : nil,
            standing: .version(access.version))
    }

    /// Waits for another owner's claim by polling the row, and reads the row when it has changed.
    private func wait(_ work: inout Work, until patience: Duration) async throws(BrokerProblem)
        -> RefreshStateMachine.Input
    {
        if !work.hasWaited, let stored = work.stored {
            work.hasWaited = true
            context.events.emit(.refreshWaited(provider: stored.provider, client: stored.client))
        }
        let version = work.row?.tokenVersion
        do throws(StoreFailure) {
            let end = try await claim.wait(until: patience, &work.pause) { () async throws(StoreFailure) in
                guard let state = try await context.store.refreshState(session) else { return false }
                return !state.isEnded && state.claimFor != nil && state.tokenVersion == version
            }
            guard case .lapsed = end else { return .patienceOver }
        } catch {
            _ = failed("refreshState", error)
            throw BrokerProblem(error)
        }
        return try await read(&work)
    }

    // MARK: Claiming

    private func ask(_ version: Int64, _ work: inout Work) async -> RefreshStateMachine.Input {
        let memory = context.memory
        // A pair in hand is written before a new refresh begins.
        let moment = context.clock.monotonic()
        guard memory.store.mayClaim(at: moment), let bytes = try? context.vault.random(16) else { return .storeFailed }
        work.deadline = moment + Self.callBudget
        work.call = nil
        if audience != nil {
            // The result of the previous claim has been written.
            work.isWritten = false
            (work.isTargetWithheld, work.isLent, work.overwrites) = (false, false, false)
            (work.fresh, work.failure) = (nil, nil)
        }
        let wanted = RefreshClaim(
            tokenDigest: session, tokenVersion: version, name: ClaimID(random: bytes),
            lifetime: context.settings.claimLifetime, takesOver: memory.store.isCalm(at: moment),
            now: work.row.map(context.aliveTime) ?? context.lapseTime)
        do throws(StoreFailure) {
            var hasAskedAgain = false
            let result = try await claim.ask(wanted) { failure in
                guard !hasAskedAgain else { return false }
                hasAskedAgain = true
                _ = failed("claimRefresh", failure)
                return true
            }
            memory.store.took()
            switch result {
            case .claimed(let grant):
                work.grant = grant
                claim.held.take(grant.fence, at: moment)
                return .claimed(
                    lossKnown: grant.answerLost || grant.takenOverBefore || grant.takenOverFor != nil,
                    settled: grant.takenOverFor.map { $0 >= Self.takeOverGrace } ?? true)
            case .busy: return .busy
            case .heldBack(let rest):
                work.heldBackFor = rest
                memory.flights.holdBack(session, until: context.clock.monotonic() + rest)
                return .heldBack
            case .moved: return .moved
            case .gone: return .gone
            }
        } catch { return failed("claimRefresh", error) }
    }

    // MARK: Calling

    private func call(
        _ kind: RefreshStateMachine.Call, confirming: Bool, _ work: inout Work
    ) async -> RefreshStateMachine.Input {
        guard let provider = work.provider, let stored = work.stored, let row = work.row, let grant = work.grant,
            let refreshToken = stored.tokens.refreshToken,
            await mayCall(isFirst: work.call == nil, grant, work.deadline)
        else { return .notSent }
        // A call of another kind starts again, with a new nonce.
        if work.call != kind { work.sending = RefreshSending() }
        work.call = kind
        let target = kind == .audience ? audience : nil
        work.isFailureOfTarget = target != nil
        var request = RefreshRequest(
            client: stored.client, refreshToken: refreshToken, accessToken: stored.tokens.accessToken,
            idempotencyKey: Base64URL.encode(
                context.vault.index(
                    .logTag,
                    ["refresh", row.handle.text, String(row.tokenVersion)]
                        + (target.map { [Base64URL.encode($0.key.bytes)] } ?? [])
                ).bytes),
            recovering: confirming)
        request.target = target?.target
        do throws(VaultFailure) { request.proof = try proof(of: stored, row, refreshToken, for: target) } catch {
            return .notSent
        }
        request.isBound = stored.tokens.key != nil
        request.isCertified = stored.tokens.certificate != nil
        request.usesNonces = stored.tokens.key?.usesNonces ?? false
        request.sending = work.sending
        let begun = context.clock.monotonic()
        // Sample this before the call. A refusal that was already in flight when the endpoint recovered belongs to the outage.
        let grantsOthers = context.memory.answers.hasGranted(
            stored.provider, stored.client, since: begun - grant.emptyFor)
        let isOthers = showsAnother(than: stored)
        do throws(ProviderFailure) {
            work.fresh = try await context.memory.places.within(
                provider, row.subject, by: work.deadline, context.clock
            ) { () async throws(ProviderFailure) in try await provider.refresh(request, by: work.deadline) }
            work.arrivedAt = context.clock.now()
            // Only the answer to a plain call shows that the endpoint grants refreshes.
            if target == nil { context.memory.answers.granted(stored.provider, stored.client, begun: begun) }
            if work.sending.isBare {
                tellOfProof(stored, row, "the refresh succeeded without a proof, so the tokens stay unbound")
            }
            return .refreshed
        } catch {
            let error = isOthers || showsAnother(than: stored) ? error.doubted(.otherCertificate) : error
            work.failure = error
            if target != nil { work.targetFailure = error }
            // The refresh token may be spent, regardless of the last answer.
            if work.sending.mayBeSpent { work.answerLost = true }
            switch error {
            case .notSent: return .notSent
            case .retryable: return .retryable
            case .rejected(let oauth) where oauth.isAboutProof:
                tellOfProof(stored, row, error.detail)
                return .unusable
            case .rejected(let oauth) where target != nil && oauth.isAboutTarget: return .rejected(.target)
            // Keep this case before all that condemn. The grant may live, and another call now would be just as uncertain.
            case .rejected(let oauth) where oauth.doubt != nil && oauth.mayMeanDeadGrant:
                if work.sending.isBare { tellOfProof(stored, row, error.detail) }
                return .rejected(.counted(enough: grantsOthers && isEnough(grant)))
            // The server that refused the nonce may have spent the refresh token before. This refusal therefore counts as a
            // lost answer.
            case .rejected(let oauth) where oauth.isInvalidGrant && work.sending.mayBeSpent && !confirming: return .lost
            case .rejected(let oauth) where oauth.isInvalidGrant && oauth.isOfOldProof: return .rejected(.unclear)
            case .rejected(let oauth) where oauth.isInvalidGrant: return .rejected(.invalidGrant)
            case .rejected(let oauth) where oauth.mayMeanDeadGrant:
                return .rejected(.counted(enough: grantsOthers && isEnough(grant)))
            case .rejected: return .rejected(.unclear)
            case .unusable, .identityRejected: return .unusable
            case .lost:
                work.answerLost = true
                return .lost
            }
        }
    }

    func tellOfProof(_ stored: StoredTokens, _ row: SessionRow, _ detail: String) {
        context.events.emit(
            .proofRefused(provider: stored.provider, client: stored.client, session: row.handle, detail: detail))
    }

    /// Whether a call shows another certificate than the one that the session's tokens are bound to, or shows one for unbound
    /// tokens.
    ///
    /// The answer may then concern the certificate instead of the grant.
    func showsAnother(than stored: StoredTokens) -> Bool {
        if stored.tokens.certificate != nil {
            return !context.shows(stored.tokens.certificate, stored.provider, stored.client)
        }
        let client = context.providers[stored.provider]?.profile.client(stored.client)
        return client?.senderConstraint == .mtls && stored.tokens.key == nil
    }

    /// Returns the maker of proofs for a call; nil for a call without proofs.
    ///
    /// Bound tokens use the session's key. If unbound tokens are to become bound, the key is derived from the refresh token.
    /// Another process that makes the call later derives the same key.
    ///
    /// A call with a target never begins a binding. It would also bind the refresh token to the key of its answer, and the
    /// session's token set would not contain that key.
    func proof(
        of stored: StoredTokens, _ row: SessionRow, _ refreshToken: Secret, for target: Audience?
    ) throws(VaultFailure) -> ProofMaker? {
        if let key = stored.tokens.key { return ProofMaker(key.pair, context.vault, context.clock) }
        guard target == nil else { return nil }
        let client = context.providers[stored.provider]?.profile.client(stored.client)
        guard client?.senderConstraint == .dpop else { return nil }
        let seed = context.vault.index(.tokenKey, ["refresh", row.handle.text, refreshToken.reveal()])
        return ProofMaker(try context.vault.proofKeyPair(seed: seed.bytes), context.vault, context.clock)
    }

    /// Returns whether there is enough time left for a call.
    ///
    /// Before each call after the first, the claim is renewed.
    func mayCall(isFirst: Bool, _ grant: RefreshGrant, _ deadline: Duration) async -> Bool {
        guard !isFirst else { return context.clock.monotonic() < deadline }
        guard await claim.renew(grant.fence) == true else { return false }
        let moment = context.clock.monotonic()
        claim.held.renewed(at: moment)
        return deadline - moment >= Self.confirmingBudget
    }

    /// Returns whether the refusals that may mean a dead grant are enough, in number and time, to end the session.
    private func isEnough(_ grant: RefreshGrant) -> Bool {
        grant.emptyRefusals + 1 >= Self.countedRefusals && grant.emptyFor >= Self.countedPeriod
    }

    // MARK: Checking the subject

    /// Checks the subject of a refreshed id_token, from this flight or stored unchecked by another process.
    ///
    /// An id_token for another subject ends the session. An id_token that only fails verification loses its claims (SEC-59).
    private func checkSubject(_ work: inout Work) async -> RefreshStateMachine.Input {
        let isOurs = work.fresh != nil
        guard let stored = work.stored, let provider = work.provider, let row = work.row,
            let idToken = isOurs ? work.fresh?.idToken : stored.uncheckedIDToken
        else { return .subjectChecked(.same) }
        let facts: SessionFacts
        do { facts = try SessionFacts.open(row, context.vault) } catch {
            // A replica sealed the facts with a newer key, so the subject to compare is unknown here.
            return .subjectChecked(BrokerProblem(opening: error) == nil ? .same : .unknown)
        }
        var tokens = work.fresh ?? stored.tokens
        tokens.idToken = idToken
        // The id_token came with another API's access token, and contains the hash of that token.
        if !isOurs, stored.accessVersion != nil { tokens.accessToken = Secret("") }
        let version = isOurs ? row.tokenVersion + 1 : row.tokenVersion
        work.fresh = nil
        work.lookedAt = version
        do throws(ProviderFailure) {
            let found = try await provider.subjectOfRefreshed(
                tokens, before: stored.tokens, client: stored.client)
            switch found {
            case .subject(let subject) where !subject.hasBytes(of: facts.subject): return .subjectChecked(.another)
            case .foreign: return .subjectChecked(.another)
            case .subject, .absent: break
            case .unverifiable(_, let subject?) where !subject.hasBytes(of: facts.subject):
                return .subjectChecked(.another)
            case .unverifiable(let detail, _):
                context.events.emit(
                    .refreshedTokenUnverified(
                        provider: stored.provider, client: stored.client, session: row.handle, detail: detail))
            }
        } catch {
            work.failure = error
            return .subjectChecked(.unknown)
        }
        do throws(StoreFailure) {
            try await context.store.markSubjectChecked(tokenDigest: session, tokenVersion: version)
            context.cache.remove([session])
        } catch {
            _ = failed("markSubjectChecked", error)
            // Tokens for another API are only read after this mark. Without it, the flight would fetch them repeatedly.
            if audience != nil { return .subjectChecked(.unknown) }
        }
        return .subjectChecked(.same)
    }

    // MARK: Ending and releasing

    /// Ends the session if it still has the tokens whose subject was checked.
    ///
    /// After a step-up they belong to another grant, and prove nothing about the session.
    private func end(
        _ reason: EndReason, ifStillAt version: Int64, _ work: Work
    ) async throws(BrokerProblem) -> Bool {
        do throws(StoreFailure) {
            guard let row = try await context.store.session(tokenDigest: session), row.endedAt == nil else {
                return true
            }
            guard row.tokenVersion == version else { return false }
            let isEnded = try await context.store.condemnRefresh(
                tokenDigest: session, tokenVersion: version, fence: row.fence, reason: reason,
                now: context.clock.now())
            if isEnded { EndSession(context).announce([session], reason, row.handle) }
            return isEnded
        } catch {
            context.cache.remove([session])
            _ = failed("condemnRefresh", error)
            // A full disk still takes endings.
            guard error == .full else { throw BrokerProblem(error) }
        }
        try await EndSession(context).end(.token(session), reason: reason, handle: work.row?.handle)
        return true
    }

    private func condemn(_ reason: EndReason, _ work: inout Work) async -> RefreshStateMachine.Input {
        guard let row = work.row, let grant = work.grant else { return .storeFailed }
        do throws(StoreFailure) {
            let condemned = try await context.store.condemnRefresh(
                tokenDigest: session, tokenVersion: row.tokenVersion, fence: grant.fence, reason: reason,
                now: context.clock.now())
            claim.held.drop()
            if condemned {
                work.row?.endReason = reason
                EndSession(context).announce([session], reason)
                note(ending: reason, work)
            }
            return .condemned(condemned)
        } catch {
            // The session may have ended although the call failed.
            context.cache.remove([session])
            _ = failed("condemnRefresh", error)
            await release(&work)
            return .storeFailed
        }
    }

    private func note(ending reason: EndReason, _ work: Work) {
        guard let stored = work.stored, let row = work.row else { return }
        context.events.emit(
            .refreshEndedSession(
                provider: stored.provider, client: stored.client, session: row.handle, reason: reason))
    }

    /// Releases the claim, with the facts about its call that the row has to remember.
    ///
    /// After a refused target, other refreshes of the session may go on at once.
    func release(_ work: inout Work, isOfTarget: Bool = false) async {
        guard let row = work.row, let grant = work.grant else { return }
        if !isOfTarget, let stored = work.stored {
            context.events.emit(
                .refreshFailed(
                    provider: stored.provider, client: stored.client, session: row.handle,
                    reason: work.failure?.shortDescription ?? "unknown", counted: work.countedRefusal))
        }
        var backOff = isOfTarget ? .zero : backOff(work)
        work.heldBackFor = backOff
        if let audience, !isOfTarget, work.isTargetsOwn {
            // The session's own token, and tokens for other APIs, may still be fetched.
            context.memory.audiences.rests(audience.key, for: backOff, at: context.clock.monotonic())
            backOff = .zero
        }
        if backOff > .zero {
            context.memory.flights.holdBack(session, until: context.clock.monotonic() + backOff)
        }
        claim.held.drop()
        let isCounted = work.countedRefusal != nil
        let release = RefreshRelease(
            tokenDigest: session, tokenVersion: row.tokenVersion, fence: grant.fence, holdBack: backOff,
            answerLost: work.answerLost, emptyRefusal: isCounted)
        do throws(StoreFailure) { try await context.store.releaseRefresh(release) } catch {
            _ = failed("releaseRefresh", error)
            // Release in the background. The row's marks name the reason of an end, and a claim that is left to lapse keeps the
            // session waiting.
            let store = context.store
            claim.giveBack(after: ClaimedSession.pauseBeforeGivingBack) { () async throws(StoreFailure) in
                try await store.releaseRefresh(release)
            }
        }
    }

    private func backOff(_ work: Work) -> Duration {
        switch work.failure {
        case .retryable(_, let retryAfter?, _): return min(max(retryAfter, .seconds(1)), .seconds(300))
        case .rejected where work.isFailureOfTarget: return .seconds(2)
        case .rejected(let refusal) where refusal.mayMeanDeadGrant: return Self.countedPause
        case .rejected(let refusal) where refusal.isInvalidGrant:
            // The claim was taken over a short while ago. A retry is useless until the late winner's time is over.
            return work.grant?.takenOverFor.map { max(.seconds(2), Self.takeOverGrace - $0) } ?? .seconds(2)
        default: return .seconds(2)
        }
    }

    private func finish(
        _ outcome: RefreshStateMachine.Outcome, _ work: Work
    ) async throws(BrokerProblem) -> SharedFlight.Outcome {
        switch outcome {
        case .useStored:
            if let row = work.row, row.tokens != nil, row.endedAt == nil, SessionStanding(row, context) == .lives {
                if work.hasWaited, work.grant == nil, let stored = work.stored {
                    context.events.emit(.refreshShared(provider: stored.provider, client: stored.client))
                }
                guard audience != nil else { return .success(SharedFlight.Flown(row: row)) }
                // A step-up may have dropped the token since.
                guard let kept = work.kept else {
                    return .failure(
                        BrokerProblem(
                            .providerUnavailable,
                            privateDetail: "a step-up changed the session's grant during the call",
                            retryAfter: .seconds(1)))
                }
                return .success(SharedFlight.Flown(row: row, access: kept.access))
            }
            return try await ended(work)
        case .sessionEnded: return try await ended(work)
        case .notRefreshable: return .failure(BrokerProblem(.notRefreshable))
        case .targetRefused:
            let problem = refuseTarget(work)
            guard need == .expiring, let row = work.row, let living = living(work) else { return .failure(problem) }
            return .success(SharedFlight.Flown(row: row, access: living))
        case .unavailable:
            return .failure(
                BrokerProblem(
                    .providerUnavailable, privateDetail: work.failure?.detail,
                    retryAfter: max(.seconds(1), work.heldBackFor ?? backOff(work))))
        case .storeUnavailable: return .failure(BrokerProblem(.storeUnavailable, retryAfter: .seconds(2)))
        }
    }

    private func ended(_ work: Work) async throws(BrokerProblem) -> SharedFlight.Outcome {
        var latest = work
        if work.row?.endReason == nil { _ = try await read(&latest) }
        guard let row = latest.row else { return .failure(BrokerProblem(.sessionRequired)) }
        if let reason = row.endReason { return .failure(BrokerProblem(.sessionEnded, reason: reason)) }
        switch SessionStanding(row, context) {
        case .lapsed(let reason): return .failure(BrokerProblem(.sessionEnded, reason: reason))
        // The session still lives. A wrong clock led to the earlier verdict.
        case .lives, .doubted: return .failure(.clockDoubted)
        }
    }

    func failed(_ operation: StaticString, _ failure: StoreFailure) -> RefreshStateMachine.Input {
        claim.failed(operation, failure)
        return .storeFailed
    }
}
