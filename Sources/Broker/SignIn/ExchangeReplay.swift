/// Repeats the stored outcome of a settled exchange to its own starter.
struct ExchangeReplay: Sendable {
    let context: BrokerContext

    /// Returns or throws the stored outcome of the exchange, as the first forward did.
    func answer(_ plan: ExchangePlan, _ row: ExchangeRow) async throws(BrokerProblem) -> SignInOutcome {
        context.events.emit(.exchangeReplayed(provider: plan.provider.profile.name))
        switch row.outcome {
        case .session(let digest):
            if let session = plan.stepUp?.session { return try await stepUpAgain(session, digest, plan, row) }
            return .signedIn(try await session(digest, plan, row))
        case .registration(let key): return .registrationRequired(try await registration(key, plan))
        // `ExchangeRunner` passes the import's row instead.
        case .continued: throw BrokerProblem(.codeAlreadyUsed)
        // Another starter's call has brought tokens, which are kept until that starter's next post.
        case .released where plan.isImport: throw BrokerProblem(.codeAlreadyUsed)
        case .released:
            // The runner claims a released exchange again until the attempts are used up. The attempts of this exchange are
            // used up, so only a new login helps.
            throw BrokerProblem(.providerUnavailable, retry: "new_login", retryAfter: .seconds(5))
        // An older release spent the import, because its answer was lost.
        case .spent(.unknown) where plan.isImport: throw BrokerProblem(spent: .refreshLost)
        case .spent(.unknown): throw try await loginRequired(plan)
        case .spent(let reason):
            var problem = BrokerProblem(spent: reason)
            if problem.code == .stepUpFailed, let stepUp = plan.stepUp {
                problem.payload = .shortfall(StepUpShortfall(required: stepUp.demand, got: nil))
            }
            throw problem
        case .calling: throw BrokerProblem(.providerUnavailable, retryAfter: .seconds(1))
        }
    }

    /// Returns the exchange's session, if it is alive.
    ///
    /// A forward that presents this session gets it at any time. For other forwards, the session token is derived again from the
    /// row's salt and the starter's proof. The answer is repeated only if this token opens the session.
    ///
    /// An app may lose the answer to an import, and start again the next day. So an import is repeated until the first use of its
    /// session.
    private func session(
        _ digest: Digest, _ plan: ExchangePlan, _ row: ExchangeRow
    ) async throws(BrokerProblem) -> SignedIn {
        if let token = plan.presentedSession, plan.presentsSession(of: row, context) {
            return try await signedIn(digest, token, plan)
        }
        guard let proof = plan.proof else { throw BrokerProblem(.codeAlreadyUsed) }
        let isLate = context.clock.now().since(row.createdAt) > context.settings.replayWindow
        if isLate {
            guard context.may(.refuse) else { throw .clockDoubted }
            guard plan.isImport, try await isUnused(digest) else { throw BrokerProblem(.codeAlreadyUsed) }
        }
        let token: Secret
        do throws(VaultFailure) {
            token = try context.vault.sessionToken(keyID: row.keyID, salt: row.salt, proof: proof)
        } catch { throw BrokerProblem(error) }
        guard context.vault.digest(token) == digest else { throw BrokerProblem(.codeAlreadyUsed) }
        return try await signedIn(digest, token, plan)
    }

    /// Returns whether an import's session still waits for its first use.
    ///
    /// A use is in this process's cache before it is in the store. Another process's use is only in the store.
    private func isUnused(_ digest: Digest) async throws(BrokerProblem) -> Bool {
        let cached = context.cache.lookUp(digest, at: context.clock.monotonic()).session
        if let cached, !cached.row.isUnused { return false }
        do throws(StoreFailure) {
            return try await context.store.session(tokenDigest: digest)?.isUnused ?? false
        } catch { throw BrokerProblem(error) }
    }

