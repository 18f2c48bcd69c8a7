/// Writes the outcome of one claimed exchange.
///
/// The exchange becomes a session or a registration, or is spent or released. The starter's answer is made from the written
/// row.
struct ExchangeSettlement: Sendable {
    typealias Answer = Result<SignInOutcome, BrokerProblem>

    /// The longest time that the app waits while the store fails.
    ///
    /// The write is still retried after the app was answered.
    private static let storePatience = Duration.seconds(5)

    let context: BrokerContext
    let exchange: GrantedExchange
    /// Answers the starter early if the store takes too long to accept the result.
    ///
    /// Only the first answer is sent.
    let early: @Sendable (Answer) -> Void

    init(_ exchange: GrantedExchange, early: @escaping @Sendable (Answer) -> Void) {
        context = exchange.claim.context
        self.exchange = exchange
        self.early = early
    }

    var plan: ExchangePlan { exchange.plan }
    var row: ExchangeRow { exchange.row }
    var profile: ProviderProfile { plan.provider.profile }

    // MARK: With a session

    /// The present time.
    ///
    /// If the clock is now in doubt, the time is the claim's wall time plus the monotonic time since the claim was granted.
    var time: WallTime {
        guard !context.may(.begin) else { return context.clock.now() }
        return exchange.time.now(context.clock.monotonic()) ?? context.clock.now()
    }

    /// Stores the session, and only then returns it with its token (guarantee 4).
    ///
    /// `answered` is the moment of the token response; nil means now.
    func complete(
        _ answer: TokenSet?, _ identity: ProviderIdentity, _ requestedScope: [String], answered: Duration? = nil
    ) async throws(BrokerProblem) -> SignInOutcome {
        if let stepUp = plan.stepUp {
            // A sign-in without tokens could otherwise make a session although the demand is unchecked.
            guard let answer else {
                throw await spend(
                    .providerError, because: .unusable(detail: "the sign-in of a step-up brought no tokens"))
            }
            if let session = stepUp.session {
                return try await self.stepUp(
                    session, stepUp.demand, answer, identity, requestedScope,
                    answered: answered ?? context.clock.monotonic())
            }
            try await checkFirst(stepUp.demand, answer, identity)
        }
        var tokens = answer
        // If the answer omits the scope, the requested scope was granted (RFC 6749 section 5.1).
        if answer?.scope == nil, !requestedScope.isEmpty { tokens?.scope = requestedScope }
        let made: (token: Secret, live: LiveSession)
        do throws(VaultFailure) { made = try session(tokens, identity) } catch {
            throw await spendRevoking(.providerError, because: .unusable(detail: "sealing: \(error)"), revoking: tokens)
        }
        let (token, live) = made
        let origin = SignInOrigin(live.row)
        // A session without tokens need not wait for a revocation.
        if tokens != nil { await enter(origin) }
        defer { context.memory.signIns.leave(row.key) }
        let replacing = plan.presentedSession.map(context.vault.digest)
        if try await isOneTooMany(live.row, replacing: replacing) {
            if plan.isImport {
                // The app's own tokens are used up, so the provider's answer stays until there is room.
                _ = await releaseImport(
                    ImportRelease(calls: 0),
                    because: .unusable(detail: "the shop has as many sessions of the client as it may have"))
                throw BrokerProblem(.tooManySessions)
            }
            throw await spendRevoking(
                .tooManySessions,
                because: .unusable(detail: "the shop has as many sessions of the client as it may have"),
                revoking: tokens, of: origin)
        }
        let ended: EndedSessions
        switch await store(live, replacing: replacing) {
        case .stored(let others): ended = others
        // Another process goes on with the import, and has the same tokens.
        case .takenAway where plan.isImport: throw .importUnderWay
        case .takenAway:
            // The claim lapsed and another process declared the exchange lost, so these tokens belong to no session.
            throw await spendRevoking(
                .unknown, because: .lost(detail: "the claim of the exchange lapsed"), revoking: tokens, of: origin)
        case .processEnds: throw Self.notStored
        }
        announce(live, identity, ended)
        return .signedIn(try SignedIn(live, token: token, transport: plan.client.transport, context))
    }

