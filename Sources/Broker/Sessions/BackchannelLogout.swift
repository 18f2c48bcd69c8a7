/// Receives OIDC Back-Channel Logout tokens, which are authenticated by their signature (SEC-66 … SEC-69).
package struct BackchannelLogout: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Ends the sessions that a valid token names.
    ///
    /// Only sessions of the clients in the token's `aud` are ended.
    ///
    /// If the token has a `sid`, it names the sessions with that `sid`. If it also has a `sub`, it also names that user's
    /// sessions whose own id_token lacked a `sid`. If the token has only a `sub`, it names all sessions of the user.
    ///
    /// The answer does not reveal whether there was any session. For a replayed token, the problem is `invalid_request`. If the
    /// store is unavailable, a replay would pass undetected, so the answer is 503.
    ///
    /// A valid token costs nothing. An invalid token is charged as a wrong token. If its verification needed newer keys or
    /// several attempts, each fetch and attempt is charged instead (`KeyFetchCharge`).
    package func receive(
        provider name: ProviderName, token: Secret, charge: Charge = .nobody
    ) async throws(BrokerProblem) {
        guard let provider = context.providers[name] as? any LogoutTokenVerifying else {
            throw BrokerProblem(.invalidRequest, privateDetail: "no provider of that name takes logout tokens")
        }
        let fetch = KeyFetchCharge(charge)
        let notice: LogoutNotice
        do throws(ProviderFailure) {
            notice = try await provider.verifyLogoutToken(token) { fetch.take() }
            fetch.giveBack()
        } catch {
            context.events.emit(.logoutToken(provider: name, result: error.shortDescription))
            if let refusal = fetch.refusal { throw refusal }
            switch error {
            case .identityRejected, .rejected, .unusable:
                if !fetch.isTaken { try charge.takeWrongToken() }
                throw BrokerProblem(.invalidRequest, privateDetail: error.detail)
            case .notSent, .retryable, .lost: throw BrokerProblem(starting: error)
            }
        }
        let issuer = provider.profile.issuer
        guard notice.sid != nil || notice.subject != nil, !notice.clients.isEmpty else {
            throw BrokerProblem(.invalidRequest)
        }
        let selector = SessionSelector.logout(
            sid: notice.sid.map { context.vault.index(.sid, [issuer, $0]) },
            subject: notice.subject.map { context.vault.index(.subject, [issuer, $0]) },
            clients: notice.clients.map { context.vault.index(.client, [name.text, $0.text]) })
        let work = self
        let id = context.vault.index(.logoutToken, [issuer, notice.tokenID])
        let result = await Detached.run("backchannel-logout", on: context.spawner) {
            await work.consume(id, until: notice.rememberUntil, ending: selector)
        }
        guard let result else { throw BrokerProblem(.storeUnavailable, privateDetail: "the caller hung up") }
        guard try result.get() else {
            context.events.emit(.logoutToken(provider: name, result: "replayed"))
            throw BrokerProblem(.invalidRequest, privateDetail: "the logout token was used before")
        }
        context.events.emit(.logoutToken(provider: name, result: "accepted"))
    }

    /// Ends the sessions that a logout token names; false if the token was used before.
    private func consume(
        _ id: Digest, until: WallTime, ending selector: SessionSelector
    ) async -> Result<Bool, BrokerProblem> {
        var batches = 0
        var isReplayed = false
        var wasInDoubt = false
        let result = await EndSession(context).steps(.providerLogout) { now throws(StoreFailure) in
            let step: LogoutTokenResult
            do throws(StoreFailure) {
                step = try await context.store.consumeLogoutToken(
                    id, until: until, ending: selector, now: now, limit: EndSession.batch)
            } catch {
                if case .inDoubt = error { wasInDoubt = true }
                throw error
            }
            switch step {
            case .ended(let batch):
                batches += 1
                return batch
            case .replayed:
                // A logout token that was used before is a replay, except in two cases: this call has already ended a batch, so a
                // second copy of the token may have ended the rest; or a response was lost, so this call itself may have used the
                // token.
                isReplayed = batches == 0 && !wasInDoubt
                return EndedBatch(ended: [], more: false)
            }
        }
        return result.map { _ in !isReplayed }
    }
}
