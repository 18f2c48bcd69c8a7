/// Stores the sessions of another Coatcheck's export, sealed with this store's keys (decision 100).
package struct SessionImport: Sendable {
    private let context: BrokerContext
    private let store: any StoreAdministration

    package init(_ context: BrokerContext, _ store: any StoreAdministration) {
        self.context = context
        self.store = store
    }

    /// The reason why a session is skipped, in words for the operator.
    package enum Refusal: String, Sendable, CaseIterable {
        case exists = "the store has this session already"
        case provider = "the configuration lacks its provider"
        case client = "the configuration lacks its client"
        case expired = "it has expired"
    }

    /// Writes the audit record of an import.
    package func begin(actor: String) async throws(BrokerProblem) {
        try context.requireRing()
        try await AdminSessions(context).audit("import_sessions", target: "store", actor: actor)
    }

    /// Stores sessions in one transaction; returns the refusal of each, or nil if it was stored.
    package func take(_ sessions: [ExportedSession]) async throws(BrokerProblem) -> [Refusal?] {
        var refusals: [Refusal?] = []
        var rows: [StoredRow] = []
        var taken: Set<Digest> = []
        var handles: Set<SessionHandle> = []
        for session in sessions {
            let refusal: Refusal?
            if let found = try await self.refusal(of: session) {
                refusal = found
            } else if taken.contains(session.tokenDigest) || handles.contains(session.handle) {
                refusal = .exists
            } else {
                refusal = nil
                taken.insert(session.tokenDigest)
                handles.insert(session.handle)
                do throws(VaultFailure) { rows.append(.session(try row(of: session), RefreshMarks())) } catch {
                    throw BrokerProblem(error)
                }
            }
            refusals.append(refusal)
        }
        guard !rows.isEmpty else { return refusals }
        do throws(StoreFailure) { try await store.insert(rows) } catch { throw BrokerProblem(error) }
        return refusals
    }

    private func refusal(of session: ExportedSession) async throws(BrokerProblem) -> Refusal? {
        guard let profile = context.providers[session.provider]?.profile else { return .provider }
        guard profile.client(session.client) != nil else { return .client }
        guard context.lapseTime < min(session.idleExpiresAt, session.expiresAt) else { return .expired }
        do throws(StoreFailure) {
            if try await context.store.session(tokenDigest: session.tokenDigest) != nil { return .exists }
            if try await context.store.session(handle: session.handle) != nil { return .exists }
        } catch { throw BrokerProblem(error) }
        return nil
    }

    /// Returns the row of a session whose provider and client are configured.
    private func row(of session: ExportedSession) throws(VaultFailure) -> SessionRow {
        let (vault, now) = (context.vault, context.clock.now())
        let provider = context.providers[session.provider]
        let issuer = provider?.profile.issuer ?? session.provider.text
        let lifetimes = provider?.profile.client(session.client)?.lifetimes ?? SessionLifetimes()
        let facts = SessionFacts(
            provider: session.provider, client: session.client, subject: session.subject, identity: session.identity,
            unverified: [], scope: session.scope, device: nil, lifetimes: lifetimes, signIn: session.signIn,
            thumbprint: session.thumbprint)
        let tokens = tokens(of: session, now)
        let refreshable = session.refreshToken != nil && provider is any TokenRefreshing
        return SessionRow(
            tokenDigest: session.tokenDigest, handle: session.handle,
            subject: vault.index(.subject, [issuer, session.subject]),
            subjectAndClient: vault.index(
                .subjectAndClient, [session.provider.text, session.client.text, session.subject]),
            sid: session.sid.map { vault.index(.sid, [issuer, $0]) },
            provider: vault.index(.provider, [session.provider.text]),
            client: vault.index(.client, [session.provider.text, session.client.text]), createdAt: session.createdAt,
            lastUsedAt: session.lastUsedAt, idleExpiresAt: session.idleExpiresAt, expiresAt: session.expiresAt,
            tokenExpiresAt: tokens?.tokens.expiresAt, refreshable: refreshable,
            facts: try vault.seal(facts.record, as: .session, row: session.tokenDigest),
            tokens: try tokens.map { tokens throws(VaultFailure) in
                try vault.seal(tokens.record, as: .tokens, row: session.tokenDigest)
            })
    }

    /// Returns the session's tokens; nil if the line lacks them.
    ///
    /// If the access token is missing, an empty one that has expired takes its place, so that the first use refreshes.
    private func tokens(of session: ExportedSession, _ now: WallTime) -> StoredTokens? {
        guard session.accessToken != nil || session.refreshToken != nil else { return nil }
        var set = TokenSet(
            accessToken: session.accessToken ?? Secret(""), refreshToken: session.refreshToken, scope: session.scope,
            expiresAt: session.accessToken == nil ? now : session.accessExpiresAt)
        if let key = session.proofKey {
            // The line leaves open whether the provider demands nonces. A refresh that asks for a nonce first is safe in any case.
            set.key = TokenKey(pair: key, usesNonces: true)
            set.credential = .dpop
        } else if context.providers[session.provider]?.profile.kind == .zephr {
            set.credential = .zephrCookie
        }
        return StoredTokens(provider: session.provider, client: session.client, tokens: set, issuedAt: now)
    }
}
