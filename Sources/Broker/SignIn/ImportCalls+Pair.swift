/// Keeps the provider's answer to an import until its user is known.
extension ImportCalls {
    /// Seals the provider's answer in the store before the user is known, because this process has its only copy.
    func keep(_ tokens: TokenSet) async throws(BrokerProblem) {
        let pair: ImportPair
        let stored = StoredTokens(
            provider: profile.name, client: plan.client.name, tokens: tokens, issuedAt: context.clock.now())
        do throws(VaultFailure) {
            pair = ImportPair(key: row.key, tokens: try context.vault.seal(stored.record, as: .tokens, row: row.key))
        } catch {
            throw await settlement.spendRevoking(
                .providerError, because: .unusable(detail: "sealing: \(error)"), revoking: tokens)
        }
        let now = context.clock.now()
        let isKept: Bool? = await settlement.insisting("keepPair") { () async throws(StoreFailure) in
            try await context.store.keepPair(pair, fence: row.fence, at: now)
        }
        switch isKept {
        case true: return
        case nil: throw ExchangeSettlement.notStored
        case false:
            // The claim lapsed, and another process goes on with the import. A revocation of these tokens could end the
            // other process's tokens, too.
            context.events.emit(
                .exchangeFailed(
                    provider: profile.name, client: plan.client.name,
                    failure: .lost(detail: "the claim of the import lapsed")))
            throw .importUnderWay
        }
    }

    /// Opens the answer of an earlier call.
    func keptTokens() async throws(BrokerProblem) -> TokenSet {
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
        return stored.tokens
    }

    /// Throws if kept tokens have expired, as if the API had refused them.
    func checkAge(_ tokens: TokenSet, _ provider: any TokenImporting) throws(ProviderFailure) {
        guard row.imported?.pairKeptAt != nil, provider.spendsImportedTokens, isExpired(tokens) else { return }
        throw .identityRejected(detail: "the kept access token has expired", refusesToken: true)
    }

    private func isExpired(_ tokens: TokenSet) -> Bool {
        tokens.expiresAt.map { $0 <= context.clock.now() } ?? false
    }

    /// Returns the refresh token to send after a failed read of the user; nil if a refresh would be useless.
    ///
    /// An app's old SDK may have sent the spent refresh token at the same moment. Some providers then end the whole grant, which
    /// only a refresh with the new token shows: the provider refuses that, too. If the provider has kept the app's refresh
    /// token, the refresh is left out, because such a provider tolerates repeated tokens.
    func renewable(
        _ tokens: TokenSet, _ imported: ImportedTokens, _ provider: any TokenImporting, after failure: ProviderFailure
    ) -> Secret? {
        guard case .identityRejected(_, refusesToken: true) = failure, provider.spendsImportedTokens,
            let token = tokens.refreshToken, isExpired(tokens) || token.reveal() != imported.refreshToken?.reveal()
        else { return nil }
        return token
    }

    /// Refreshes granted tokens of an import, and keeps the newer tokens.
    ///
    /// Before, the older tokens are kept as expired. If the answer is lost, or this process dies, the next post then begins with
    /// the same refresh. Otherwise it could make a session with a refresh token that is spent.
    func renewed(
        _ tokens: TokenSet, _ token: Secret, _ imported: ImportedTokens, _ provider: any TokenImporting
    ) async throws(BrokerProblem) -> TokenSet {
        var older = tokens
        older.expiresAt = WallTime(seconds: 0)
        try await keep(older)
        let begun = context.clock.monotonic()
        var sent = imported
        sent.refreshToken = token
        let proof = tokens.key.map { ProofMaker($0.pair, context.vault, context.clock) }
        let key = ImportForward.key(profile.name, refreshToken: token, context)
        switch await takenOver(sent, provider, proof, key: key) {
        case .success(let newer):
            let newer = try await granted(provider, newer, begun: begun)
            try await keep(newer)
            return newer
        case .failure(let refusal):
            let reading = ImportReading(isConfirming: false, isEnough: false)
            guard case .spent(let reason) = reading.fate(of: refusal) else {
                // The pair stays for the next post.
                throw await settlement.releaseImport(ImportRelease(calls: 0), because: refusal)
            }
            throw await settlement.spend(reason, because: refusal)
        }
    }
}
