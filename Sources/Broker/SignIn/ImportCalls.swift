/// Makes the provider calls of one claimed import, and hands their results to its settlement.
///
/// Of all calls with one refresh token, at most two are granted or lost: the first, and one confirming call after a lost answer.
/// `ImportStore` counts each call in the row before it is sent.
struct ImportCalls: Sendable {
    /// The pause between a lost answer and the confirming call.
    ///
    /// A provider that restarts cuts its answers, and then refuses connections for some seconds.
    private static let pause = Duration.seconds(2)
    /// The time that has to be left for the pause and the confirming call; with less time, the next post makes the call.
    private static let enough = Duration.seconds(5)

    let context: BrokerContext
    let exchange: GrantedExchange
    let settlement: ExchangeSettlement

    init(_ exchange: GrantedExchange, _ settlement: ExchangeSettlement) {
        context = exchange.claim.context
        self.exchange = exchange
        self.settlement = settlement
    }

    var plan: ExchangePlan { exchange.plan }
    var row: ExchangeRow { exchange.row }
    var profile: ProviderProfile { plan.provider.profile }

    /// Returns the session that the imported tokens become, if this process has room for the import.
    func run(_ imported: ImportedTokens) async throws(BrokerProblem) -> SignInOutcome {
        let room = context.memory.imports
        if let refusal = context.importRefusal(room.enter(profile.name, at: context.clock.monotonic())) {
            await settlement.letGo(ImportRelease(calls: row.attempts - 1))
            throw refusal
        }
        defer { room.leave(profile.name) }
        return try await session(of: imported)
    }

    private func session(of imported: ImportedTokens) async throws(BrokerProblem) -> SignInOutcome {
        guard let provider = plan.provider as? any TokenImporting else {
            throw await settlement.spend(
                .providerError, because: .unusable(detail: "this kind of provider imports no tokens"))
        }
        let granted = try await grantedTokens(provider, imported)
        plan.trial?.noteGrant()
        let (tokens, who) = try await known(granted, imported, provider)
        if let expected = imported.expectedSubject, expected != who.subject {
            // This mismatch is final even if the clock is in doubt.
            throw await settlement.spendRevoking(
                .identityRejected, because: .identityRejected(detail: "the old system names another user"),
                revoking: tokens)
        }
        if let trial = plan.trial {
            try await settlement.end(trial, tokens, of: who.subject, isPair: provider.spendsImportedTokens)
        }
        return try await settlement.complete(tokens, who, imported.scope)
    }

    /// Returns the tokens that the provider has granted now or earlier.
    private func grantedTokens(
        _ provider: any TokenImporting, _ imported: ImportedTokens
    ) async throws(BrokerProblem) -> GrantedPair {
        if row.imported?.pairKeptAt != nil { return try await keptPair() }
        let tokens = try await call(provider, imported)
        if provider.spendsImportedTokens {
            try await keep(tokens, as: firstNumber)
            await noteGrant(provider)
        }
        return GrantedPair(tokens: tokens)
    }

    /// Returns the user of granted tokens, with the newest tokens.
    ///
    /// If the access token is refused, or was kept until its end, the tokens are refreshed one time.
    private func known(
        _ granted: GrantedPair, _ imported: ImportedTokens, _ provider: any TokenImporting
    ) async throws(BrokerProblem) -> (TokenSet, ProviderIdentity) {
        let failure: ProviderFailure
        do throws(ProviderFailure) {
            if provider.spendsImportedTokens { try granted.checkAge(at: context.clock.now()) }
            return (granted.tokens, try await user(of: granted.tokens, imported, provider))
        } catch { failure = error }
        guard provider.spendsImportedTokens,
            let token = granted.tokenToRefresh(after: failure, imported, at: context.clock.now())
        else { throw await unread(granted.tokens, provider, because: failure) }
        let newer = try await renewed(granted, token, imported, provider)
        do throws(ProviderFailure) { return (newer, try await user(of: newer, imported, provider)) } catch {
            throw await unread(newer, provider, because: error)
        }
    }

    private func user(
        of tokens: TokenSet, _ imported: ImportedTokens, _ provider: any TokenImporting
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let identity = identityContext(provider, tokens, imported)
        return try await exchange.reading { () async throws(ProviderFailure) in
            try await provider.identifyImported(tokens, of: imported, identity, by: exchange.deadline)
        }
    }

