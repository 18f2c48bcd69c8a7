/// Keeps the provider's answer to an import until its user is known.
extension ImportCalls {
    /// The number of the first answer that this claim keeps; later answers have higher numbers.
    var firstNumber: Int { max(row.attempts, ImportMarks.attemptsWithPair) }

    /// Seals the provider's answer in the store before the user is known, because this process has its only copy.
    ///
    /// The store refuses an answer with a lower number than the kept one, because a write may arrive late.
    func keep(_ tokens: TokenSet, as number: Int) async throws(BrokerProblem) {
        let pair: ImportPair
        do throws(VaultFailure) { pair = try sealed(tokens) } catch {
            throw await settlement.spendRevoking(
                .providerError, because: .unusable(detail: "sealing: \(error)"), revoking: tokens)
        }
        try await keep(pair, of: tokens, as: number)
    }

    /// Keeps the number of calls that may have spent a kept pair's refresh token.
    ///
    /// The pair is already in the store, so a vault that fails ends only this post.
    func mark(_ pair: GrantedPair, calls: Int, as number: Int) async throws(BrokerProblem) {
        let tokens = pair.marked(calls: calls)
        let marked: ImportPair
        do throws(VaultFailure) { marked = try sealed(tokens) } catch {
            throw await settlement.releaseImport(
                ImportRelease(calls: 0), because: .notSent(detail: "the vault failed to seal the kept tokens"))
        }
        try await keep(marked, of: tokens, as: number)
    }

    private func sealed(_ tokens: TokenSet) throws(VaultFailure) -> ImportPair {
        let stored = StoredTokens(
            provider: profile.name, client: plan.client.name, tokens: tokens, issuedAt: context.clock.now())
        return ImportPair(key: row.key, tokens: try context.vault.seal(stored.record, as: .tokens, row: row.key))
    }

    private func keep(_ pair: ImportPair, of tokens: TokenSet, as number: Int) async throws(BrokerProblem) {
        let now = context.clock.now()
        let isKept: Bool? = await settlement.insisting("keepPair") { () async throws(StoreFailure) in
            try await context.store.keepPair(pair, as: number, fence: row.fence, at: now)
        }
        switch isKept {
        case true: return
        case nil: throw ExchangeSettlement.notStored
        case false:
            let lapse = ProviderFailure.lost(detail: "the claim of the import lapsed")
            let standing: ExchangeRow?? = await settlement.insisting("exchange") { () async throws(StoreFailure) in
                try await context.store.exchange(row.key)
            }
            if case .spent(let reason)? = (standing ?? nil)?.outcome {
                throw await settlement.spendRevoking(reason, because: lapse, revoking: tokens)
            }
            // Another process goes on with the import. A revocation of these tokens could end its tokens, too.
            context.events.emit(
                .exchangeFailed(provider: profile.name, client: plan.client.name, failure: lapse))
            throw .importUnderWay
        }
    }

    /// Opens the answer of an earlier call.
    func keptPair() async throws(BrokerProblem) -> GrantedPair {
        let pair: ImportPair?
        do throws(StoreFailure) { pair = try await context.store.keptPair(row.key) } catch {
            _ = await settlement.releaseImport(
                ImportRelease(calls: 0), because: .notSent(detail: "reading the kept tokens failed"))
            throw BrokerProblem(error)
        }
        let stored: StoredTokens
        do {
            guard let pair else { throw RecordFailure.malformed }
            stored = try StoredTokens(record: try context.vault.open(pair.tokens, as: .tokens, row: row.key))
        } catch {
            if let problem = BrokerProblem(opening: error) {
                _ = await settlement.releaseImport(
                    ImportRelease(calls: 0),
                    because: .notSent(detail: "the key of the kept tokens is missing"))
                throw problem
            }
            throw await settlement.spend(
                .refreshLost, because: .unusable(detail: "the kept tokens of the import are damaged"))
        }
        // The pair belongs to the client that made the call.
        guard stored.client == plan.client.name else {
            _ = await settlement.releaseImport(
                ImportRelease(calls: 0), because: .unusable(detail: "another client's call got the tokens"))
            throw BrokerProblem(.codeAlreadyUsed)
        }
        return GrantedPair(tokens: stored.tokens, keptSince: stored.issuedAt)
    }
}
