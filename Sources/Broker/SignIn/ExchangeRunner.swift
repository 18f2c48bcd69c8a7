/// Runs exchanges.
///
/// Each code leads to one provider call and one session, over any number of replicas (guarantee 1).
///
/// The claim decides which replica calls the provider. The call is detached from the request, so it completes even if the
/// phone hangs up. All other callers read the row until the exchange is settled. The row alone decides which process calls,
/// so the rule is the same for one replica and for ten.
struct ExchangeRunner: Sendable {
    let context: BrokerContext

    /// The largest number of calls of one exchange that the provider may have seen.
    ///
    /// After a `retryable` failure, two more calls may follow the first (the failure table, docs/guarantees.md).
    static let maximumAttempts = 3

    /// Claims the exchange and makes its call, or waits for the call of another forward, or repeats the stored outcome to the
    /// starter.
    func run(_ plan: ExchangePlan) async throws(BrokerProblem) -> SignInOutcome {
        var plan = plan
        // If the memory for results that wait for the store is full, refuse the forward. Its code would be spent in vain.
        guard !context.memory.store.isFull else {
            throw BrokerProblem(
                .storeUnavailable, privateDetail: "too many results wait for the store, so no further code is spent",
                retryAfter: .seconds(5))
        }
        try await checkTime(plan.key)
        try await checkRoom(plan)
        let charging = ExchangeCharge(context: context)
        try await charging.take(plan.key, plan.gate, plan.charge, isLegacy: plan.isLegacy, pace: plan.pace)
        try await prove(&plan)
        complete(&plan)
        let patience = context.clock.monotonic() + context.settings.waiterPatience
        var pause = DoublingPause(from: .milliseconds(25), to: .milliseconds(400))
        let row = try newRow(plan)
        let claim = ClaimShell(
            ClaimedExchange(context: context, key: plan.key, isImport: plan.isImport), context)
        let seen = SeenRefreshTokens()
        while true {
            let version = try await note(plan, in: seen)
            switch try await ask(claim, row, until: patience) {
            case .claimed(let claimed):
                charging.count(plan.gate, plan.charge)
                let granted = GrantedExchange(plan, claimed, claim, seen, sentAt: version)
                let result = await Detached.run("exchange", on: context.spawner) { answer in
                    await ExchangeCalls(granted, early: answer).call()
                }
                guard let result else {
                    throw BrokerProblem(.providerUnavailable, privateDetail: "the app hung up", retryAfter: .seconds(1))
                }
                return try result.get()
            case .gateClosed: throw try await closedGate(plan)
            case .existing(let found):
                let existing = try await deciding(found)
                guard plan.isFree(existing) || mayRepeat(plan, existing) else {
                    throw BrokerProblem(.codeAlreadyUsed)
                }
                if existing.outcome != .calling {
                    return try await ExchangeReplay(context: context).answer(plan, existing)
                }
            }
            try await wait(claim, &pause, until: patience)
        }
    }

    /// Throws while the clock is in doubt, before the code is spent, because a new session would get wrong times.
    ///
    /// A forward of an existing exchange goes on.
    private func checkTime(_ key: Digest) async throws(BrokerProblem) {
        guard !context.may(.begin) else { return }
        guard try await standing(key) != nil else { throw .clockDoubted }
    }

    /// Throws if this process is full of imports of the provider.
    ///
    /// A post of an existing import goes on, and is answered from the row.
    private func checkRoom(_ plan: ExchangePlan) async throws(BrokerProblem) {
        guard plan.isImport,
            let refusal = context.importRefusal(
                context.memory.imports.entry(plan.provider.profile.name, at: context.clock.monotonic()))
        else { return }
        guard try await standing(plan.key) != nil else { throw refusal }
    }

