/// Fetches a session's access tokens for APIs other than its own, on demand and under the session's one refresh claim
/// (guarantee 2).
package struct FetchTargetToken: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns the stored access token for a target, or a new one if the stored token is missing or expires too soon.
    ///
    /// `refused` is an access token that an `upstream` has refused. The result is then a newer token.
    ///
    /// A child uses its parent's tokens. For a child, a refused token that is less than a minute old is not replaced.
    ///
    /// Throws `provider_error` if the provider refuses the target; the session lives on. Throws `not_refreshable` if the session
    /// has no token to present to the provider, or if the upstream refuses every newer token.
    package func accessToken(
        for given: LiveSession, at target: TokenTarget, insteadOf refused: AccessToken? = nil, by upstream: String = ""
    ) async throws(BrokerProblem) -> AccessToken {
        let session = given.tokenHolder
        guard session.hasTokens else {
            throw BrokerProblem(
                .notRefreshable,
                privateDetail: "the session was made from an id_token, so it has no tokens for another API")
        }
        let wanted = WantedTarget(
            target: target, key: target.key(of: session.tokenDigest, context.vault))
        do throws(BrokerProblem) {
            guard let refused else { return try await token(session, wanted, .expiring) }
            return try await newer(than: refused, for: given, wanted, by: upstream)
        } catch { throw given.hears(error) }
    }

    private func newer(
        than refused: AccessToken, for given: LiveSession, _ wanted: WantedTarget, by upstream: String
    ) async throws(BrokerProblem) -> AccessToken {
        let session = given.tokenHolder
        guard given.facts.child != nil, RefreshTiming.isYoung(refused, at: context.clock.now()) else {
            return try await token(session, wanted, .forced(fromVersion: refused.version), for: .upstream(upstream))
        }
        let standing = try await token(session, wanted, .expiring)
        // A refresh in progress may return a token that is older than the refused one.
        guard standing.version > refused.version else {
            throw BrokerProblem(
                .notRefreshable,
                privateDetail:
                    "an upstream refused a child's token that is less than a minute old, so no refresh is forced")
        }
        return standing
    }

    private func token(
        _ session: LiveSession, _ wanted: WantedTarget, _ need: RefreshStateMachine.Need,
        for asker: ForcedRefreshes.Asker? = nil
    ) async throws(BrokerProblem) -> AccessToken {
        // Tokens are used only after their subject was checked (SEC-59).
        let kept = session.row.subjectUnchecked ? nil : try await kept(session, wanted)
        if let kept, isServed(by: kept, session, need) {
            noteUse(of: kept)
            return kept.access
        }
        let caller = RefreshCaller(context: context, session: session, goal: wanted.goal, need: need, asker: asker)
        guard caller.mayForce else {
            throw BrokerProblem(
                .notRefreshable,
                privateDetail: "the upstream keeps refusing newer tokens, so no refresh is forced; check the upstream")
        }
        // If the stored token is about to expire but still valid, return it at once, and fetch the next token in the
        // background.
        if need == .expiring, let kept, isUsable(kept, session) {
            caller.refreshBeside()
            return kept.access
        }
        return try await caller.token()
    }

    private func kept(_ session: LiveSession, _ wanted: WantedTarget) async throws(BrokerProblem) -> KeptTargetToken? {
        do throws(StoreFailure) {
            return try await context.store.targetToken(wanted.key, of: session.tokenDigest)
                .flatMap { KeptTargetToken($0, context) }
        } catch { throw BrokerProblem(error) }
    }

    private func isShown(_ access: AccessToken, _ session: LiveSession) -> Bool {
        context.shows(access.certificate, session.facts.provider, session.facts.client)
    }

    private func isServed(by kept: KeptTargetToken, _ session: LiveSession, _ need: RefreshStateMachine.Need) -> Bool {
        let (access, now) = (kept.access, context.clock.now())
        guard isShown(access, session) else { return false }
        switch need {
        case .expiring:
            return RefreshTiming.isFresh(
                access, session.tokenDigest, margin: context.settings.refreshMargin, at: now)
        case .forced(let from): return access.version > from && RefreshTiming.isUsable(access, at: now)
        }
    }

    /// Notes in the background that a token is used, at most once a minute.
    ///
    /// The noted time decides which token is dropped when a session gets a ninth token.
    private func noteUse(of kept: KeptTargetToken) {
        let now = context.clock.now()
        guard now.since(kept.row.usedAt) >= TargetMemory.noting, context.may(.writeUse),
            context.memory.targets.notes(kept.row.key, at: context.clock.monotonic())
        else { return }
        let context = context
        context.spawner.spawn("useAudience") {
            do throws(StoreFailure) { try await context.store.useTargetToken(kept.row.key, at: now) } catch {
                // The next use of the token writes its time again.
                context.events.emit(.storeFailed(operation: "useAudience", detail: "\(error)"))
            }
        }
    }

    private func isUsable(_ kept: KeptTargetToken, _ session: LiveSession) -> Bool {
        isShown(kept.access, session) && RefreshTiming.isUsable(kept.access, at: context.clock.now())
    }
}
