/// The check of a refreshed id_token's subject (SEC-59).
extension RefreshFlight {
    /// Checks the subject of a refreshed id_token.
    ///
    /// The id_token came with this flight's answer, or another process stored it unchecked.
    ///
    /// An id_token for another subject ends the session. An id_token that only fails verification loses its claims.
    func checkSubject(_ work: inout Work) async -> RefreshStateMachine.Input {
        guard let session = work.found.live, let provider = session.provider else { return .subjectChecked(.same) }
        let (row, stored) = (session.row, session.stored)
        var fresh: TokenSet?
        if case .tokens(let tokens, _, _) = work.answer { fresh = tokens }
        guard let idToken = fresh == nil ? stored.uncheckedIDToken : fresh?.idToken else {
            return .subjectChecked(.same)
        }
        let facts: SessionFacts
        do { facts = try SessionFacts.open(row, context.vault) } catch {
            // A replica sealed the facts with a newer key, so the subject to compare is unknown here.
            return .subjectChecked(BrokerProblem(opening: error) == nil ? .same : .unknown)
        }
        var tokens = fresh ?? stored.tokens
        tokens.idToken = idToken
        // The id_token came with another API's access token, and contains the hash of that token. So leave the session's own
        // access token out of the check.
        if fresh == nil, stored.accessVersion != nil { tokens.accessToken = Secret("") }
        let version = fresh == nil ? row.tokenVersion : row.tokenVersion + 1
        work.answer = nil
        do throws(ProviderFailure) {
            let found = try await provider.subjectOfRefreshed(tokens, before: stored.tokens, client: stored.client)
            if isAnother(found, than: facts.subject, in: session) { return .subjectChecked(.another) }
        } catch {
            work.failures.append(Failed(failure: error, call: .plain))
            return .subjectChecked(.unknown)
        }
        do throws(StoreFailure) {
            try await context.store.markSubjectChecked(tokenDigest: self.session, tokenVersion: version)
            context.cache.remove([self.session])
        } catch {
            claim.failed("markSubjectChecked", error)
            // If the store has no mark that the subject was checked, the next read finds no token for this goal. The flight would
            // then fetch a token repeatedly.
            if goal.needsSubjectMark { return .subjectChecked(.unknown) }
        }
        return .subjectChecked(.same)
    }

    private func isAnother(_ found: RefreshedSubject, than subject: String, in session: OpenSession) -> Bool {
        switch found {
        case .subject(let name): return !name.hasBytes(of: subject)
        case .foreign: return true
        case .absent: return false
        case .unverifiable(_, let name?) where !name.hasBytes(of: subject): return true
        case .unverifiable(let detail, _):
            context.events.emit(
                .refreshedTokenUnverified(
                    provider: session.stored.provider, client: session.stored.client, session: session.row.handle,
                    detail: detail))
            return false
        }
    }
}