    /// Notes the refresh token of the session that is stepped up, immediately before the step-up's code may be sent.
    ///
    /// Returns the session's version. Throws if the row is sealed under a key that this process does not have yet, because
    /// the code would be spent in vain.
    private func note(_ plan: ExchangePlan, in seen: SeenRefreshTokens) async throws(BrokerProblem) -> Int64? {
        guard let session = plan.stepUp?.session else { return nil }
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(tokenDigest: session) } catch {
            throw BrokerProblem(error)
        }
        if let row { seen.note(try context.openSealed(row)?.tokens.refreshToken) }
        return row?.version
    }

    /// Claims the exchange in the store, and repeats the claim after a lost response for as long as the starter waits.
    private func ask(
        _ claim: ClaimShell<ClaimedExchange>, _ row: ExchangeRow, until patience: Duration
    ) async throws(BrokerProblem) -> ExchangeClaimResult {
        do throws(StoreFailure) {
            return try await claim.ask(row) { _ in
                guard context.clock.monotonic() < patience else { return false }
                return (try? await context.clock.sleep(.milliseconds(50))) != nil
            }
        } catch { throw BrokerProblem(error) }
    }

    /// Waits while another caller's claim of the exchange is valid.
    private func wait(
        _ claim: ClaimShell<ClaimedExchange>, _ pause: inout DoublingPause, until patience: Duration
    ) async throws(BrokerProblem) {
        let end: ClaimShell<ClaimedExchange>.WaitEnd
        do throws(StoreFailure) {
            end = try await claim.wait(until: patience, &pause) { () async throws(StoreFailure) in
                guard let row = try await context.store.exchange(claim.row.key) else { return false }
                return row.isOwned(claim.row.spared)
            }
        } catch { throw BrokerProblem(error) }
        switch end {
        case .lapsed: break
        case .patienceOver:
            throw BrokerProblem(
                .providerUnavailable, privateDetail: "another forward of this code is still calling",
                retryAfter: .seconds(2))
        // Only this wait was cancelled. The owner's call goes on.
        case .cancelled: throw BrokerProblem(.providerUnavailable, retryAfter: .seconds(1))
        }
    }

    private func newRow(_ plan: ExchangePlan) throws(BrokerProblem) -> ExchangeRow {
        do throws(VaultFailure) {
            return ExchangeRow(
                key: plan.key, proof: starter(of: plan), salt: try context.vault.random(32),
                keyID: context.vault.currentKeyID, claim: ClaimID(random: try context.vault.random(16)),
                claimFor: context.settings.claimLifetime, createdAt: context.clock.now(), gate: plan.gate,
                imported: plan.isImport ? marks(plan) : nil)
        } catch { throw BrokerProblem(error) }
    }

    private func marks(_ plan: ExchangePlan) -> ImportMarks {
        ImportMarks(
            keptUntil: ImportMarks.end(of: plan.client, claimedAt: context.clock.now()),
            mostCalls: plan.isLegacy ? ImportMarks.anyNumber : ImportMarks.maximumCalls)
    }

    /// Verifies the signature of the device key's proof, if that is still to be done (`claimed` or `observed`).
    ///
    /// If the exchange already exists, only its own starter may have a claimed key verified. An observed key is ignored then,
    /// because the first forward has counted it.
    private func prove(_ plan: inout ExchangePlan) async throws(BrokerProblem) {
        switch plan.binding {
        case .none, .proved: break
        case .claimed:
            guard let found = try await standing(plan.key) else { break }
            let standing = try await deciding(found)
            if !plan.isFree(standing), !mayRepeat(plan, standing) { throw BrokerProblem(.codeAlreadyUsed) }
        case .observed: if try await standing(plan.key) != nil { plan.binding = .none }
        }
        let proved = try await SignInProof(context: context).prove(
            plan.binding, of: plan.client.name, at: plan.provider.profile.name, paidBy: plan.key, plan.charge)
        plan.binding = proved.map { .proved($0) } ?? .none
    }

    /// Lets the app's own token prove the starter of an import for a bound session, because a repeat has to prove the same key.
    private func complete(_ plan: inout ExchangePlan) {
        if plan.proof == nil, plan.binding.thumbprint != nil { plan.proof = plan.starterSecret }
    }

    /// Returns the existing exchange of a key; nil for a missing or released exchange.
    private func standing(_ key: Digest) async throws(BrokerProblem) -> ExchangeRow? {
        do throws(StoreFailure) {
            guard let row = try await context.store.exchange(key), row.outcome != .released else { return nil }
            return row
        } catch { throw BrokerProblem(error) }
    }

    /// Returns the row that decides about a forward: for a moved legacy token the row of its import, else the row itself.
    private func deciding(_ row: ExchangeRow) async throws(BrokerProblem) -> ExchangeRow {
        guard case .continued(let key) = row.outcome else { return row }
        let imported: ExchangeRow?
        do throws(StoreFailure) { imported = try await context.store.exchange(key) } catch {
            throw BrokerProblem(error)
        }
        guard let imported else { throw BrokerProblem(.codeAlreadyUsed) }
        return imported
    }

    /// The digest of the starter's secret and, for a bound session, of the device key's thumbprint; nil if the forward has no
    /// secret.
    private func starter(of plan: ExchangePlan) -> Digest? {
        guard let secret = plan.starterSecret ?? plan.proof else { return nil }
        guard let thumbprint = plan.binding.thumbprint else { return context.vault.digest(secret) }
        return context.vault.digest(thumbprint.bytes + secret.bytes())
    }

    /// Whether the outcome may be repeated to a forward: to that of the starter, or of the app that holds the import's session.
    private func mayRepeat(_ plan: ExchangePlan, _ row: ExchangeRow) -> Bool {
        plan.presentsSession(of: row, context) || isSameStarter(plan, row)
    }

    private func isSameStarter(_ plan: ExchangePlan, _ row: ExchangeRow) -> Bool {
        guard let stored = row.proof, let brought = plan.starterSecret ?? plan.proof else { return false }
        // The row may be from a time when its client required only the secret. Its digest then covers the secret alone, so the
        // starter may bring any key.
        return stored == starter(of: plan) || stored == context.vault.digest(brought)
    }

    /// Returns the problem of a login or registration that has expired, or was used up for another code.
    private func closedGate(_ plan: ExchangePlan) async throws(BrokerProblem) -> BrokerProblem {
        do {
            switch plan.gate {
            case .none: return BrokerProblem(.codeAlreadyUsed)
            case .login(let state):
                let login = try await context.store.login(state: state)
                let expired = login.map { $0.status == .pending && $0.expiresAt <= context.clock.now() } ?? false
                return BrokerProblem(expired ? .loginExpired : .stateMismatch)
            case .registration(let key):
                let registration = try await context.store.registration(key)
                guard let holder = registration?.exchange, let row = try await context.store.exchange(holder),
                    isSameStarter(plan, row)
                else { return BrokerProblem(.stateKeyExpired) }
                switch row.outcome {
                case .calling where row.isOwned(ClaimedExchange(context: context, key: holder).spared):
                    return BrokerProblem(
                        .providerUnavailable, privateDetail: "the registration is in progress", retryAfter: .seconds(2))
                // Another exchange has used up this registration, and the owner of its claim died. So it is unknown whether the
                // provider accepted the registration, even if the new forward has other attributes.
                case .calling, .spent(.unknown): return try await ExchangeReplay(context: context).loginRequired(plan)
                default: return BrokerProblem(.stateKeyExpired)
                }
            }
        } catch { throw BrokerProblem(storing: error) }
    }
}