    /// Returns the live session of a token digest.
    ///
    /// For a bound session, the forward has to prove the session's key. An import has to name the session's client. Another
    /// client may send its token in another way, and a page could then read the token of an HttpOnly cookie.
    private func signedIn(
        _ digest: Digest, _ token: Secret, _ plan: ExchangePlan
    ) async throws(BrokerProblem) -> SignedIn {
        do throws(BrokerProblem) {
            let live = try await ResumeSession(context: context).resume(digest)
            guard !plan.isImport || live.facts.client == plan.client.name,
                live.facts.thumbprint == nil || live.facts.thumbprint == plan.binding.thumbprint
            else { throw BrokerProblem(.codeAlreadyUsed) }
            var signedIn = try SignedIn(live, token: token, transport: plan.client.transport, context)
            signedIn.isRepeat = true
            return signedIn
        } catch {
            switch error.code {
            case .sessionEnded, .sessionRequired: throw BrokerProblem(.codeAlreadyUsed)
            default: throw error
            }
        }
    }

    /// Returns the stepped-up session as it is now.
    private func stepUpAgain(
        _ session: Digest, _ digest: Digest, _ plan: ExchangePlan, _ row: ExchangeRow
    ) async throws(BrokerProblem) -> SignInOutcome {
        guard session == digest, let token = plan.stepUpToken else { throw BrokerProblem(.codeAlreadyUsed) }
        if context.clock.now().since(row.createdAt) > context.settings.replayWindow {
            throw context.may(.refuse) ? BrokerProblem(.codeAlreadyUsed) : .clockDoubted
        }
        // Another process may have stored the step-up. Then this cache may still have the session without the step-up, so
        // read the session again.
        context.cache.remove([digest])
        let resume = ResumeSession(context: context)
        let live = try await resume.resume(digest)
        return .steppedUp(
            SteppedUp(live, token: token, transport: plan.client.transport, view: try resume.view(of: live)))
    }

    private func registration(_ key: Digest, _ plan: ExchangePlan) async throws(BrokerProblem) -> RegistrationView {
        let row: RegistrationRow?
        do throws(StoreFailure) { row = try await context.store.registration(key) } catch { throw BrokerProblem(error) }
        guard let row, row.status == .open, context.clock.now() < row.expiresAt else {
            throw BrokerProblem(.stateKeyExpired)
        }
        return try RegistrationSecrets.open(row, context.vault).view(expiresAt: row.expiresAt)
    }

    /// Returns a problem with a fresh login, because it is unknown whether the provider accepted the code.
    ///
    /// For a step-up, the app must start another step-up with its session instead.
    func loginRequired(_ plan: ExchangePlan) async throws(BrokerProblem) -> BrokerProblem {
        guard plan.stepUp?.session == nil else {
            return BrokerProblem(.providerUnavailable, retry: "new_login", retryAfter: .seconds(1))
        }
        var demanded: [(name: String, value: String)] = []
        if case .code(_, let identity) = plan.call { demanded = identity.demands?.parameters ?? [] }
        let login = try await StartLogin(context).restart(
            at: plan.provider, client: plan.client, parameters: demanded, demand: plan.stepUp?.demand,
            loginToken: plan.loginToken, providerStarted: false, key: plan.binding, charge: plan.charge)
        return BrokerProblem(.loginRequired, with: .login(login))
    }
}

extension BrokerProblem {
    /// Creates the answer that a used-up exchange repeats each time.
    init(spent reason: ExchangeRow.SpentReason) {
        switch reason {
        case .rejected: self.init(.codeRejected)
        case .providerError: self.init(.providerError)
        case .identityRejected: self.init(.identityRejected)
        case .unknown: self.init(.providerUnavailable, retry: "new_login", retryAfter: .seconds(1))
        case .registrationUserExists: self.init(.userAlreadyExists)
        case .registrationDomainDenied: self.init(.emailDomainDenied)
        case .registrationRejected: self.init(.registrationRejected)
        case .tooManySessions: self.init(.tooManySessions)
        case .registrationKeyExpired: self.init(.stateKeyExpired)
        case .subjectMismatch: self.init(.subjectMismatch)
        case .stepUpFailed: self.init(.stepUpFailed)
        case .grantRevoked: self.init(importEnded: .grantRevoked)
        case .refreshLost: self.init(importEnded: .refreshLost)
        case .notBound: self.init(importEnded: .notBound)
        case .expired: self.init(importEnded: .expired)
        case .unknownSession: self.init(importEnded: .unknownSession)
        }
    }

    private init(importEnded reason: ImportEnd) {
        self.init(
            .loginRequired,
            detail: "The move of the old session has failed for good. Erase it, and let the user sign in.",
            with: .importFailed(reason))
    }
}