    /// Makes the session and its token, which are not stored yet.
    private func session(
        _ tokens: TokenSet?, _ identity: ProviderIdentity
    ) throws(VaultFailure) -> (token: Secret, live: LiveSession) {
        // If the forward had no proof, the answer can never be repeated, so a random secret is used instead of the proof.
        let proof: Secret
        if let starter = plan.proof { proof = starter } else { proof = try context.vault.randomToken() }
        let token = try context.vault.sessionToken(keyID: row.keyID, salt: row.salt, proof: proof)
        let live = try SessionMaker(context: context).make(
            tokenDigest: context.vault.digest(token), tokens: tokens, identity: identity, profile: profile,
            client: plan.client, device: plan.device, thumbprint: plan.binding.thumbprint, isImport: plan.isImport,
            old: plan.old, now: time)
        return (token, live)
    }

    /// Reports a stored session, and the sessions that ended because of it.
    private func announce(_ live: LiveSession, _ identity: ProviderIdentity, _ ended: EndedSessions) {
        plan.charge.sessionMade(exchange: row.key, gate: plan.gate)
        let ending = EndSession(context)
        ending.announce(ended.replaced, .replaced)
        ending.announce(ended.beyondLimit, .sessionLimit)
        context.events.emit(
            .loginSucceeded(provider: profile.name, client: plan.client.name, session: live.view.handle))
        if identity.sidIsUnusable {
            context.events.emit(
                .sidUnusable(provider: profile.name, client: plan.client.name, session: live.view.handle))
        }
        if case .register = plan.call {
            context.events.emit(
                .registrationFinished(provider: profile.name, client: plan.client.name, result: "registered"))
        }
    }

    /// Registers the user and sign-in of the session that is about to be stored.
    ///
    /// At some providers, a revocation of other tokens of this user also ends this session's tokens. Therefore the method
    /// waits for a revocation in progress, up to the deadline.
    func enter(_ origin: SignInOrigin) async {
        context.memory.signIns.enter(row.key, origin)
        while context.memory.signIns.isRevoking(origin), context.clock.monotonic() < exchange.deadline {
            do { try await context.clock.sleep(.milliseconds(50)) } catch { return }
        }
    }

    /// Returns whether the shop of the session already has as many sessions as it may have.
    ///
    /// The read is repeated until the store answers, because the code is used up.
    private func isOneTooMany(
        _ row: SessionRow, replacing: Digest?
    ) async throws(BrokerProblem) -> Bool {
        guard let cap = SessionCap(profile, context) else { return false }
        let found: Bool? = await insisting("sessions") { () async throws(StoreFailure) in
            try await cap.isReached(row, replacing: replacing)
        }
        guard let found else { throw Self.notStored }
        return found
    }

    private enum Storing {
        case stored(EndedSessions), takenAway, processEnds
    }

    /// The answer while the store fails.
    ///
    /// `retry` is omitted, because the same forward gets its 201 once the store is back.
    static var notStored: BrokerProblem {
        BrokerProblem(
            .storeUnavailable, privateDetail: "the session is not stored yet, and the broker keeps trying",
            retryAfter: .seconds(2))
    }

    /// Writes the session, and repeats the write until it succeeds, another owner has the claim, or the process ends.
    ///
    /// The code is used up, so the session must survive an outage of the store. If the response of a successful write is
    /// lost, the next attempt finds the session in the exchange's row.
    private func store(_ live: LiveSession, replacing: Digest?) async -> Storing {
        let stored: Storing? = await insisting("completeExchange") { () async throws(StoreFailure) in
            if let ended = try await context.store.completeExchange(
                row.key, fence: row.fence, session: live.row, replacing: replacing,
                sessionLimit: profile.own == .device ? Int(Int32.max) : context.settings.sessionsPerSubjectAndClient)
            {
                return .stored(ended)
            }
            let standing = try await context.store.exchange(row.key)
            guard standing?.outcome == .session(live.tokenDigest) else { return .takenAway }
            // The write with the lost response succeeded. The sessions that it ended are unknown, so the whole cache is
            // cleared.
            context.cache.clear()
            return .stored(EndedSessions())
        }
        exchange.claim.held.drop()
        return stored ?? .processEnds
    }

