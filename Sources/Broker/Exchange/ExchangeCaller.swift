/// Owns one claimed exchange: makes the provider call and settles the row, whatever happens to the request.
struct ExchangeCaller: Sendable {
    let context: BrokerContext
    let plan: ExchangePlan
    let row: ExchangeRow

    typealias Answer = Result<SignInOutcome, BrokerProblem>

    /// All provider calls of one exchange end within this.
    static let callBudget = Duration.seconds(20)
    /// After so long of a store that fails the app gets an answer, and the writing goes on.
    private static let storePatience = Duration.seconds(5)

    private let held = HeldClaim()
    private let deadline: Duration
    private let time = BelievedTime()

    init(context: BrokerContext, plan: ExchangePlan, row: ExchangeRow) {
        self.context = context
        self.plan = plan
        self.row = row
        let moment = context.clock.monotonic()
        deadline = moment + Self.callBudget
        time.note(context.clock.now(), moment)
        // A claim that was asked for twice is older than its answer.
        held.take(row.fence, at: moment - max(context.settings.claimLifetime - row.claimFor, .zero))
    }

    private var profile: ProviderProfile { plan.provider.profile }

    /// Calls and settles; the result is the starter's answer, given early when the store does not take it.
    func call(answeringEarly answer: @escaping @Sendable (Answer) -> Void) async -> Answer {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await keepAlive() }
            let result = await settled(answer)
            // Now: a renewal under way may wait for a connection that is silent.
            answer(result)
            group.cancelAll()
            return result
        }
    }

    /// Renews the claim for as long as its owner lives.
    private func keepAlive() async {
        await held.keepAlive(context.clock) { fence in
            do throws(StoreFailure) {
                return try await context.store.renewExchange(
                    row.key, fence: fence, for: context.settings.claimLifetime)
            } catch {
                failed("renewExchange", error)
                return nil
            }
        }
    }

    private func settled(_ answer: @escaping @Sendable (Answer) -> Void) async -> Answer {
        do throws(BrokerProblem) { return .success(try await perform(answer)) } catch {
            context.events.emit(
                .loginRefused(
                    provider: profile.name, client: plan.client.name, code: error.code,
                    detail: error.privateDetail ?? ""))
            return .failure(error)
        }
    }

    private typealias Early = @Sendable (Answer) -> Void

    private func perform(_ early: @escaping @Sendable (Answer) -> Void) async throws(BrokerProblem) -> SignInOutcome {
        switch plan.call {
        case .code(let grant, let identity): return try await redeem(grant, identity, early)
        case .zephrSession(let session): return try await takeOver(session, early)
        case .zephrPartial(let stateKey, let identifier): return try await hold(stateKey, identifier)
        case .register(let request): return try await register(request, early)
        case .importTokens(let tokens): return try await importTokens(tokens, early)
        case .idToken(let identity): return try await takeIDToken(identity, early)
        }
    }

    /// Reads with a token that is in hand: what fails in passing is asked again, for as long as the deadline leaves time.
    private func reading<Value: Sendable>(
        _ read: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        var pause = Duration.milliseconds(500)
        while true {
            do throws(ProviderFailure) { return try await read() } catch {
                switch error {
                case .rejected, .unusable, .identityRejected: throw error
                case .notSent, .retryable, .lost: break
                }
                var wait = pause
                if case .retryable(_, let retryAfter?, _) = error { wait = max(pause, retryAfter) }
                guard context.clock.monotonic() + wait + .seconds(1) < deadline else { throw error }
                do { try await context.clock.sleep(wait) } catch { throw .lost(detail: "the process ends") }
                pause = min(pause * 2, .seconds(4))
            }
        }
    }

    // MARK: The calls

    private func redeem(
        _ grant: CodeGrant, _ identity: IdentityContext, _ early: @escaping Early
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any CodeExchanging else {
            throw await settle(.providerError, because: .unusable(detail: "this kind redeems no codes"))
        }
        let tokens: TokenSet
        let begun = context.clock.monotonic()
        do throws(ProviderFailure) { tokens = try await provider.redeem(grant, by: deadline) } catch {
            throw await settle(failureOfSingleUse: error)
        }
        context.memory.answers.granted(profile.name, plan.client.name, begun: begun)
        if let refusal = tokens.refusal {
            throw await settle(.providerError, because: .unusable(detail: refusal), revoking: tokens, early)
        }
        let who: ProviderIdentity
        do throws(ProviderFailure) {
            who = try await reading { () async throws(ProviderFailure) in
                try await provider.identify(tokens, identity, by: deadline)
            }
        } catch {
            throw await settle(identityFailure: error, tokens, early)
        }
        return try await complete(tokens, who, identity.requestedScope, early)
    }

    private func takeOver(_ session: Secret, _ early: @escaping Early) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any PartialRegistering else {
            throw await settle(.providerError, because: .unusable(detail: "this kind has no sessions of its own"))
        }
        let identity: ProviderIdentity
        do throws(ProviderFailure) { identity = try await provider.account(of: session, by: deadline) } catch {
            // Asking whose a session is uses nothing up: a lost answer may be asked for again.
            if case .lost(let detail) = error {
                throw await release(.retryable(status: 0, retryAfter: nil, detail: detail), counting: true)
            }
            throw await settle(failureOfSingleUse: error)
        }
        let end = context.clock.now().advanced(by: provider.sessionLifetime)
        return try await complete(
            TokenSet(credential: .zephrCookie, accessToken: session, expiresAt: end), Self.named(identity, session), [],
            early)
    }

    /// The identity with the Zephr session's id in its `sid`: several sessions here may hold the same one, and only the
    /// last may log it out there.
    private static func named(_ identity: ProviderIdentity, _ session: Secret) -> ProviderIdentity {
        var named = identity
        named.sid = session.reveal()
        return named
    }

    private func hold(_ stateKey: Secret, _ identifier: String?) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any PartialRegistering else {
            throw await settle(.providerError, because: .unusable(detail: "this kind has no registrations"))
        }
        let key = context.vault.index(.stateKey, [profile.name.text, stateKey.reveal()])
        try await takeShare(of: key)
        let fields: [RegistrationField]
        do throws(ProviderFailure) { fields = try await provider.registrationFields() } catch {
            plan.charge.drop(.registration, for: key)
            // Nothing was used up; the callback can be forwarded again.
            throw await release(error, counting: false)
        }
        let now = context.clock.now()
        let secrets = RegistrationSecrets(
            provider: profile.name, client: plan.client.name, stateKey: stateKey, identifier: identifier,
            fields: fields, device: plan.device)
        let expiresAt = now.advanced(by: context.settings.registrationLifetime)
        do {
            let registration = RegistrationRow(
                key: key, loginToken: plan.proof.map(context.vault.digest), createdAt: now, expiresAt: expiresAt,
                sealed: try context.vault.seal(secrets.record, as: .registration, row: key))
            guard
                try await context.store.settleExchange(
                    row.key, fence: row.fence, outcome: .registration(key), outbox: [], registration: registration)
            else { throw BrokerProblem(.providerUnavailable, retry: "new_login", retryAfter: .seconds(1)) }
        } catch { throw BrokerProblem(storing: error) }
        context.events.emit(.registrationStarted(provider: profile.name, client: plan.client.name))
        return .registrationRequired(secrets.view(expiresAt: expiresAt))
    }

    /// Takes the caller's share of the registrations, which its login or exchange has paid for; without one the callback
    /// can be forwarded again later.
    private func takeShare(of registration: Digest) async throws(BrokerProblem) {
        let payer = if case .login(let login) = plan.gate { login } else { row.key }
        do throws(BrokerProblem) {
            try plan.charge.take(
                .registration, for: registration, lasting: context.settings.registrationLifetime, paidBy: payer)
        } catch {
            _ = await release(.notSent(detail: "the caller's share of registrations is used up"), counting: false)
            throw error
        }
    }

    private func register(
        _ request: RegistrationRequest, _ early: @escaping Early
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any PartialRegistering else {
            throw await settle(.providerError, because: .unusable(detail: "this kind has no registrations"))
        }
        let outcome: RegistrationOutcome
        do throws(ProviderFailure) { outcome = try await provider.register(request, by: deadline) } catch {
            throw await settle(failureOfSingleUse: error)
        }
        switch outcome {
        case .registered(let session, let expiresAt):
            let tokens = TokenSet(credential: .zephrCookie, accessToken: session, expiresAt: expiresAt)
            let who: ProviderIdentity
            do throws(ProviderFailure) {
                who = try await reading { () async throws(ProviderFailure) in
                    try await provider.account(of: session, by: deadline)
                }
            } catch { throw await settle(identityFailure: error, tokens, early) }
            return try await complete(tokens, Self.named(who, session), [], early)
        case .badAttributes: throw await settle(.registrationRejected, result: "bad_attributes")
        case .userExists: throw await settle(.registrationUserExists, result: "user_exists")
        case .emailDomainDenied: throw await settle(.registrationDomainDenied, result: "email_domain_denied")
        case .stateInvalid: throw await settle(.registrationKeyExpired, result: "state_invalid")
        case .rateLimited(let retryAfter):
            throw await release(
                .retryable(status: 429, retryAfter: retryAfter ?? .seconds(30), detail: "register"), counting: true)
        }
    }

    private func importTokens(
        _ imported: ImportedTokens, _ early: @escaping Early
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any TokenImporting else {
            throw await settle(.providerError, because: .unusable(detail: "this kind imports no tokens"))
        }
        let tokens: TokenSet
        do throws(ProviderFailure) {
            tokens = try await provider.takeOver(
                ImportRequest(
                    client: plan.client.name, tokens: imported, idempotencyKey: Base64URL.encode(row.key.bytes)),
                by: deadline)
        } catch { throw await settle(failureOfSingleUse: error) }
        if let refusal = tokens.refusal {
            throw await settle(.providerError, because: .unusable(detail: refusal), revoking: tokens, early)
        }
        let who: ProviderIdentity
        let identity = IdentityContext(
            client: plan.client.name, nonce: .none, callback: imported.callback, requestedScope: [])
        do throws(ProviderFailure) {
            who = try await reading { () async throws(ProviderFailure) in
                try await provider.identifyImported(tokens, identity, by: deadline)
            }
        } catch { throw await settle(identityFailure: error, tokens, early) }
        return try await complete(tokens, who, [], early)
    }

    private func takeIDToken(
        _ identity: ProviderIdentity?, _ early: @escaping Early
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard let identity else {
            // Its row stood when it came, and was gone a moment later: the same token again is looked at.
            throw await release(.notSent(detail: "an id_token that was not looked at"), counting: false)
        }
        return try await complete(nil, identity, [], early)
    }

    // MARK: Settling

    /// Stores the session; only after that does anybody get its token (guarantee 4).
    private func complete(
        _ answer: TokenSet?, _ identity: ProviderIdentity, _ requestedScope: [String], _ early: @escaping Early
    ) async throws(BrokerProblem) -> SignInOutcome {
        // By the clock as it was when the claim was granted, where it has jumped meanwhile.
        let moment = context.clock.monotonic()
        let isKnown = context.watch.tellsTime(context.clock)
        let now = isKnown ? context.clock.now() : time.now(moment) ?? context.clock.now()
        var tokens = answer
        // Left out, it is the one that was asked for (RFC 6749 section 5.1).
        if answer?.scope == nil, !requestedScope.isEmpty { tokens?.scope = requestedScope }
        let token: Secret
        let live: LiveSession
        do throws(VaultFailure) {
            // Without a proof nobody could ask for a replay: the token is derived from fresh randomness instead.
            let proof: Secret
            if let starter = plan.proof { proof = starter } else { proof = try context.vault.randomToken() }
            token = try context.vault.sessionToken(keyID: row.keyID, salt: row.salt, proof: proof)
            live = try SessionMaker(context: context).make(
                token: context.vault.digest(token), tokens: tokens, identity: identity, profile: profile,
                client: plan.client, device: plan.device, now: now)
        } catch {
            throw await settle(.providerError, because: .unusable(detail: "sealing: \(error)"), revoking: tokens, early)
        }
        let origin = SignInOrigin(live.row)
        // Without tokens there are none that a revocation could take along.
        if tokens != nil { await enter(origin) }
        defer { context.memory.signIns.leave(row.key) }
        let replacing = plan.presentedSession.map(context.vault.digest)
        if try await isOneTooMany(live.row, replacing: replacing, early) {
            throw await settle(
                .tooManySessions, because: .unusable(detail: "as many sessions as the client may have"),
                revoking: tokens, of: origin, early)
        }
        let ended: EndedSessions
        switch await store(live, replacing: replacing, early) {
        case .stored(let others): ended = others
        case .takenAway:
            // The claim lapsed and somebody declared the exchange lost: these tokens belong to nobody.
            throw await settle(
                .unknown, because: .lost(detail: "the claim lapsed"), revoking: tokens, of: origin, early)
        case .processEnds: throw Self.notStored
        }
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
        return .signedIn(SignedIn(live, token: token, transport: plan.client.transport))
    }

    /// Makes known whose session is about to be stored, and waits for a revocation that would take its tokens along, as
    /// long as the deadline allows.
    private func enter(_ origin: SignInOrigin) async {
        context.memory.signIns.enter(row.key, origin)
        while context.memory.signIns.isRevoking(origin), context.clock.monotonic() < deadline {
            do { try await context.clock.sleep(.milliseconds(50)) } catch { return }
        }
    }

    /// Whether the shop whose session it is has as many as it may have; asked until the store says so, because the code
    /// is used up.
    private func isOneTooMany(
        _ row: SessionRow, replacing: Digest?, _ early: @escaping Early
    ) async throws(BrokerProblem) -> Bool {
        guard profile.own == .device else { return false }
        let found: Bool? = await insisting("sessions", early) { () async throws(StoreFailure) in
            try await isFull(row, replacing: replacing)
        }
        guard let found else { throw Self.notStored }
        return found
    }

    /// Whether a shop has as many sessions of this client as it may have: nobody is signed out for one more.
    ///
    /// Logins at the same instant may pass it by as many as they are.
    private func isFull(_ row: SessionRow, replacing: Digest?) async throws(StoreFailure) -> Bool {
        var after: SessionCursor?
        var count = 0
        while true {
            let page = try await context.store.sessions(
                .subject(row.subject), .live, after: after, limit: 500, now: context.clock.now())
            count += page.count { $0.subjectAndClient == row.subjectAndClient && $0.token != replacing }
            if count >= context.settings.sessionsPerShopAndClient { return true }
            guard page.count == 500, let last = page.last else { return false }
            after = SessionCursor(after: last)
        }
    }

    private enum Storing {
        case stored(EndedSessions), takenAway, processEnds
    }

    /// The answer meanwhile: no `retry`, for the same forward gets its 201 once the store is back.
    private static var notStored: BrokerProblem {
        BrokerProblem(.storeUnavailable, privateDetail: "the session could not be stored yet", retryAfter: .seconds(2))
    }

    /// Writes the session, trying again until it is written or the claim is another's: the code is used up and must not
    /// be lost to a store that is away.
    ///
    /// A write whose answer was lost is found by reading the row.
    private func store(_ live: LiveSession, replacing: Digest?, _ early: @escaping Early) async -> Storing {
        let stored: Storing? = await insisting("completeExchange", early) { () async throws(StoreFailure) in
            if let ended = try await context.store.completeExchange(
                row.key, fence: row.fence, session: live.row, replacing: replacing,
                sessionLimit: profile.own == .device ? Int(Int32.max) : context.settings.sessionsPerSubjectAndClient)
            {
                return .stored(ended)
            }
            let standing = try await context.store.exchange(row.key)
            guard standing?.outcome == .session(live.token) else { return .takenAway }
            // The write whose answer was lost did it, and whom it ended nobody says any more.
            context.cache.clear()
            return .stored(EndedSessions())
        }
        held.drop()
        return stored ?? .processEnds
    }

    /// Writes what cannot be had again until the store takes it; nil when the process ends first.
    ///
    /// The app is answered after a while.
    private func insisting<Value: Sendable>(
        _ operation: StaticString, _ early: Early, _ write: () async throws(StoreFailure) -> Value
    ) async -> Value? {
        let memory = context.memory.store
        let end = context.clock.monotonic() + Self.storePatience
        var pause = Duration.milliseconds(50)
        memory.keepResult()
        defer { memory.wroteResult() }
        while true {
            do throws(StoreFailure) { return try await write() } catch { failed(operation, error) }
            if context.clock.monotonic() >= end { early(.failure(Self.notStored)) }
            do { try await context.clock.sleep(pause) } catch { return nil }
            pause = min(pause * 2, .seconds(1))
        }
    }

    private func failed(_ operation: StaticString, _ failure: StoreFailure) {
        context.memory.store.failed(at: context.clock.monotonic())
        context.events.emit(.storeFailed(operation: operation, detail: "\(failure)"))
    }

    /// Settles or releases by the failure table (docs/guarantees.md), for a call with a single-use secret in it.
    private func settle(failureOfSingleUse failure: ProviderFailure) async -> BrokerProblem {
        switch failure {
        case .notSent: return await release(failure, counting: false)
        case .retryable: return await release(failure, counting: true)
        case .rejected: return await settle(.rejected, because: failure)
        case .unusable: return await settle(.providerError, because: failure)
        case .identityRejected: return await settle(.identityRejected, because: failure)
        case .lost: return await settle(.unknown, because: failure)
        }
    }

    /// Spends the exchange after its tokens came and the identity did not; the tokens go to the revocation outbox.
    private func settle(
        identityFailure failure: ProviderFailure, _ tokens: TokenSet, _ early: @escaping Early
    ) async -> BrokerProblem {
        let reason: ExchangeRow.SpentReason
        if case .identityRejected = failure {
            // Judged by a clock that has jumped meanwhile, it says nothing of the identity.
            reason = context.watch.believes(context.clock) ? .identityRejected : .unknown
        } else {
            reason = .providerError
        }
        return await settle(reason, because: failure, revoking: tokens, early)
    }

    private func settle(
        _ reason: ExchangeRow.SpentReason, because failure: ProviderFailure
    ) async -> BrokerProblem {
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        do {
            _ = try await context.store.settleExchange(
                row.key, fence: row.fence, outcome: .spent(reason), outbox: [], registration: nil)
        } catch { return BrokerProblem(storing: error) }
        return Self.problem(reason, failure)
    }

    /// Settles an exchange whose tokens are in hand: they are in the outbox before it is left, however long that takes.
    private func settle(
        _ reason: ExchangeRow.SpentReason, because failure: ProviderFailure, revoking tokens: TokenSet?,
        of origin: SignInOrigin? = nil, _ early: @escaping Early
    ) async -> BrokerProblem {
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        var outbox: [OutboxRow] = []
        if let tokens {
            do throws(VaultFailure) { outbox = [try outboxRow(tokens, origin)] } catch { return BrokerProblem(error) }
        }
        let written = await insisting("settleExchange", early) { [outbox] () async throws(StoreFailure) in
            try await context.store.settleExchange(
                row.key, fence: row.fence, outcome: .spent(reason), outbox: outbox, registration: nil)
        }
        return written == nil ? Self.notStored : Self.problem(reason, failure)
    }

    private static func problem(_ reason: ExchangeRow.SpentReason, _ failure: ProviderFailure) -> BrokerProblem {
        var problem = BrokerProblem(spent: reason)
        problem.privateDetail = failure.detail
        if case .rejected(let error) = failure { problem.providerError = CallbackError.standardWord(error.code) }
        return problem
    }

    private func settle(_ reason: ExchangeRow.SpentReason, result: String) async -> BrokerProblem {
        context.events.emit(
            .registrationFinished(provider: profile.name, client: plan.client.name, result: result))
        do {
            _ = try await context.store.settleExchange(
                row.key, fence: row.fence, outcome: .spent(reason), outbox: [], registration: nil)
        } catch { return BrokerProblem(storing: error) }
        return BrokerProblem(spent: reason)
    }

    /// Gives the claim back, and says why it could not be.
    private func givenBack(counting: Bool) async -> BrokerProblem? {
        do throws(StoreFailure) {
            _ = try await context.store.releaseExchange(row.key, fence: row.fence, countingAttempt: counting)
            return nil
        } catch {
            failed("releaseExchange", error)
            return BrokerProblem(error)
        }
    }

    private func release(_ failure: ProviderFailure, counting: Bool) async -> BrokerProblem {
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        if let problem = await givenBack(counting: counting) {
            // Once more: a claim that lapses spends a code which nobody used.
            try? await context.clock.sleep(.milliseconds(200))
            if await givenBack(counting: counting) != nil { return problem }
        }
        var problem = BrokerProblem(starting: failure)
        if counting, row.attempts >= ExchangeRunner.maximumAttempts { problem.retry = "new_login" }
        return problem
    }

    private func outboxRow(_ tokens: TokenSet, _ origin: SignInOrigin?) throws(VaultFailure) -> OutboxRow {
        let now = context.clock.now()
        let stored = StoredTokens(
            provider: profile.name, client: plan.client.name, tokens: tokens, issuedAt: now, origin: origin)
        return OutboxRow(
            id: context.vault.digest(try context.vault.random(32)), boundTo: row.key,
            tokens: try context.vault.seal(stored.record, as: .tokens, row: row.key), createdAt: now,
            nextAttemptAt: now)
    }
}

extension BrokerProblem {
    /// Creates the problem of a write that may throw the store's, the vault's or our own failure.
    init(storing error: any Error) {
        switch error {
        case let problem as BrokerProblem: self = problem
        case let failure as StoreFailure: self.init(failure)
        case let failure as VaultFailure: self.init(failure)
        default: self.init(.internalError)
        }
    }
}