/// One exchange to run: the secret to redeem, the party that brought it, and the provider call to make.
struct ExchangePlan: Sendable {
    /// The provider call of the exchange, which is made at most once.
    enum Call: Sendable {
        /// Redeem a code of flow A, B or C, or a code from the provider's native SDK.
        case code(CodeGrant, IdentityContext)
        /// Look up the user of a Zephr session, and take the session over.
        case zephrSession(Secret)
        /// Keep a Zephr partial registration for its starter.
        case zephrPartial(stateKey: Secret, identifier: String?)
        /// Complete a registration.
        case register(RegistrationRequest)
        /// Take over tokens that the app already holds.
        case importTokens(ImportedTokens)
        /// Ask the old system about a legacy token, which came in the given way.
        case legacy(Secret, ImportWay)
        /// Make a session from a verified id_token. The identity is nil if the token was not verified, because its exchange
        /// already existed.
        case idToken(ProviderIdentity?)
    }

    var key: Digest
    /// The starter's secret; without it, the outcome cannot be repeated to the starter.
    var proof: Secret?
    /// The secret that identifies the starter of an import: the login token, or else the app's own token.
    ///
    /// A session is repeated only to a login token or a proved key, because a copy of the app's own token may exist. For other
    /// exchanges, this is nil.
    var starterSecret: Secret?
    var gate: ExchangeGate
    var provider: any ProviderClient
    var client: ClientProfile
    var call: Call
    /// The problem for an import that is still to begin, because its client refuses imports now; nil otherwise.
    var importRefusal: BrokerProblem?
    var device: String?
    /// The token of the device's old session, which the new session replaces.
    var presentedSession: Secret?
    /// The login token of the request, for a new login if the outcome of this exchange is unknown.
    var loginToken: Secret?
    var charge: Charge
    /// The device key that the session will belong to.
    var binding: SignInKey
    /// The app's demand on the sign-in, with the session to step up if there is one; nil if the app demanded nothing.
    var stepUp: LoginStepUp?
    /// The token of the session that is stepped up.
    var stepUpToken: Secret?