    /// Repeats a write until the store accepts it, because the result exists only in this process; returns nil if the process
    /// ends first.
    ///
    /// After `storePatience`, the app gets `store_unavailable`, and the repetition continues.
    func insisting<Value: Sendable>(
        _ operation: StaticString, _ write: () async throws(StoreFailure) -> Value
    ) async -> Value? {
        let end = context.clock.monotonic() + Self.storePatience
        context.memory.store.keepResult()
        defer { context.memory.store.wroteResult() }
        return await context.clock.insist(write) { failure in
            exchange.claim.failed(operation, failure)
            if context.clock.monotonic() >= end { early(.failure(Self.notStored)) }
        }
    }

    // MARK: Without a session

    /// Settles or releases the exchange after a failed call that sent a single-use secret, according to the failure table
    /// (docs/guarantees.md).
    func settleFailure(_ failure: ProviderFailure) async -> BrokerProblem {
        switch failure {
        case .notSent: return await release(failure, counting: false)
        case .retryable: return await release(failure, counting: true)
        // The broker's proof was refused before the code was read, so the fault is the broker's.
        case .rejected(let error) where error.isAboutProof: return await spend(.providerError, because: failure)
        case .rejected: return await spend(.rejected, because: failure)
        case .unusable: return await spend(.providerError, because: failure)
        case .identityRejected: return await spend(.identityRejected, because: failure)
        case .lost: return await spend(.unknown, because: failure)
        }
    }

    /// Spends the exchange after tokens were received but the identity failed; the tokens go to the revocation outbox.
    func settleIdentityFailure(
        _ failure: ProviderFailure, _ tokens: TokenSet
    ) async -> BrokerProblem {
        let reason: ExchangeRow.SpentReason
        if case .identityRejected = failure {
            // If the clock is in doubt now, the identity may have been judged by a wrong time. So the outcome is unknown.
            reason = context.may(.refuse) ? .identityRejected : .unknown
        } else {
            reason = .providerError
        }
        return await spendRevoking(reason, because: failure, revoking: await unheld(tokens))
    }

    /// Spends an exchange for which no tokens were received.
    func spend(
        _ reason: ExchangeRow.SpentReason, because failure: ProviderFailure
    ) async -> BrokerProblem {
        plan.trial?.note(failure)
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        do throws(StoreFailure) { try await writeSpent(reason) } catch { return BrokerProblem(error) }
        return Self.problem(reason, failure)
    }

    /// Spends the exchange of a registration that the provider refused.
    func spendRegistration(_ reason: ExchangeRow.SpentReason, result: String) async -> BrokerProblem {
        context.events.emit(
            .registrationFinished(provider: profile.name, client: plan.client.name, result: result))
        do throws(StoreFailure) { try await writeSpent(reason) } catch { return BrokerProblem(error) }
        return BrokerProblem(spent: reason)
    }

    /// Settles an exchange that received tokens but makes no session.
    ///
    /// The tokens are written to the outbox before the call returns, however long this takes.
    func spendRevoking(
        _ reason: ExchangeRow.SpentReason, because failure: ProviderFailure, revoking tokens: TokenSet?,
        of origin: SignInOrigin? = nil
    ) async -> BrokerProblem {
        plan.trial?.note(failure)
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        if let problem = await writeRevoking(reason, tokens, origin) { return problem }
        return Self.problem(reason, failure)
    }

    /// Spends the exchange, and writes the tokens to the revocation outbox; returns a problem if that failed.
    func writeRevoking(
        _ reason: ExchangeRow.SpentReason, _ tokens: TokenSet?, _ origin: SignInOrigin? = nil
    ) async -> BrokerProblem? {
        var outbox: [OutboxRow] = []
        if let tokens {
            do throws(VaultFailure) { outbox = [try outboxRow(tokens, origin)] } catch { return BrokerProblem(error) }
        }
        let written: Void? = await insisting("settleExchange") { [outbox] () async throws(StoreFailure) in
            try await writeSpent(reason, outbox)
        }
        guard written != nil else { return Self.notStored }
        watch(outbox, tokens)
        return nil
    }

    private func writeSpent(_ reason: ExchangeRow.SpentReason, _ outbox: [OutboxRow] = []) async throws(StoreFailure) {
        _ = try await context.store.settleExchange(
            row.key, fence: row.fence, outcome: .spent(reason), outbox: outbox, registration: nil)
    }

