/// Ends sessions: first here, unconditionally; what the provider has to be told goes to the outbox in the same write
/// (SEC-62).
package struct EndSession: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Logs out the session of a token; nothing happens when there is none.
    package func logOut(_ token: Secret) async throws(BrokerProblem) {
        guard Base64URL.isToken(token.reveal(), length: 43...43) else { return }
        // A token that nobody was given costs a read, not a write; while nobody can know, it is ended all the same.
        if case .some(.none) = try? await context.store.session(token: context.vault.digest(token)) { return }
        try await end(.token(context.vault.digest(token)), reason: .loggedOut)
    }

    /// Ends one of the owner's own sessions by its handle; another's is `not_found`.
    package func end(handle: SessionHandle, ownedBy owner: LiveSession) async throws(BrokerProblem) {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(handle: handle) } catch {
            throw BrokerProblem(error)
        }
        guard let row, row.subject == owner.row.subject else { throw BrokerProblem(.notFound) }
        let reason: EndReason = row.token == owner.token ? .loggedOut : .loggedOutElsewhere
        try await end(.token(row.token), reason: reason)
    }

    /// Ends all of the owner's sessions but this one.
    package func endOthers(of owner: LiveSession) async throws(BrokerProblem) {
        try await end(.subjectExcept(owner.row.subject, current: owner.token), reason: .loggedOutElsewhere)
    }

    /// Ends what a selector names, forgets it in the cache and tells the listeners; returns how many ended.
    @discardableResult
    func end(_ selector: SessionSelector, reason: EndReason) async throws(BrokerProblem) -> Int {
        if case .token(let token) = selector { context.cache.remove([token]) }
        let ended: [Digest]
        do throws(StoreFailure) {
            ended = try await context.store.endSessions(selector, reason: reason, now: context.clock.now())
        } catch { throw BrokerProblem(error) }
        announce(ended, reason)
        return ended.count
    }

    /// Makes an ending that is already written known in this process.
    func announce(_ ended: [Digest], _ reason: EndReason) {
        guard !ended.isEmpty else { return }
        context.cache.remove(ended)
        for token in ended { context.notices.post(.ended(reason), to: token) }
        context.events.emit(.sessionEnded(reason: reason, count: ended.count))
    }
}
