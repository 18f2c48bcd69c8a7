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
        guard let row, row.subject == owner.row.subject, row.token == owner.token || !owner.ownsItselfAlone(context)
        else { throw BrokerProblem(.notFound) }
        let reason: EndReason = row.token == owner.token ? .loggedOut : .loggedOutElsewhere
        try await end(.token(row.token), reason: reason)
    }

    /// Ends all of the owner's sessions but this one.
    package func endOthers(of owner: LiveSession) async throws(BrokerProblem) {
        if owner.ownsItselfAlone(context) { return }
        try await end(.subjectExcept(owner.row.subject, current: owner.token), reason: .loggedOutElsewhere)
    }

    /// How many sessions one step ends; the next goes on, so that ending all does not hold up the others.
    static let batch = 200

    /// Ends what a selector names, forgets it in the cache and tells the listeners; returns how many ended.
    ///
    /// It returns when all of it is on disk. Otherwise it throws `store_unavailable`, and where the store can, the
    /// sessions are refused from now on all the same. A caller who hangs up does not break it off.
    @discardableResult
    func end(_ selector: SessionSelector, reason: EndReason) async throws(BrokerProblem) -> Int {
        if case .token(let token) = selector { context.cache.remove([token]) }
        let work = self
        let result = await Detached.run("end", on: context.spawner) { await work.endAll(selector, reason) }
        guard let result else { throw BrokerProblem(.storeUnavailable, privateDetail: "the caller hung up") }
        return try result.get()
    }

    private func endAll(_ selector: SessionSelector, _ reason: EndReason) async -> Result<Int, BrokerProblem> {
        await steps(reason) { now throws(StoreFailure) in
            try await context.store.endSessions(selector, reason: reason, now: now, limit: Self.batch)
        }
    }

    /// Repeats a step of ending until there is no more, and makes known what each one ended.
    func steps(
        _ reason: EndReason, _ step: (WallTime) async throws(StoreFailure) -> EndedBatch
    ) async -> Result<Int, BrokerProblem> {
        var count = 0
        while true {
            let batch: EndedBatch
            do throws(StoreFailure) { batch = try await step(context.clock.now()) } catch {
                context.events.emit(.storeFailed(operation: "endSessions", detail: "\(error)"))
                return .failure(BrokerProblem(error))
            }
            announce(batch.ended, reason)
            count += batch.ended.count
            guard batch.isWritten else {
                context.events.emit(.storeFailed(operation: "endSessions", detail: "not written yet"))
                return .failure(
                    BrokerProblem(
                        .storeUnavailable, privateDetail: "an ending waits for the disk", retryAfter: .seconds(2)))
            }
            if !batch.more { return .success(count) }
        }
    }

    /// Makes endings of several reasons known.
    func announce(_ ended: [EndedSession]) {
        for (reason, sessions) in Dictionary(grouping: ended, by: \.reason) { announce(sessions.map(\.token), reason) }
    }

    /// Makes an ending that is already written known in this process.
    func announce(_ ended: [Digest], _ reason: EndReason) {
        guard !ended.isEmpty else { return }
        context.cache.remove(ended)
        for token in ended { context.notices.post(.ended(reason), to: token) }
        context.events.emit(.sessionEnded(reason: reason, count: ended.count))
    }
}
