/// Runs exchanges: one code, one provider call, one session, over any number of replicas (guarantee 1).
///
/// The claim decides who calls; the call is detached from the request, so that a phone that hangs up loses nothing; all
/// others read the row until it is settled. What decides is in the row, so it is the same on one replica and on ten.
struct ExchangeRunner: Sendable {
    let context: BrokerContext

    /// Two calls more after a 429 or 5xx (the failure table, docs/guarantees.md).
    static let maximumAttempts = 3

    /// Claims the exchange and calls, or waits for who did, or repeats its outcome to the same starter.
    func run(_ plan: ExchangePlan) async throws(BrokerProblem) -> SignInOutcome {
        var plan = plan
        // With so many results in hand that the store has not taken, none more is begun.
        guard !context.memory.store.isFull else {
            throw BrokerProblem(.storeUnavailable, privateDetail: "too many unwritten", retryAfter: .seconds(5))
        }
        try await checkTime(plan.key)
        let charging = ExchangeCharge(context: context)
        try await charging.take(plan.key, plan.gate, plan.charge)
        try await prove(&plan)
        let patience = context.clock.monotonic() + context.settings.waiterPatience
        var pause = DoublingPause(from: .milliseconds(25), to: .milliseconds(400))
        let row = try newRow(plan)
        let claim = ClaimShell(ClaimedExchange(context: context, key: plan.key), context)
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
            case .existing(let existing):
                guard isSameStarter(plan, existing) else { throw BrokerProblem(.codeAlreadyUsed) }
                if existing.outcome != .calling {
                    return try await ExchangeReplay(context: context).answer(plan, existing)
                }
            }
            try await wait(claim, &pause, until: patience)
        }
    }

    /// Refuses to spend a code on a session whose times would be wrong; what has been spent is answered all the same.
    private func checkTime(_ key: Digest) async throws(BrokerProblem) {
        guard !context.may(.begin) else { return }
        guard try await standing(key) != nil else { throw .clockDoubted }
    }

    /// Notes the refresh token of the session that a step-up is for, immediately before its code may be sent.
    ///
    /// Returns the session's version. Throws while the row is sealed under a key that this process does not have yet, because
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

    /// Claims; where the answer was lost, asks again for as long as the starter waits.
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

    /// Waits while another's claim stands.
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
        // The owner's call goes on.
        case .cancelled: throw BrokerProblem(.providerUnavailable, retryAfter: .seconds(1))
        }
    }

    private func newRow(_ plan: ExchangePlan) throws(BrokerProblem) -> ExchangeRow {
        do throws(VaultFailure) {
            return ExchangeRow(
                key: plan.key, proof: starter(of: plan), salt: try context.vault.random(32),
                keyID: context.vault.currentKeyID, claim: ClaimID(random: try context.vault.random(16)),
                claimFor: context.settings.claimLifetime, createdAt: context.clock.now(), gate: plan.gate)
        } catch { throw BrokerProblem(error) }
    }

    /// Verifies the signature of a key that is only claimed or observed yet.
    ///
    /// For an exchange that stands already a claimed one is its own starter's alone to have verified, and an observed one has been
    /// counted.
    private func prove(_ plan: inout ExchangePlan) async throws(BrokerProblem) {
        switch plan.binding {
        case .none, .proved: break
        case .claimed:
            if let standing = try await standing(plan.key), !isSameStarter(plan, standing) {
                throw BrokerProblem(.codeAlreadyUsed)
            }
        case .observed: if try await standing(plan.key) != nil { plan.binding = .none }
        }
        let proved = try await SignInProof(context: context).prove(
            plan.binding, of: plan.client.name, at: plan.provider.profile.name, paidBy: plan.key, plan.charge)
        plan.binding = proved.map { .proved($0) } ?? .none
    }

    /// Reads the exchange of a key, unless it was released.
    private func standing(_ key: Digest) async throws(BrokerProblem) -> ExchangeRow? {
        do throws(StoreFailure) {
            let row = try await context.store.exchange(key)
            return row?.outcome == .released ? nil : row
        } catch { throw BrokerProblem(error) }
    }

    /// The digest of the starter's secret, together with the key that the session belongs to.
    private func starter(of plan: ExchangePlan) -> Digest? {
        guard let secret = plan.proof else { return nil }
        guard let thumbprint = plan.binding.thumbprint else { return context.vault.digest(secret) }
        return context.vault.digest(thumbprint.bytes + secret.bytes())
    }

    private func isSameStarter(_ plan: ExchangePlan, _ row: ExchangeRow) -> Bool {
        guard let stored = row.proof, let brought = plan.proof else { return false }
        // One that was made without a key, before its client had to prove one, is its starter's with any.
        return stored == starter(of: plan) || stored == context.vault.digest(brought)
    }

    /// Says why a login or registration could not be taken: expired, or used by another code.
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
                        .providerUnavailable, privateDetail: "the registration is under way", retryAfter: .seconds(2))
                // Its owner died: nobody knows what the provider saw, whatever attributes come now.
                case .calling, .spent(.unknown): return try await ExchangeReplay(context: context).loginRequired(plan)
                default: return BrokerProblem(.stateKeyExpired)
                }
            }
        } catch { throw BrokerProblem(storing: error) }
    }
}