    /// Settles an import after the read of its user has failed, and returns the app's answer.
    private func unread(
        _ tokens: TokenSet, _ provider: any TokenImporting, because failure: ProviderFailure
    ) async -> BrokerProblem {
        guard isPassing(failure, provider) else { return await settlement.settleIdentityFailure(failure, tokens) }
        // `calls` is 0, because the last call's answer is known. For a kept pair, the store ignores `calls`.
        return await settlement.releaseImport(ImportRelease(calls: 0), because: failure)
    }

    private func identityContext(
        _ provider: any TokenImporting, _ tokens: TokenSet, _ imported: ImportedTokens
    ) -> IdentityContext {
        var identity = IdentityContext(
            client: plan.client.name, nonce: .none, callback: imported.callback, requestedScope: [])
        identity.proof = tokens.key.map { ProofMaker($0.pair, context.vault, context.clock) }
        // If `takeOver` spends the app's token, these tokens have just been issued.
        if provider.spendsImportedTokens { identity.secondRead = SecondRead() }
        return identity
    }

    /// Whether a failed read of the user may succeed later, so that the tokens are kept.
    private func isPassing(_ failure: ProviderFailure, _ provider: any TokenImporting) -> Bool {
        switch failure {
        case .notSent, .retryable, .lost: true
        // The provider has just granted the token, so an API that answers 401 may be at fault.
        case .identityRejected(_, refusesToken: true) where provider.spendsImportedTokens: true
        // If the clock is in doubt now, the user may have been judged by a wrong time.
        case .identityRejected: !context.may(.refuse)
        case .rejected, .unusable: false
        }
    }

    // MARK: The call

    /// Brings the app's token to the provider, and repeats the call one time after a lost answer.
    private func call(
        _ provider: any TokenImporting, _ imported: ImportedTokens
    ) async throws(BrokerProblem) -> TokenSet {
        var calls = row.attempts
        if let refusal = plan.importRefusal(calls: calls) {
            await settlement.letGo(ImportRelease(calls: calls - 1))
            throw refusal
        }
        let proof = try await proof(imported)
        while true {
            let begun = context.clock.monotonic()
            // Read this before the call, as for a refresh (decision 50).
            let grantsOthers = hasGrantedOthers(since: begun)
            let failure: ProviderFailure
            switch await takenOver(imported, provider, proof, key: row.key) {
            case .success(let tokens): return try await granted(provider, tokens, begun: begun)
            case .failure(let error): failure = error
            }
            switch reading(isConfirming: calls > 1, grantsOthers).fate(of: failure) {
            case .spent(let reason):
                guard await proves(failure, provider) else {
                    context.events.emit(.importUnproven(provider: profile.name, client: plan.client.name))
                    throw await settlement.releaseImport(ImportRelease(calls: calls - 1), because: failure)
                }
                throw await settlement.spend(reason, because: failure)
            case .released: throw await settlement.releaseImport(ImportRelease(calls: calls - 1), because: failure)
            case .counted:
                context.memory.answers.refusedImport(profile.name, plan.client.name, begun: begun)
                throw await settlement.releaseImport(
                    ImportRelease(calls: calls - 1, refusedAt: context.clock.now()), because: failure)
            case .lost:
                guard try await mayConfirm(failure) else {
                    throw await settlement.releaseImport(ImportRelease(calls: calls), because: failure)
                }
                calls = ImportMarks.maximumCalls
            }
        }
    }

    /// Returns the tokens that the provider has granted, if they are as the client's configuration requires.
    func granted(
        _ provider: any TokenImporting, _ tokens: TokenSet, begun: Duration
    ) async throws(BrokerProblem) -> TokenSet {
        if provider.spendsImportedTokens {
            context.memory.answers.granted(profile.name, plan.client.name, begun: begun)
        }
        let (reason, detail): (ExchangeRow.SpentReason, String)
        if let refusal = tokens.refusal {
            (reason, detail) = (.providerError, refusal)
        } else if plan.client.senderConstraint != .off, !tokens.credential.isBound {
            // A client that requires bound tokens must discard unbound ones (RFC 9449 section 5).
            (reason, detail) = (.notBound, "the tokens are unbound, by their token_type")
        } else {
            return tokens
        }
        let problem = await settlement.spendRevoking(reason, because: .unusable(detail: detail), revoking: tokens)
        if provider.spendsImportedTokens { await noteGrant(provider) }
        throw problem
    }

    private func importProof(_ provider: any TokenImporting) -> ImportProof {
        ImportProof(
            context: context, provider: profile.name, clientID: provider.clientID(of: plan.client.name))
    }

    /// Records the client's first granted import.
    ///
    /// The tokens have to be in the store before, because this process has their only copy. If the record fails, the next
    /// granted import repeats it.
    private func noteGrant(_ provider: any TokenImporting) async {
        do throws(StoreFailure) { try await importProof(provider).note() } catch {
            exchange.claim.failed("noteImportGrant", error)
        }
    }

