/// Finds the session that a token opens.
///
/// Every authenticated request calls this type, so it has to be fast.
package struct ResumeSession: Sendable {
    let context: BrokerContext

    /// Returns the live session of a token; its idle time stays unchanged.
    ///
    /// Throws `session_required` for an unknown token, `session_ended` with its reason, and `store_unavailable` if the store
    /// fails. For a session that belongs to a key, the faults of the evidence are thrown too.
    ///
    /// The session is looked up before the evidence is checked, so a caller without a session token cannot cause a signature
    /// check.
    package func resume(
        _ token: Secret, _ evidence: PresentedEvidence.Reading = { .none }, _ demand: EvidenceDemand = .any
    ) async throws(BrokerProblem) -> LiveSession {
        try await present(token, evidence, demand).session
    }

    /// Returns the live session as `resume` does, with the end of the pass that the request showed.
    ///
    /// `admits` is called before the evidence is checked. It throws if the caller has no right to ask about the session.
    package func present(
        _ token: Secret, _ evidence: PresentedEvidence.Reading, _ demand: EvidenceDemand = .any,
        admits: (LiveSession) throws(BrokerProblem) -> Void = { _ in }
    ) async throws(BrokerProblem) -> PresentedSession {
        let session = try await live(token)
        try admits(session)
        guard let binding = session.binding else { return PresentedSession(session: session, passEndsAt: nil) }
        let passEndsAt = try await EvidenceCheck(context: context).check(
            evidence, for: session, binding, token: token, demand)
        return PresentedSession(session: session, passEndsAt: passEndsAt)
    }

    /// Checks a request as `present` does, but leaves a proof's signature unchecked and the proof unused.
    ///
    /// Callers use this to decide whether to read the rest of a request, and to know its session.
    ///
    /// - Returns: the session's row, and whether the request has already shown that it may use the session. For a proof this is
    ///   false, because its signature is still unchecked.
    package func look(
        _ token: Secret, _ evidence: PresentedEvidence.Reading,
        admits: (LiveSession) throws(BrokerProblem) -> Void = { _ in }
    ) async throws(BrokerProblem) -> (row: SessionRow, isProven: Bool) {
        let session = try await live(token)
        try admits(session)
        guard let binding = session.binding else { return (session.row, true) }
        let isProven = try EvidenceCheck(context: context).look(
            evidence, for: session, binding, token: token)
        return (session.row, isProven)
    }

    private func live(_ token: Secret) async throws(BrokerProblem) -> LiveSession {
        guard Base64URL.isToken(token.reveal(), length: 43...43) else { throw BrokerProblem(.sessionRequired) }
        return try await resume(context.vault.digest(token))
    }

    /// Returns the live session of a token digest.
    package func resume(_ tokenDigest: Digest) async throws(BrokerProblem) -> LiveSession {
        let found = try await alone(tokenDigest)
        guard let child = found.session.facts.child else { return keep(found.session, found) }
        return keep(try await behindParent(found.session, child), found)
    }

    /// Reads the row of a known session again, and returns the session as it is now in the store.
    ///
    /// A child's parent is not read. Each removal from the cache also keeps the results of all loads in progress out of the
    /// cache. Therefore the session is removed only if its row has changed.
    func reread(_ known: LiveSession) async throws(BrokerProblem) -> LiveSession {
        do throws(BrokerProblem) {
            let row = try await stored(known.tokenDigest)
            let latest = try live(row)
            if row.version == known.row.version, row.tokenVersion == known.row.tokenVersion,
                row.tokens == known.row.tokens, row.presence == known.row.presence,
                latest.facts.record == known.facts.record
            {
                return known
            }
            context.cache.remove([known.tokenDigest])
            return latest
        } catch {
            if error.code == .sessionEnded || error.code == .sessionRequired {
                context.cache.remove([known.tokenDigest])
            }
            throw error
        }
    }

    /// A session as the cache or the store returned it.
    ///
    /// A child is still without its parent, which `behindParent` adds.
    private struct Found {
        let session: LiveSession
        /// The moment and the cache's generation before the row was read; nil for a cached session.
        let read: (moment: Duration, generation: UInt64)?
    }

    private func alone(_ tokenDigest: Digest) async throws(BrokerProblem) -> Found {
        let moment = context.clock.monotonic()
        let cached = context.cache.lookUp(tokenDigest, at: moment)
        if let session = cached.session, isAlive(session.row) {
            RequestScope.concerns(session.row.handle)
            guard context.providers.has(session.facts.provider, session.facts.client) else { throw .notConfigured }
            guard session.facts.thumbprint != nil else { return Found(session: session, read: nil) }
            // The client's present settings decide the binding, so that a reload applies at once.
            let binding = context.providers.binding(of: session.facts)
            return Found(session: binding == session.binding ? session : session.with(binding), read: nil)
        }
        let row = try await stored(tokenDigest)
        RequestScope.concerns(row.handle)
        return Found(session: try live(row), read: (moment, cached.generation))
    }

    private func stored(_ tokenDigest: Digest) async throws(BrokerProblem) -> SessionRow {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(tokenDigest: tokenDigest) } catch {
            throw BrokerProblem(error)
        }
        guard let row else { throw BrokerProblem(.sessionRequired) }
        return row
    }

    /// Puts a session into the cache if it was read from the store, and returns it.
    private func keep(_ session: LiveSession, _ found: Found) -> LiveSession {
        if let read = found.read {
            context.cache.insert(session, loadedAt: read.moment, generation: read.generation)
        }
        return session
    }

    /// Returns a child with its parent, because a child can be used only while its parent is alive.
    ///
    /// The parent is read from the cache or the store like any session. Therefore a replica refuses the child as soon as it
    /// refuses the parent. Only one level is read, so a parent that is itself a child is rejected.
    private func behindParent(_ session: LiveSession, _ child: ChildFacts) async throws(BrokerProblem) -> LiveSession {
        let parent: LiveSession
        do throws(BrokerProblem) {
            let found = try await alone(child.parent)
            guard found.session.facts.child == nil else { throw BrokerProblem(.sessionRequired) }
            parent = keep(found.session, found)
        } catch {
            RequestScope.concerns(session.row.handle)
            throw error.ofParent
        }
        RequestScope.concerns(session.row.handle)
        guard let policy = context.providers.policy(of: child, session.facts) else {
            // The next reload may configure the kind again, so refuse the request and keep the child.
            throw BrokerProblem(.clientNotAllowed, privateDetail: "the client's `children` no longer have this kind")
        }
        if let family = session.family, family.parent === parent, family.policy == policy { return session }
        return session.with(Family(parent: parent, policy: policy))
    }

    /// A copy of this type for waits that last for days.
    ///
    /// The copy leaves the providers out, because otherwise the wait would keep a replaced configuration in memory.
    package var waiting: ResumeSession { ResumeSession(context: context.with(ProviderDirectory([]), context.settings)) }

    /// Throws as `resume` does if the session of a token digest is over or cannot be read.
    ///
    /// The callers only wait for the ends of many sessions. So the sealed facts stay sealed, and a row from the store is left
    /// out of the cache.
    package func checkLives(_ tokenDigest: Digest) async throws(BrokerProblem) {
        _ = try await lapse(of: tokenDigest) { tokenDigest throws(BrokerProblem) in try await row(of: tokenDigest) }
    }

    /// Returns the time when a session lapses if it is not used again.
    ///
    /// The cache is bypassed. Throws as `checkLives` does.
    func storedLapse(of tokenDigest: Digest) async throws(BrokerProblem) -> WallTime {
        try await lapse(of: tokenDigest) { tokenDigest throws(BrokerProblem) in try await stored(tokenDigest) }
    }

    private func lapse(
        of tokenDigest: Digest, _ read: (Digest) async throws(BrokerProblem) -> SessionRow
    ) async throws(BrokerProblem) -> WallTime {
        let row = try await read(tokenDigest)
        try checkLives(row)
        guard let parent = row.lineage?.parent else { return row.lapsesAt }
        do throws(BrokerProblem) {
            let whose = try await read(parent)
            guard whose.lineage == nil else { throw BrokerProblem(.sessionRequired) }
            try checkLives(whose)
            return min(row.lapsesAt, whose.lapsesAt)
        } catch { throw error.ofParent }
    }

    private func row(of tokenDigest: Digest) async throws(BrokerProblem) -> SessionRow {
        let known = context.cache.lookUp(tokenDigest, at: context.clock.monotonic()).session
        if let known, isAlive(known.row) { return known.row }
        return try await stored(tokenDigest)
    }

    /// Returns the live session and slides its idle time, for requests that count as use (relay, forward-auth, token exchange).
    package func use(
        _ token: Secret, _ evidence: PresentedEvidence.Reading = { .none }, _ demand: EvidenceDemand = .any,
        admits: (LiveSession) throws(BrokerProblem) -> Void = { _ in }
    ) async throws(BrokerProblem) -> LiveSession {
        let session = try await present(token, evidence, demand, admits: admits).session
        slide(session)
        return session
    }

    /// Moves the idle end of a live session if enough of the idle time has passed.
    ///
    /// A use of a child also counts for its parent. So a daily use of a widget keeps the user signed in, even if the app
    /// itself stays closed. A use by a web page does not count, because a page's cookie is easier to steal.
    package func slide(_ session: LiveSession) {
        if let family = session.family, session.facts.child?.kind != .web { slide(family.parent) }
        let now = context.clock.now()
        let isDue = now >= session.slidesAt
        guard isDue || context.watch.wasDoubted else { return }
        // The request may have found the session long ago, so check again. A session that has lapsed since then stays lapsed.
        guard session.row.endedAt == nil, SessionStanding(session.row, context) == .lives else { return }
        if !context.may(.concludeLapse) { context.keepUse(of: session) }
        guard isDue, context.may(.writeUse) else { return }
        let aliveAt = context.aliveTime(session.row)
        let idleEnd = SessionLimits.idleEnd(usedAt: now, created: session.row.createdAt, session.facts.lifetimes)
        context.cache.update(session.tokenDigest) { row in
            guard aliveAt < min(row.idleExpiresAt, row.expiresAt) else { return }
            row.lastUsedAt = max(row.lastUsedAt, now)
            row.idleExpiresAt = max(row.idleExpiresAt, idleEnd)
        }
        let context = context
        context.spawner.spawn("slide") {
            do {
                try await context.store.slideSession(
                    tokenDigest: session.tokenDigest, lastUsedAt: now, idleExpiresAt: idleEnd, aliveAt: aliveAt)
            } catch {
                // The next use tries the write again. Without another use, the session ends too early, by at most 1 % of its
                // idle time or one second, whichever is more.
                context.events.emit(.storeFailed(operation: "slide", detail: "\(error)"))
            }
        }
    }

    /// Returns whether a cached row shows that its session is alive.
    ///
    /// Another replica may have moved the idle end since this process cached the row. So only the store can show that a
    /// session has lapsed (guarantee 3).
    private func isAlive(_ row: SessionRow) -> Bool {
        row.endedAt == nil && SessionStanding(row, context) == .lives
    }

    private func checkLives(_ row: SessionRow) throws(BrokerProblem) {
        if row.endedAt != nil { throw BrokerProblem(.sessionEnded, with: .ended(row.endReason)) }
        switch SessionStanding(row, context) {
        case .lives: break
        case .doubted: throw .clockDoubted
        case .lapsed(let reason):
            // Leave the row unchanged. The sweeper buries the session a day later. Until then, an operator can correct a
            // wrong clock.
            context.cache.remove([row.tokenDigest])
            context.notices.post(.ended(reason), to: row.tokenDigest)
            throw BrokerProblem(.sessionEnded, with: .ended(reason))
        }
    }

    private func live(_ row: SessionRow) throws(BrokerProblem) -> LiveSession {
        try checkLives(row)
        let facts: SessionFacts
        do {
            facts = try SessionFacts.open(row, context.vault)
        } catch { throw wasChanged(row, .session, error) }
        // The session is kept even if its provider or client has left the configuration (guarantee 3).
        guard context.providers.has(facts.provider, facts.client) else { throw .notConfigured }
        return LiveSession(row: row.withoutFacts, facts: facts, binding: context.providers.binding(of: facts))
    }

    /// Handles a sealed value of a session that failed to open, and returns the problem for the caller.
    ///
    /// The failure may be temporary, for example because the ring lacks the key. A permanent failure means that the row was
    /// changed or got another row's ciphertext (SEC-48), so the session ends.
    func wasChanged(_ row: SessionRow, _ kind: SealedKind, _ error: any Error) -> BrokerProblem {
        if let passing = BrokerProblem(opening: error) {
            context.events.emit(.rowDidNotOpen(kind: kind, unknownKey: true))
            return passing
        }
        context.events.emit(.rowDidNotOpen(kind: kind, unknownKey: false))
        end(row, .integrity)
        return BrokerProblem(.sessionEnded, with: .ended(.integrity))
    }

    private func end(_ row: SessionRow, _ reason: EndReason) {
        let context = context
        context.cache.remove([row.tokenDigest])
        context.spawner.spawn("integrity") {
            // If this write fails, the next use of the session finds again that the row fails to open, and repeats the write.
            _ = try? await EndSession(context).end(.token(row.tokenDigest), reason: reason, handle: row.handle)
        }
    }
}

extension BrokerProblem {
    /// The problem of a child whose parent has this problem.
    var ofParent: BrokerProblem {
        switch code {
        case .sessionEnded, .sessionRequired: BrokerProblem(.sessionEnded, with: .ended(.parentEnded))
        default: self
        }
    }
}
