/// Makes the row of a new session from a token set and an identity.
struct SessionMaker: Sendable {
    let context: BrokerContext

    /// Returns the new session with its row and its opened facts.
    ///
    /// The session token's digest is the row's key; the token itself is stored nowhere. `tokens` is nil for a session from an
    /// id_token. `old` is for a session that is moved from an old system. With `isImport`, the first use of the session is written
    /// in any case (`SessionRow.isUnused`).
    func make(
        tokenDigest: Digest, tokens: TokenSet?, identity: ProviderIdentity, profile: ProviderProfile,
        client: ClientProfile,
        device: String?, thumbprint: Digest?, isImport: Bool = false, old: OldTimes? = nil, now: WallTime
    ) throws(VaultFailure) -> LiveSession {
        let vault = context.vault
        let lifetimes = old?.bounding(client.lifetimes, from: now) ?? client.lifetimes
        var facts = SessionFacts(
            provider: profile.name, client: client.name, subject: identity.subject, identity: identity.claims,
            unverified: identity.unverified, scope: tokens?.scope ?? [], device: device, lifetimes: lifetimes,
            signIn: identity.signIn, thumbprint: thumbprint)
        facts.oldCreatedAt = old?.shown(at: now)
        let refreshable = tokens?.refreshToken != nil && context.providers[profile.name] is any TokenRefreshing
        let stored = tokens.map {
            StoredTokens(provider: profile.name, client: client.name, tokens: $0, issuedAt: now)
        }
        let row = SessionRow(
            tokenDigest: tokenDigest, handle: SessionHandle(random: try vault.random(16)),
            subject: vault.index(.subject, [profile.issuer, identity.subject]),
            subjectAndClient: vault.index(
                .subjectAndClient, [profile.name.text, client.name.text, identity.subject]),
            sid: identity.sid.map { vault.index(.sid, [profile.issuer, $0]) },
            provider: vault.index(.provider, [profile.name.text]),
            client: vault.index(.client, [profile.name.text, client.name.text]), createdAt: now,
            lastUsedAt: isImport ? SessionRow.unusedSince(now, lifetimes) : now,
            idleExpiresAt: SessionLimits.idleEnd(usedAt: now, created: now, lifetimes),
            expiresAt: SessionLimits.end(created: now, lifetimes, tokens: tokens, refreshable: refreshable),
            tokenExpiresAt: tokens?.expiresAt, refreshable: refreshable,
            facts: try vault.seal(facts.record, as: .session, row: tokenDigest),
            tokens: try stored.map { stored throws(VaultFailure) in
                try vault.seal(stored.record, as: .tokens, row: tokenDigest)
            })
        return LiveSession(row: row, facts: facts, binding: context.providers.binding(of: facts))
    }
}
