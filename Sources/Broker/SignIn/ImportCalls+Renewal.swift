/// Refreshes the tokens of an import whose access token is expired or refused.
extension ImportCalls {
    /// Refreshes granted tokens of an import, and keeps the newer tokens.
    ///
    /// As for the app's token, at most two calls are granted or lost: the first, and one confirming call after a lost answer.
    func renewed(
        _ pair: GrantedPair, _ token: Secret, _ imported: ImportedTokens, _ provider: any TokenImporting
    ) async throws(BrokerProblem) -> TokenSet {
        let tokens = pair.tokens
        let proof = tokens.key.map { ProofMaker($0.pair, context.vault, context.clock) }
        var sent = imported
        sent.refreshToken = token
        // The older access token tells this refresh from an earlier one with the same refresh token.
        let key = context.vault.index(
            .importedTokens, [profile.name.text, token.reveal(), tokens.accessToken.reveal()])
        var (calls, number) = (pair.calls, firstNumber)
        while calls < ImportMarks.maximumCalls {
            calls += 1
            number += 1
            try await mark(pair, calls: calls, as: number)
            let begun = context.clock.monotonic()
            let isOthers = showsAnother(tokens)
            // With too little time, the answer would be lost. So look after the write, which may take long.
            let result =
                hasTime
                ? await takenOver(sent, provider, proof, usesNonces: tokens.key?.usesNonces ?? false, key: key)
                : .failure(.notSent(detail: "too little time is left to refresh the new tokens"))
            switch result {
            case .success(let answer):
                let granted = try await granted(provider, answer, begun: begun)
                var newer = tokens.refreshed(with: granted)
                newer.idToken = granted.idToken ?? tokens.idToken
                try await keep(newer, as: number + 1)
                return newer
            case .failure(let error):
                let failure = isOthers || showsAnother(tokens) ? error.doubted(.otherCertificate) : error
                switch ImportReading(isConfirming: calls > 1, isEnough: false).fate(of: failure) {
                case .released, .counted:
                    // This call has left the refresh token unused.
                    try await mark(pair, calls: calls - 1, as: number + 1)
                    throw await settlement.releaseImport(ImportRelease(calls: 0), because: failure)
                case .lost:
                    guard await waits(after: failure) else {
                        throw await settlement.releaseImport(ImportRelease(calls: 0), because: failure)
                    }
                case .spent(let reason):
                    // If the grant lives, the older tokens may be alive, too.
                    throw await settlement.spendRevoking(reason, because: failure, revoking: tokens)
                }
            }
        }
        throw await settlement.spendRevoking(
            .refreshLost, because: .lost(detail: "the answers to both refreshes of the new tokens are lost"),
            revoking: tokens)
    }

    /// Whether a call shows another certificate than the tokens', so that a refusal may concern the certificate.
    private func showsAnother(_ tokens: TokenSet) -> Bool {
        tokens.certificate != nil && !context.shows(tokens.certificate, profile.name, plan.client.name)
    }
}