    /// The latest end of the provider calls, by the monotonic clock, if the exchange is a part of another exchange.
    var endsBy: Duration?
    /// The times of the old system's session that becomes this session.
    var old: OldTimes?
    /// The operator's trial that this import belongs to; nil for an app's exchange.
    var trial: ImportTrial?

    /// The way of the app's own session into the broker; nil for a sign-in.
    var way: ImportWay? {
        switch call {
        case .importTokens: .tokens
        case .legacy(_, let way): way
        case .code, .zephrSession, .zephrPartial, .register, .idToken: nil
        }
    }

    /// Whether the exchange makes a session from one that the app already has.
    var isImport: Bool { way != nil }
    /// Whether the exchange begins with a question to the old system.
    var isLegacy: Bool { if case .legacy = call { true } else { false } }

    /// The limit of the exchanges that an address may begin in a minute.
    var pace: ChargePace {
        switch way {
        case .tokens: client.importsPerMinute == nil ? .logins : .imports
        case .legacy, .cookie: client.moveIn?.perMinute == nil ? .logins : .imports
        case nil: .logins
        }
    }

    /// Whether the request of an import presents the very session that the import has made.
    func presentsSession(of row: ExchangeRow, _ context: BrokerContext) -> Bool {
        guard isImport, case .session(let digest) = row.outcome, let presentedSession else { return false }
        return context.vault.digest(presentedSession) == digest
    }

    /// Whether any caller that has the app's token may claim the exchange, or wait for its claim, or get its refusal.
    ///
    /// This is the case until an import has a session or a kept pair.
    func isFree(_ row: ExchangeRow) -> Bool {
        guard isImport, row.imported?.pairKeptAt == nil else { return false }
        switch row.outcome {
        case .calling, .released, .spent: return true
        case .session, .registration, .continued: return false
        }
    }
}

/// An exchange that this process has claimed, and whose provider call it may make.
struct GrantedExchange: Sendable {
    /// The time limit for all provider calls of one exchange.
    static let callBudget = Duration.seconds(20)

    var plan: ExchangePlan
    let row: ExchangeRow
    let claim: ClaimShell<ClaimedExchange>
    /// The moment, by the monotonic clock, at which all provider calls of the exchange must have ended.
    let deadline: Duration
    /// The wall time when the claim was granted.
    ///
    /// If the clock is in doubt afterwards, the present time is computed from this time and the monotonic clock.
    let time = BelievedTime()
    /// The refresh tokens of the stepped-up session; empty for a sign-in that makes a session.
    let seen: SeenRefreshTokens
    /// The version of the stepped-up session when the code was sent; nil for a sign-in that makes a session.
    let sentAt: Int64?

    init(
        _ plan: ExchangePlan, _ row: ExchangeRow, _ claim: ClaimShell<ClaimedExchange>, _ seen: SeenRefreshTokens,
        sentAt: Int64?
    ) {
        self.plan = plan
        self.seen = seen
        self.sentAt = sentAt
        self.row = row
        self.claim = claim
        let context = claim.context
        let moment = context.clock.monotonic()
        deadline = min(moment + Self.callBudget, plan.endsBy ?? .seconds(Int64.max / 2))
        time.note(context.clock.now(), moment)
        // If the claim had to be sent twice, the first attempt may have succeeded. So the claim's age comes from its
        // remaining time.
        claim.held.take(row.fence, at: moment - max(context.settings.claimLifetime - row.claimFor, .zero))
    }
}