/// One exchange to run: what is claimed, for whom, and which provider call it stands for.
struct ExchangePlan: Sendable {
    /// The call that is made at most once.
    enum Call: Sendable {
        /// Redeem a code (flows A, B and C, native codes).
        case code(CodeGrant, IdentityContext)
        /// Ask whose a Zephr session is, and take it over.
        case zephrSession(Secret)
        /// Keep a Zephr partial registration for its starter.
        case zephrPartial(stateKey: Secret, identifier: String?)
        /// Complete a registration.
        case register(RegistrationRequest)
        /// Take over tokens that the app already holds.
        case importTokens(ImportedTokens)
        /// Make a session of an id_token that has verified; nil when its exchange stood already, and was not looked at.
        case idToken(ProviderIdentity?)
    }

    var key: Digest
    /// The starter's secret; nil when the forward brought none, and then nothing can be replayed.
    var proof: Secret?
    var gate: ExchangeGate
    var provider: any ProviderClient
    var client: ClientProfile
    var call: Call
    var device: String?
    /// The device's old session, which the new one replaces.
    var presentedSession: Secret?
    /// The login token that came along, for a login that takes this one's place.
    var loginToken: Secret?
    var charge: Charge
    /// The key that the session will belong to.
    var binding: SignInKey
    /// The login's demand on the sign-in, and the session that it steps up.
    var stepUp: LoginStepUp?
    /// The token of the session that is stepped up.
    var stepUpToken: Secret?
}

/// A claimed exchange in its owner's hands.
struct GrantedExchange: Sendable {
    /// All provider calls of one exchange end within this.
    static let callBudget = Duration.seconds(20)

    let plan: ExchangePlan
    let row: ExchangeRow
    let claim: ClaimShell<ClaimedExchange>
    /// The time by which its calls have to be over.
    let deadline: Duration
    /// The time as it was when the claim was granted.
    let time = BelievedTime()
    /// The refresh tokens of the session that is stepped up; empty for a sign-in that makes a session.
    let seen: SeenRefreshTokens
    /// The version that this session had when the code was sent; nil for a sign-in that makes a session.
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
        deadline = moment + Self.callBudget
        time.note(context.clock.now(), moment)
        // A claim that was asked for twice is older than its answer.
        claim.held.take(row.fence, at: moment - max(context.settings.claimLifetime - row.claimFor, .zero))
    }
}

/// Charges an exchange before its row is made and its provider called.
struct ExchangeCharge: Sendable {
    let context: BrokerContext

    /// Takes what the exchange costs.
    ///
    /// A login or registration has paid for its own; repeating an exchange that stands makes nothing and costs nothing.
    func take(_ key: Digest, _ gate: ExchangeGate, _ charge: Charge) async throws(BrokerProblem) {
        let paying: Digest?
        switch gate {
        case .none: paying = nil
        case .login(let login): paying = login
        case .registration(let registration): paying = registration
        }
        if let paying, charge.hasPaidCall(of: paying) { return }
        let standing: ExchangeRow?
        do throws(StoreFailure) { standing = try await context.store.exchange(key) } catch {
            throw BrokerProblem(error)
        }
        if let standing, standing.outcome != .released { return }
        if paying != nil {
            try charge.takeFurtherCall()
        } else {
            try charge.take(.exchange, for: key, lasting: ChargeLedger.exchangeLifetime)
        }
    }

    /// Counts the call that is about to be made against what its login or registration has paid for.
    func count(_ gate: ExchangeGate, _ charge: Charge) {
        switch gate {
        case .none: break
        case .login(let key), .registration(let key): charge.countCall(of: key)
        }
    }
}
