import Broker

/// Imports of the refresh tokens that apps got themselves.
extension SimulatedProvider: TokenImporting {
    var spendsImportedTokens: Bool { true }

    func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault? { nil }

    func clientID(of client: ClientName) -> String { client.text }

    func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let isRefused =
            world.isFoul && weather.refusesNewTokens > 0 && scheduler.random.chance(weather.refusesNewTokens)
        guard !isRefused else { throw .identityRejected(detail: "401", refusesToken: true) }
        return try await identify(tokens, context, by: deadline)
    }

    func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        typealias Answer = Result<Int, ProviderFailure>
        guard let text = request.tokens.refreshToken?.reveal(), let (family, token) = authority.named(text) else {
            throw .rejected(OAuthError(status: 400, code: "invalid_request"))
        }
        func strikes(_ chance: Double) -> Bool { world.isFoul && scheduler.random.chance(chance) }
        let rest = rest(until: deadline)
        guard !process.isDead, rest > 0, !strikes(weather.notSent) else {
            world.noteTrouble()
            throw .notSent(detail: "no connection")
        }
        let call = Imports.Call(process, at: scheduler.now)
        world.imports.sends(call, of: text)
        let (process, authority, key) = (process, authority, request.idempotencyKey)
        let answer = process.promise(Answer.failure(.lost(detail: "the process died")))
        /// Gives the provider's answer to the process, unless the process is dead or has stopped waiting.
        func tell(_ said: Answer) {
            guard answer.value == nil, !process.isDead else { return }
            switch said {
            case .success: call.fate = .granted
            case .failure(.lost): call.fate = .lost
            case .failure(.rejected(let refusal)) where refusal.code == "invalid_grant": call.fate = .refused
            case .failure: call.fate = .unspent
            }
            answer.resolve(said)
        }
        let duration = duration()
        if world.answersEmpty {
            scheduler.after(duration) { tell(.failure(.rejected(OAuthError(status: 401, code: "")))) }
        } else if strikes(weather.retryable) {
            scheduler.after(duration) { tell(.failure(.retryable(status: 503, retryAfter: nil, detail: "503"))) }
        } else if strikes(weather.refusedClient) {
            scheduler.after(duration) { tell(.failure(.rejected(OAuthError(status: 401, code: "invalid_client")))) }
        } else if strikes(weather.lostBefore) {
            scheduler.after(duration) { tell(.failure(.lost(detail: "broken off"))) }
        } else {
            let loses = strikes(weather.lostAfter)
            let way = scheduler.random.number(0...duration)
            scheduler.after(way) { [scheduler] in
                // The process had already given up this call when it reached the provider.
                let isLate = answer.value != nil || process.isDead
                let done: Answer
                do throws(ProviderFailure) {
                    done = .success(try authority.refresh(family, token: token, key: key))
                } catch { done = .failure(error) }
                if isLate {
                    family.mishaps.append(.answerLost)
                    if family.death == .reuse { family.isReusedUnremembered = true }
                }
                scheduler.after(duration - way) { tell(loses ? .failure(.lost(detail: "broken off")) : done) }
            }
        }
        scheduler.after(rest) {
            process.whenAwake { tell(.failure(.lost(detail: "no whole answer in time"))) }
        }
        let fresh = try await answer.wait().get()
        return tokens(family, fresh, nil, by: process.certificate)
    }
}
