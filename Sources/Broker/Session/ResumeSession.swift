/// Finds the session that a token opens: the hot path.
package struct ResumeSession: Sendable {
    let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns the live session of a token without sliding its idle time; throws `session_required` for a token that the
    /// broker never issued, `session_ended` with its reason, `store_unavailable` when nobody can know, and for a session that
    /// belongs to a key what is wrong with the evidence.
    ///
    /// The session is looked up first: a stranger cannot buy a signature check.
    package func resume(
        _ token: Secret, _ evidence: PresentedEvidence.Reading = { .none }, _ demand: EvidenceDemand = .any
    ) async throws(BrokerProblem) -> LiveSession {
        try await present(token, evidence, demand).session
    }

    /// The same with the end of the pass that opened it.
    ///
    /// `admits` says who may ask about the session at all, which comes first.
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

    /// Throws as `resume` does, but for a proof's signature, and takes no proof: for who wants to know whether the rest of a
    /// request is worth reading, and whose it is.
    ///
    /// - Returns: the session's row, and whether the request has shown that it may use the session: a proof has not yet.
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

    /// Reads the row of a session that was found, and returns the session as it stands in the store; a child's parent is not read.
    ///
    /// The cache forgets it only where it has changed: forgetting one makes all loads under way come to nothing.
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

    /// A session as it was found by itself: without its parent, where it is a child.
    private struct Found {
        let session: LiveSession
        /// The moment and the cache's state before it was read; nil for one that was cached.
        let read: (moment: Duration, generation: UInt64)?
    }

    private func alone(_ tokenDigest: Digest) async throws(BrokerProblem) -> Found {
        let moment = context.clock.monotonic()
        let cached = context.cache.lookUp(tokenDigest, at: moment)
        if let session = cached.session {
            RequestScope.concerns(session.row.handle)
            try checkLives(session.row)
            try checkIsConfigured(session.facts)
            return Found(session: underPresentSettings(session), read: nil)
        }
        let row = try await stored(tokenDigest)
        RequestScope.concerns(row.handle)
        return Found(session: try live(row), read: (moment, cached.generation))
    }

    /// Returns a session that was cached, with the binding that its client's settings give it now: a reload holds at once.
    private func underPresentSettings(_ session: LiveSession) -> LiveSession {
        guard session.facts.thumbprint != nil else { return session }
        let binding = context.providers.binding(of: session.facts)
        return binding == session.binding ? session : session.with(binding)
    }

    private func stored(_ tokenDigest: Digest) async throws(BrokerProblem) -> SessionRow {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(tokenDigest: tokenDigest) } catch {
            throw BrokerProblem(error)
        }
        guard let row else { throw BrokerProblem(.sessionRequired) }
        return row
    }

    /// Caches a session that was read, and returns it.
    private func keep(_ session: LiveSession, _ found: Found) -> LiveSession {
        if let read = found.read {
            context.cache.insert(session, loadedAt: read.moment, generation: read.generation)
        }
        return session
    }

    /// Returns a child with its parent: it is good only while its parent's row is, whatever its own says.
    ///
    /// The parent is read as ever, from the cache or the store: what ends it ends the child at the same moment on every
    /// replica. It is asked once: a row that says to be a child's child, or its own, has no parent.
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
            // It may come back with the next reload, and so the child stays.
            throw BrokerProblem(.clientNotAllowed, privateDetail: "children of this kind are not configured")
        }
        if let family = session.family, family.parent === parent, family.policy == policy { return session }
        return session.with(Family(parent: parent, policy: policy))
    }

    /// The same without providers: for who waits for days, and must not keep a configuration in memory that is gone.
    package var waiting: ResumeSession { ResumeSession(context.with(ProviderDirectory([]), context.settings)) }

    /// Throws as `resume` does when the session of a token digest is over or cannot be looked up; opens nothing and keeps
    /// nothing, for who waits for the end of many sessions.
    package func checkLives(_ tokenDigest: Digest) async throws(BrokerProblem) {
        _ = try await lapse(of: tokenDigest) { tokenDigest throws(BrokerProblem) in try await row(of: tokenDigest) }
    }

    /// Returns the time at which a session lapses if nobody uses it again, as the store has it and not the cache; throws as
    /// `checkLives`.
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
        if let known = context.cache.lookUp(tokenDigest, at: context.clock.monotonic()).session { return known.row }
        return try await stored(tokenDigest)
    }

    /// Returns the live session and slides its idle time: for what counts as use (relay, forward-auth, token exchange).
    package func use(
        _ token: Secret, _ evidence: PresentedEvidence.Reading = { .none }, _ demand: EvidenceDemand = .any,
        admits: (LiveSession) throws(BrokerProblem) -> Void = { _ in }
    ) async throws(BrokerProblem) -> LiveSession {
        let session = try await present(token, evidence, demand, admits: admits).session
        slide(session)
        return session
    }

    /// Slides the idle time of a live session, where enough of it has passed.
    ///
    /// A child's use is its parent's: whoever looks at a widget every day is not logged out for want of opening the app. A
    /// web page's is not, for its cookie is easier to steal.
    package func slide(_ session: LiveSession) {
        if let family = session.family, session.facts.child?.kind != .web { slide(family.parent) }
        let now = context.clock.now()
        let isDue = now >= session.slidesAt
        guard isDue || context.watch.wasDoubted else { return }
        // The request may have found it long ago: a session that has lapsed since then stays as it is.
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
                // The next use tries again; a slide that is missed once shortens nothing by more than 1 %.
                context.events.emit(.storeFailed(operation: "slide", detail: "\(error)"))
            }
        }
    }

    private func checkLives(_ row: SessionRow) throws(BrokerProblem) {
        if row.endedAt != nil { throw BrokerProblem(.sessionEnded, reason: row.endReason) }
        switch SessionStanding(row, context) {
        case .lives: break
        case .doubted: throw .clockDoubted
        case .lapsed(let reason):
            // Nothing is written: the sweeper buries it a day later, so that a clock that was wrong can be set right.
            context.cache.remove([row.tokenDigest])
            context.notices.post(.ended(reason), to: row.tokenDigest)
            throw BrokerProblem(.sessionEnded, reason: reason)
        }
    }

    private func live(_ row: SessionRow) throws(BrokerProblem) -> LiveSession {
        try checkLives(row)
        let facts: SessionFacts
        do {
            facts = try SessionFacts.open(row, context.vault)
        } catch { throw wasChanged(row, .session, error) }
        try checkIsConfigured(facts)
        return LiveSession(row: row.withoutFacts, facts: facts, binding: context.providers.binding(of: facts))
    }

    /// Nobody is logged out by a line that left the configuration.
    private func checkIsConfigured(_ facts: SessionFacts) throws(BrokerProblem) {
        guard context.providers.has(facts.provider, facts.client) else { throw .notConfigured }
    }

    /// Returns the problem of a sealed value of a row that does not open; one that somebody changed, or moved a ciphertext into
    /// (SEC-48), ends here.
    func wasChanged(_ row: SessionRow, _ kind: SealedKind, _ error: any Error) -> BrokerProblem {
        if let passing = BrokerProblem(opening: error) {
            context.events.emit(.rowDidNotOpen(kind: kind, unknownKey: true))
            return passing
        }
        context.events.emit(.rowDidNotOpen(kind: kind, unknownKey: false))
        end(row, .integrity)
        return BrokerProblem(.sessionEnded, reason: .integrity)
    }

    private func end(_ row: SessionRow, _ reason: EndReason) {
        let context = context
        context.cache.remove([row.tokenDigest])
        context.spawner.spawn("integrity") {
            // One that could not be written is found again at the next use.
            _ = try? await EndSession(context).end(.token(row.tokenDigest), reason: reason, handle: row.handle)
        }
    }
}

extension BrokerProblem {
    /// The same as a child's problem: what became of the parent is told of the child.
    var ofParent: BrokerProblem {
        switch code {
        case .sessionEnded, .sessionRequired: BrokerProblem(.sessionEnded, reason: .parentEnded)
        default: self
        }
    }
}

/// A live session whose request showed what it needs.
package struct PresentedSession: Sendable {
    package let session: LiveSession
    /// The end of the pass that the request showed; nil where it showed a proof, or needed nothing.
    package let passEndsAt: WallTime?
}
