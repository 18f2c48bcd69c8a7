/// Asks the old system about one claimed legacy token, and goes on with its answer.
///
/// A session with a refresh token becomes an import of this token, whose row decides. The legacy token's row then leads to that
/// row. A question to the old system may be repeated, because the old system gives the same `id` the same answer.
struct LegacyCalls: Sendable {
    /// The pause before the same post, if the old system leaves it out.
    private static let pause = Duration.seconds(5)

    private let context: BrokerContext
    private let exchange: GrantedExchange
    private let settlement: ExchangeSettlement

    init(_ exchange: GrantedExchange, _ settlement: ExchangeSettlement) {
        context = exchange.claim.context
        self.exchange = exchange
        self.settlement = settlement
    }

    private var plan: ExchangePlan { exchange.plan }
    private var row: ExchangeRow { exchange.row }
    private var profile: ProviderProfile { plan.provider.profile }

    /// Returns the session that the old system's session becomes.
    func run(_ token: Secret) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any LegacyClaiming, let policy = plan.client.moveIn else {
            // The setting has left the file, and another process has begun the move.
            await settlement.letGo(ImportRelease(calls: row.attempts - 1))
            throw plan.importRefusal ?? BrokerProblem(.clientNotAllowed, with: .importRefused(.notOpen))
        }
        if let refusal = plan.importRefusal(calls: row.attempts) {
            await settlement.letGo(ImportRelease(calls: row.attempts - 1))
            throw refusal
        }
        let answer = try await answer(provider, token)
        switch LegacyReading(policy: policy, now: context.clock.now()).verdict(answer) {
        case .unusable(let detail): throw await unavailable(.retryable(status: 200, retryAfter: nil, detail: detail))
        case .spent(let reason, let note): throw await spent(reason, note)
        case .grant(let refreshToken):
            guard case .session(let session) = answer else { throw BrokerProblem(.internalError) }
            return try await imported(refreshToken, session)
        case .believe(let subject):
            guard case .session(let session) = answer else { throw BrokerProblem(.internalError) }
            return try await believed(subject, session)
        }
    }

    // MARK: The question

    private func answer(
        _ provider: any LegacyClaiming, _ token: Secret
    ) async throws(BrokerProblem) -> LegacyAnswer {
        guard context.memory.legacy.enter() else {
            await letGo()
            throw BrokerProblem(
                .providerUnavailable, privateDetail: "too many questions to old systems are in flight",
                retryAfter: .seconds(1))
        }
        defer { context.memory.legacy.leave() }
        let id = context.vault.index(
            .legacyClaim, [profile.name.text, plan.client.name.text, token.reveal()])
        let claim = LegacyClaim(id: Base64URL.encode(id.bytes), client: plan.client.name, token: token)
        do throws(ProviderFailure) { return try await provider.claim(claim, by: exchange.deadline) } catch {
            throw await unavailable(error)
        }
    }

    /// Reports that the old system's answer is unusable or missing, and releases the row.
    private func unavailable(_ failure: ProviderFailure) async -> BrokerProblem {
        context.events.emit(
            .oldSystemAnswered(
                provider: profile.name, client: plan.client.name, result: .unavailable, detail: failure.detail))
        return await released(failure)
    }

    /// Releases the legacy token's row, because the old system's decision is missing.
    ///
    /// The import may have begun after an earlier question. Then the row keeps one call, so that the move goes on after `until`
    /// (`ImportWindow`).
    private func letGo() async { await settlement.letGo(ImportRelease(calls: row.attempts > 1 ? 1 : 0)) }

    private func released(_ failure: ProviderFailure) async -> BrokerProblem {
        await letGo()
        var pause = Self.pause
        if case .retryable(_, let asked?, _) = failure { pause = asked }
        return BrokerProblem(.providerUnavailable, privateDetail: failure.detail, retryAfter: pause)
    }

    /// Spends the legacy token; `note` is the reason for operators if the old system did know the session.
    private func spent(_ reason: ExchangeRow.SpentReason, _ note: String?) async -> BrokerProblem {
        // If the clock is in doubt, the session's end may have been judged by a wrong time.
        if reason == .expired, !context.may(.refuse) {
            await letGo()
            return .clockDoubted
        }
        plan.charge.noteRefusedLegacy()
        context.events.emit(
            .oldSystemAnswered(provider: profile.name, client: plan.client.name, result: .refused, detail: note))
        do throws(StoreFailure) {
            _ = try await context.store.settleExchange(
                row.key, fence: row.fence, outcome: .spent(reason), outbox: [], registration: nil)
        } catch { return BrokerProblem(error) }
        var problem = BrokerProblem(spent: reason)
        problem.privateDetail = note
        return problem
    }

    private func noteFound() {
        context.events.emit(
            .oldSystemAnswered(provider: profile.name, client: plan.client.name, result: .found, detail: nil))
    }

    // MARK: The session

    /// Makes a session that lacks provider tokens, like an id_token's (decision 52).
    private func believed(_ subject: String, _ session: LegacySession) async throws(BrokerProblem) -> SignInOutcome {
        noteFound()
        var exchange = exchange
        exchange.plan.adopt(session)
        return try await ExchangeSettlement(exchange, early: settlement.early).complete(
            nil, ProviderIdentity(subject: subject), [])
    }

    /// Imports the old session's refresh token, as if the app had posted it.
    private func imported(_ token: Secret, _ session: LegacySession) async throws(BrokerProblem) -> SignInOutcome {
        var tokens = ImportedTokens(
            accessToken: nil, refreshToken: token, merchantID: nil, idToken: session.idToken)
        tokens.expectedSubject = session.subject
        tokens.scope = session.scope
        guard let provider = plan.provider as? any TokenImporting else {
            throw await unavailable(.notSent(detail: "this kind of provider lacks imports"))
        }
        // The id_token is only compared, so a provider that refuses one goes on.
        if provider.importFault(tokens, client: plan.client.name)?.code == .notAllowed { tokens.idToken = nil }
        if let fault = provider.importFault(tokens, client: plan.client.name) {
            let detail = "the old system's answer contradicts the client: \(fault.pointer) is \(fault.code.rawValue)"
            throw await unavailable(.retryable(status: 200, retryAfter: nil, detail: detail))
        }
        noteFound()
        var next = plan
        next.key = ImportForward.key(profile.name, refreshToken: token, context)
        next.call = .importTokens(tokens)
        // The legacy token's exchange has paid, and reports the result.
        next.charge = .nobody
        next.endsBy = exchange.deadline
        next.importRefusal = nil
        next.adopt(session)
        do throws(BrokerProblem) {
            let outcome = try await ExchangeRunner(context: context).run(next)
            await goOn(with: next.key)
            plan.charge.sessionMade(exchange: row.key, gate: .none)
            return outcome
        } catch {
            await settle(with: next.key)
            throw error
        }
    }

    /// Settles the legacy token's row if the import's row is settled, and releases it otherwise.
    private func settle(with key: Digest) async {
        var hasBegun = true
        do throws(StoreFailure) {
            let imported = try await context.store.exchange(key)
            switch imported?.outcome {
            case .session, .spent, .registration, .continued: return await goOn(with: key)
            case .released, .calling, nil: hasBegun = imported?.hasBegunImport ?? false
            }
        } catch { exchange.claim.failed("exchange", error) }
        // An import that has begun goes on after `until` (`ImportWindow`).
        await settlement.letGo(ImportRelease(calls: hasBegun ? 1 : 0))
    }

    /// Lets the legacy token's row lead to the import's row.
    ///
    /// If this write fails, the claim lapses, and the next post finds the import's row by another question to the old system.
    private func goOn(with key: Digest) async {
        do throws(StoreFailure) {
            _ = try await context.store.settleExchange(
                row.key, fence: row.fence, outcome: .continued(key), outbox: [], registration: nil)
        } catch { exchange.claim.failed("settleExchange", error) }
    }
}

extension ExchangePlan {
    /// Takes over the old session's name for the device and its times.
    fileprivate mutating func adopt(_ session: LegacySession) {
        device = device ?? session.device
        old = OldTimes(createdAt: session.createdAt, expiresAt: session.expiresAt)
    }
}