    /// Settles an exchange with the registration that it became.
    func keep(_ registration: RegistrationRow) async throws {
        guard
            try await context.store.settleExchange(
                row.key, fence: row.fence, outcome: .registration(registration.key), outbox: [],
                registration: registration)
        else { throw BrokerProblem(.providerUnavailable, retry: "new_login", retryAfter: .seconds(1)) }
        context.events.emit(.registrationStarted(provider: profile.name, client: plan.client.name))
    }

    private static func problem(_ reason: ExchangeRow.SpentReason, _ failure: ProviderFailure) -> BrokerProblem {
        var problem = BrokerProblem(spent: reason)
        problem.privateDetail = failure.detail
        // The answer to an import has the reason of its end instead.
        if case .rejected(let error) = failure, problem.code != .loginRequired {
            problem.payload = .provider(CallbackError.standardWord(error.code))
        }
        return problem
    }

    /// Releases the claim; returns a problem if the release failed.
    private func givenBack(counting: Bool) async -> BrokerProblem? {
        do throws(StoreFailure) {
            _ = try await context.store.releaseExchange(row.key, fence: row.fence, countingAttempt: counting)
            return nil
        } catch {
            exchange.claim.failed("releaseExchange", error)
            return BrokerProblem(error)
        }
    }

    /// Releases the exchange to its starter, who may then forward the code again.
    ///
    /// `counting` is true if the provider saw the call; the call then counts towards `maximumAttempts`.
    func release(_ failure: ProviderFailure, counting: Bool) async -> BrokerProblem {
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        if let problem = await givenBack(counting: counting) {
            // Try one more time. If the claim were left to lapse, the outcome would count as unknown, and the unused code would
            // be lost.
            try? await context.clock.sleep(.milliseconds(200))
            if await givenBack(counting: counting) != nil { return problem }
        }
        var problem = BrokerProblem(starting: failure)
        if counting, row.attempts >= ExchangeRunner.maximumAttempts { problem.retry = "new_login" }
        return problem
    }

    /// Releases an import's claim, so that the same post may be repeated.
    ///
    /// Returns the problem for this answer. Its `retry` is nil, because the app's token may still be good.
    func releaseImport(_ release: ImportRelease, because failure: ProviderFailure) async -> BrokerProblem {
        plan.trial?.noteReleased(failure)
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        await letGo(release)
        // A 4xx that lacks an OAuth error may come from a firewall.
        switch failure {
        case .rejected(let refusal) where !refusal.isEmpty: return BrokerProblem(starting: failure)
        case .notSent, .retryable, .lost: return BrokerProblem(starting: failure)
        case .rejected, .unusable, .identityRejected:
            return BrokerProblem(.providerUnavailable, privateDetail: failure.detail, retryAfter: .seconds(30))
        }
    }

    /// Releases an import's claim.
    func letGo(_ release: ImportRelease) async {
        do throws(StoreFailure) {
            _ = try await context.store.releaseImport(row.key, fence: row.fence, release)
        } catch {
            exchange.claim.failed("releaseImport", error)
            // If the claim lapsed, the answer would count as lost. So repeat the release for as long as the claim exists.
            exchange.claim.giveBack(after: .milliseconds(200)) { [context, row] () async throws(StoreFailure) in
                _ = try await context.store.releaseImport(row.key, fence: row.fence, release)
            }
        }
    }

    /// Returns the outbox row that revokes this exchange's tokens.
    ///
    /// If the stepped-up session may use the same tokens, the row becomes due only when the refresh in progress must be over.
    func outboxRow(_ tokens: TokenSet, _ origin: SignInOrigin?) throws(VaultFailure) -> OutboxRow {
        let now = context.clock.now()
        var stored = StoredTokens(
            provider: profile.name, client: plan.client.name, tokens: tokens.withoutKey, issuedAt: now, origin: origin)
        var (owner, due) = (row.key, now)
        if let session = plan.stepUp?.session, let rest = questionFor(tokens.refreshToken) {
            (owner, due) = (session, now.advanced(by: rest))
            // The id_token could end the provider's own session, which the stepped-up session may share.
            stored.tokens.idToken = nil
        }
        return OutboxRow(
            id: context.vault.digest(try context.vault.random(32)), boundTo: owner,
            tokens: try context.vault.seal(stored.record, as: .tokens, row: owner), createdAt: now, nextAttemptAt: due)
    }
}
