/// Keeps a session's tokens fresh: one refresh serves everyone, over any number of replicas (guarantee 2), and nobody is
/// logged out by a passing fault (guarantee 3).
package struct RefreshTokens: Sendable {
    private let context: BrokerContext
    private let memory: RefreshMemory

    package init(_ context: BrokerContext, memory: RefreshMemory) {
        self.context = context
        self.memory = memory
    }

    /// Returns an access token that still has time, refreshing it first when it does not.
    package func accessToken(for session: LiveSession) async throws(BrokerProblem) -> AccessToken {
        let stored = try open(session.row)
        let now = context.clock.now()
        if isFresh(stored, session.row, at: now) { return token(stored, session.row) }
        guard session.row.refreshable else {
            // Nothing can be done about it; while its end is unknown or not reached it is as good as any.
            return token(stored, session.row)
        }
        if isUsable(stored, at: now) {
            // It still lives: refresh beside, and let nobody wait for a slow provider.
            refreshBeside(session)
            return token(stored, session.row)
        }
        return try await refresh(session, .expiring)
    }

    /// Returns a newer access token than `version`, which an upstream has refused.
    package func accessToken(
        for session: LiveSession, newerThan version: Int64
    ) async throws(BrokerProblem) -> AccessToken {
        try await refresh(session, .forced(fromVersion: version))
    }

    /// Refreshes now because the app asks (`POST /v1/session/refresh`).
    package func refreshNow(_ session: LiveSession) async throws(BrokerProblem) -> SessionView {
        _ = try await refresh(session, .forced(fromVersion: session.row.tokenVersion))
        return try await ResumeSession(context).resume(session.token).view
    }

    private func refreshBeside(_ session: LiveSession) {
        guard memory.begin(session.token, at: context.clock.monotonic()) else { return }
        let flight = RefreshFlight(context: context, memory: memory, session: session.token, need: .expiring)
        let memory = memory
        context.spawner.spawn("refresh") {
            _ = await flight.run()
            memory.finish(session.token)
        }
    }

    private func refresh(
        _ session: LiveSession, _ need: RefreshStateMachine.Need
    ) async throws(BrokerProblem) -> AccessToken {
        if let wait = memory.backOff(session.token, at: context.clock.monotonic()) {
            throw BrokerProblem(.providerUnavailable, privateDetail: "backing off", retryAfter: wait)
        }
        let flight = RefreshFlight(context: context, memory: memory, session: session.token, need: need)
        guard let result = await Detached.run("refresh", on: context.spawner, { await flight.run() }) else {
            throw BrokerProblem(.providerUnavailable, privateDetail: "the caller hung up", retryAfter: .seconds(1))
        }
        let row = try result.get()
        return token(try open(row), row)
    }

    private func token(_ stored: StoredTokens, _ row: SessionRow) -> AccessToken {
        AccessToken(
            token: stored.tokens.accessToken, credential: stored.tokens.credential,
            expiresAt: stored.tokens.expiresAt, scope: stored.tokens.scope ?? [], version: row.tokenVersion,
            issuedAt: stored.issuedAt)
    }

    private func open(_ row: SessionRow) throws(BrokerProblem) -> StoredTokens {
        try StoredTokens.open(row, context)
    }

    private func isFresh(_ stored: StoredTokens, _ row: SessionRow, at now: WallTime) -> Bool {
        RefreshTiming.isFresh(stored, row.token, margin: context.settings.refreshMargin, at: now)
    }

    private func isUsable(_ stored: StoredTokens, at now: WallTime) -> Bool {
        RefreshTiming.isUsable(stored, at: now)
    }
}

extension StoredTokens {
    /// Opens a session row's tokens; throws `session_ended` for a tombstone.
    static func open(_ row: SessionRow, _ context: BrokerContext) throws(BrokerProblem) -> StoredTokens {
        guard let sealed = row.tokens else { throw BrokerProblem(.sessionEnded, reason: row.endReason) }
        do {
            return try StoredTokens(record: try context.vault.open(sealed, as: .tokens, row: row.token))
        } catch VaultFailure.unknownKey(let id) {
            throw BrokerProblem(VaultFailure.unknownKey(id))
        } catch {
            context.events.emit(.rowDidNotOpen(kind: .tokens, unknownKey: false))
            let context = context
            context.spawner.spawn("integrity") {
                _ = try? await EndSession(context).end(.token(row.token), reason: .integrity)
            }
            throw BrokerProblem(.sessionEnded, reason: .integrity)
        }
    }
}
