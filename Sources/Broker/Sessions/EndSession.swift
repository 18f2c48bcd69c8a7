/// Ends sessions in the broker, at once and unconditionally.
///
/// The calls to the provider that an ending requires are put into the outbox in the same write (SEC-62).
package struct EndSession: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Logs out the session of a token, if there is one.
    package func logOut(_ token: Secret) async throws(BrokerProblem) {
        guard Base64URL.isToken(token.reveal(), length: 43...43) else { return }
        // For a token that the broker never issued, this read is the only cost. If the read fails, the session is ended
        // anyway.
        let digest = context.vault.digest(token)
        let row: SessionRow??
        do throws(StoreFailure) { row = .some(try await context.store.session(tokenDigest: digest)) } catch {
            row = nil
        }
        if case .some(.none) = row { return }
        let handle = row.flatMap { $0?.handle }
        if let handle { RequestScope.concerns(handle) }
        try await end(.token(digest), reason: .loggedOut, handle: handle)
    }

    /// The longest time to wait for the address of the provider's log-out page.
    private static let pagePatience = Duration.seconds(2)

    /// Logs out the session of a token and returns the provider's log-out page for the user's browser.
    ///
    /// The page is returned only if the provider has one and this call itself ended a live session. The browser then ends the
    /// provider's session, so the background call to the provider is omitted (decision 13).
    ///
    /// The page may name the user. So the page of a session that belongs to a key is returned only with evidence.
    package func logOutInBrowser(
        _ token: Secret, _ evidence: PresentedEvidence.Reading = { .none }
    ) async throws(BrokerProblem) -> Secret? {
        guard let page = await page(of: token, evidence) else {
            try await logOut(token)
            return nil
        }
        return try await end(.token(context.vault.digest(token)), reason: .loggedOutInBrowser) == 1 ? page : nil
    }

    private func page(of token: Secret, _ evidence: PresentedEvidence.Reading) async -> Secret? {
        guard let session = try? await ResumeSession(context: context).resume(token, evidence),
            let sealed = session.row.tokens,
            let provider = context.providers[session.facts.provider] as? any SessionEnding,
            let bytes = try? context.vault.open(sealed, as: .tokens, row: session.tokenDigest),
            let stored = try? StoredTokens(record: bytes), let state = try? context.vault.randomToken()
        else { return nil }
        let clock = context.clock
        // A provider may hang while its metadata is fetched. After `pagePatience`, the user is logged out without the page.
        let found: Secret?? = await Detached.run("log-out page", on: context.spawner) {
            (answer: @escaping @Sendable (Secret?) -> Void) async -> Secret? in
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    do { try await clock.sleep(Self.pagePatience) } catch { return }
                    answer(nil)
                }
                let page = try? await provider.logOutPage(stored.tokens, client: stored.client, state: state)
                group.cancelAll()
                return page ?? nil
            }
        }
        return found ?? nil
    }

    /// Ends one of the owner's own sessions by its handle; throws `not_found` for another owner's session.
    package func end(handle: SessionHandle, ownedBy owner: LiveSession) async throws(BrokerProblem) {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(handle: handle) } catch {
            throw BrokerProblem(error)
        }
        guard let row, row.subject == owner.row.subject,
            row.tokenDigest == owner.tokenDigest || row.lineage?.parent == owner.tokenDigest
                || !owner.ownsItselfAlone(context)
        else { throw BrokerProblem(.notFound) }
        let reason: EndReason = row.tokenDigest == owner.tokenDigest ? .loggedOut : .loggedOutElsewhere
        try await end(.token(row.tokenDigest), reason: reason, handle: handle)
    }

    /// Ends all other sessions of the same user; the given session and its children stay.
    ///
    /// If several people share the subject (`own: device`), no session is ended.
    package func endOthers(of owner: LiveSession) async throws(BrokerProblem) {
        if owner.ownsItselfAlone(context) { return }
        try await end(.subjectExcept(owner.row.subject, current: owner.tokenDigest), reason: .loggedOutElsewhere)
    }

    /// The number of sessions that one step of an ending ends.
    ///
    /// Ending many sessions takes several steps, so that other callers of the store get their turn.
    static let batch = 200

    /// Ends the sessions of a selector, removes them from the cache and notifies their event streams; returns the number that
    /// ended.
    ///
    /// The call returns when every ending is on disk. If an ending could not be written there, the call throws
    /// `store_unavailable`, although the store may already refuse this session.
    ///
    /// If the caller hangs up, the work continues.
    @discardableResult
    func end(
        _ selector: SessionSelector, reason: EndReason, handle: SessionHandle? = nil
    ) async throws(BrokerProblem) -> Int {
        if case .token(let tokenDigest) = selector { context.cache.remove([tokenDigest]) }
        let work = self
        let result = await Detached.run("end", on: context.spawner) {
            await work.endAll(selector, reason, handle)
        }
        guard let result else { throw BrokerProblem(.storeUnavailable, privateDetail: "the caller hung up") }
        return try result.get()
    }

    private func endAll(
        _ selector: SessionSelector, _ reason: EndReason, _ handle: SessionHandle?
    ) async -> Result<Int, BrokerProblem> {
        await steps(reason, handle: handle) { now throws(StoreFailure) in
            try await context.store.endSessions(selector, reason: reason, now: now, limit: Self.batch)
        }
    }

    /// Repeats `step`, which ends one batch of the selected sessions, until no session is left, and announces the ended sessions.
    ///
    /// If the store's response to a step is lost, the step is repeated one time.
    func steps(
        _ reason: EndReason, handle: SessionHandle? = nil, _ step: (WallTime) async throws(StoreFailure) -> EndedBatch
    ) async -> Result<Int, BrokerProblem> {
        var count = 0
        var isWritten = true
        var isInDoubt = false
        while true {
            let result: Result<EndedBatch, StoreFailure>
            do throws(StoreFailure) { result = .success(try await step(context.clock.now())) } catch {
                context.events.emit(.storeFailed(operation: "endSessions", detail: "\(error)"))
                if case .inDoubt = error, !isInDoubt {
                    isInDoubt = true
                    continue
                }
                result = .failure(error)
            }
            if isInDoubt {
                // The repeated step does not name the sessions that the first attempt ended. They may still be cached, so clear
                // the cache.
                context.cache.clear()
                context.notices.doubtAll()
                isInDoubt = false
            }
            let batch: EndedBatch
            do throws(StoreFailure) { batch = try result.get() } catch { return .failure(BrokerProblem(error)) }
            announce(batch.ended, reason, handle)
            count += batch.ended.count
            if !batch.isWritten, isWritten {
                context.events.emit(
                    .storeFailed(
                        operation: "endSessions",
                        detail: "some endings are not on disk yet; check the disk's free space"))
            }
            // If the endings of this batch are not on disk yet, go on with the remaining sessions. The caller then gets an
            // error at the end.
            isWritten = isWritten && batch.isWritten
            guard !batch.more else { continue }
            guard isWritten else {
                return .failure(
                    BrokerProblem(
                        .storeUnavailable, privateDetail: "some endings are not on disk yet", retryAfter: .seconds(2)))
            }
            return .success(count)
        }
    }

    /// Announces endings, each with its reason.
    func announce(_ ended: [EndedSession]) {
        for (reason, sessions) in Dictionary(grouping: ended, by: \.reason) {
            announce(sessions.map(\.tokenDigest), reason)
        }
    }

    /// Announces endings in this process, after they have been stored.
    ///
    /// `handle` is the handle of the session if there is only one and its handle is known.
    func announce(_ ended: [Digest], _ reason: EndReason, _ handle: SessionHandle? = nil) {
        guard !ended.isEmpty else { return }
        context.cache.remove(ended)
        for tokenDigest in ended { context.notices.post(.ended(reason.shown), to: tokenDigest) }
        context.events.emit(.sessionEnded(reason: reason.shown, count: ended.count, session: handle))
    }
}