    /// Whether a failure proves that the app's token is dead.
    ///
    /// A refusal proves this only after the client's first granted import.
    private func proves(_ failure: ProviderFailure, _ provider: any TokenImporting) async -> Bool {
        guard provider.spendsImportedTokens, case .rejected = failure else { return true }
        do throws(StoreFailure) { return try await importProof(provider).isKnown() } catch {
            exchange.claim.failed("hasImportGrant", error)
            return false
        }
    }

    /// Returns the maker of proofs for the key that the provider's tokens are to be bound to.
    ///
    /// The key is derived from the app's refresh token, so the confirming call has the same key.
    private func proof(_ imported: ImportedTokens) async throws(BrokerProblem) -> ProofMaker? {
        guard plan.client.senderConstraint == .dpop, let token = imported.refreshToken else { return nil }
        let seed = context.vault.index(.tokenKey, ["import", profile.name.text, token.reveal()])
        do throws(VaultFailure) {
            return ProofMaker(try context.vault.proofKeyPair(seed: seed.bytes), context.vault, context.clock)
        } catch {
            throw await settlement.releaseImport(
                ImportRelease(calls: row.attempts - 1),
                because: .notSent(detail: "the vault failed to make a key for the tokens"))
        }
    }

    /// Brings a token to the provider.
    ///
    /// `key` is the idempotency key, which is the same for each repeat of a call.
    func takenOver(
        _ tokens: ImportedTokens, _ provider: any TokenImporting, _ proof: ProofMaker?, usesNonces: Bool = false,
        key: Digest
    ) async -> Result<TokenSet, ProviderFailure> {
        let request = ImportRequest(
            client: plan.client.name, tokens: tokens, idempotencyKey: Base64URL.encode(key.bytes), proof: proof,
            usesNonces: usesNonces)
        do throws(ProviderFailure) {
            return .success(try await provider.takeOver(request, by: exchange.deadline))
        } catch {
            if case .retryable(429, let pause, _) = error {
                context.memory.imports.hold(profile.name, for: pause, at: context.clock.monotonic())
            }
            return .failure(error)
        }
    }

    private func reading(isConfirming: Bool, _ grantsOthers: Bool) -> ImportReading {
        let refusals = row.imported?.refusals ?? 0
        let isLong = refusedFor.map { $0 >= ImportReading.countedPeriod } ?? false
        return ImportReading(
            isConfirming: isConfirming,
            isEnough: grantsOthers && isLong && refusals + 1 >= ImportReading.countedRefusals && context.may(.refuse))
    }

    /// The time since the first counted refusal of this token; nil before the first.
    private var refusedFor: Duration? { row.imported?.firstRefusedAt.map { context.clock.now().since($0) } }

    /// Whether the provider has granted another call of the client since the first counted refusal of this token.
    private func hasGrantedOthers(since begun: Duration) -> Bool {
        guard let refusedFor, refusedFor > .zero else { return false }
        return context.memory.answers.hasGranted(
            profile.name, plan.client.name, since: begun - refusedFor, forImport: true)
    }

    /// Whether enough time is left for a call that spends a token.
    var hasTime: Bool { exchange.deadline - context.clock.monotonic() >= Self.enough }

    /// Waits after a lost answer; returns false if the next post has to make the confirming call.
    func waits(after failure: ProviderFailure) async -> Bool {
        guard hasTime else { return false }
        context.events.emit(
            .exchangeFailed(provider: profile.name, client: plan.client.name, failure: failure))
        do { try await context.clock.sleep(Self.pause) } catch { return false }
        return true
    }

    /// Waits after a lost answer, and counts the confirming call; returns false if the next post has to make it.
    private func mayConfirm(_ failure: ProviderFailure) async throws(BrokerProblem) -> Bool {
        guard await waits(after: failure) else { return false }
        let isCounted: Bool
        do throws(StoreFailure) {
            isCounted = try await context.store.countImportCall(
                row.key, fence: row.fence, calls: ImportMarks.maximumCalls)
        } catch {
            exchange.claim.failed("countImportCall", error)
            return false
        }
        // Otherwise another process has the claim, and makes the confirming call.
        guard isCounted else { throw .importUnderWay }
        return true
    }
}

extension BrokerProblem {
    /// The answer while another process goes on with the import.
    static var importUnderWay: BrokerProblem {
        BrokerProblem(
            .providerUnavailable, privateDetail: "another process goes on with the import", retryAfter: .seconds(2))
    }
}
